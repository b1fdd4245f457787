import { describe, expect, it } from "vitest";

import { parsePasted } from "./request.ts";

const ann = { descriptors: [{ entries: [{ key: "user", value: "ann" }] }] };

describe("a pasted request", () => {
  it("may be lines of a descriptor", () => {
    const { body, readAs } = parsePasted("user=ann\nendpoint=POST /x?a=b\n\nip=::1", "api");
    expect(body).toEqual({
      domain: "api",
      descriptors: [
        {
          entries: [
            { key: "user", value: "ann" },
            { key: "endpoint", value: "POST /x?a=b" },
          ],
        },
        { entries: [{ key: "ip", value: "::1" }] },
      ],
    });
    expect(readAs).toBe("2 descriptors with 3 entries");
  });

  it("may be JSON in each form that the service accepts", () => {
    const texts = [
      '{"user": "ann"}',
      '[{"key": "user", "value": "ann"}]',
      '{"entries": [{"key": "user", "value": "ann"}]}',
      '{"domain": "api", "descriptor": {"user": "ann"}}',
      '{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}',
    ];
    for (const text of texts) expect(parsePasted(text, "api").body, text).toEqual({ domain: "api", ...ann });
    expect(parsePasted('{"domain": "own", "descriptor": {"user": "ann"}, "cost": 3}', "api").body).toEqual({
      domain: "own",
      cost: 3,
      ...ann,
    });
  });

  it("may be headers, with or without a request line", () => {
    expect(parsePasted("GET /a?b=c HTTP/1.1\nHost: x\nX-Api-Key: k=1", "web").body).toEqual({
      domain: "web",
      method: "GET",
      path: "/a?b=c",
      headers: { host: "x", "x-api-key": "k=1" },
    });
    expect(parsePasted("x-api-key: k", "web").body).toMatchObject({
      path: "/",
      headers: { "x-api-key": "k" },
    });
  });

  it("may be a curl command, and one to /v1/check is its body", () => {
    expect(parsePasted("curl -H 'x-api-key: k' https://x/y", "web").body).toMatchObject({
      method: "GET",
      path: "/y",
      headers: { "x-api-key": "k", host: "x" },
    });
    const check = `curl localhost:8080/v1/check -d '{"domain":"api","descriptor":{"user":"ann"}}'`;
    expect(parsePasted(check, "other").body).toEqual({ domain: "api", ...ann });
  });

  it("says what is wrong", () => {
    expect(() => parsePasted(" ", "api")).toThrow("paste a descriptor");
    expect(() => parsePasted("user", "api")).toThrow('write "key=value"');
    expect(() => parsePasted("{", "api")).toThrow("not valid JSON");
    expect(() => parsePasted("user=ann", "")).toThrow("choose a domain");
    expect(() => parsePasted("a: b\nnothing", "web")).toThrow("not a header");
    expect(() => parsePasted('{"a": {}}', "api")).toThrow("must be text");
  });
});
