import { describe, expect, it } from "vitest";

import { parseCurl, words } from "./curl.ts";

describe("the words of a command line", () => {
  it("are split as a shell splits them", () => {
    expect(words(`curl 'a b' "c \\"d\\" $x" e\\ f ''`)).toEqual(["curl", "a b", 'c "d" $x', "e f", ""]);
    expect(words("a \\\n  b \\\r\n c")).toEqual(["a", "b", "c"]);
    expect(words(`$'it\\'s \\u0041\\n'`)).toEqual(["it's A\n"]);
  });

  it("need closed quotes", () => {
    expect(() => words("curl 'x")).toThrow("single quote");
    expect(() => words('curl "x')).toThrow("double quote");
  });
});

describe("a curl command", () => {
  it("is read as a browser copies it", () => {
    const request = parseCurl(`curl 'https://api.example/v1/orders?limit=5' \\
      -H 'accept: */*' \\
      -H 'x-api-key: abc' \\
      --data-raw '{"a":1}' \\
      --compressed`);
    expect(request).toEqual({
      method: "POST",
      path: "/v1/orders?limit=5",
      host: "api.example",
      headers: {
        accept: "*/*",
        "x-api-key": "abc",
        "content-type": "application/x-www-form-urlencoded",
        host: "api.example",
      },
      body: '{"a":1}',
    });
  });

  it("may have options without spaces or with an equals sign", () => {
    const request = parseCurl("curl -XDELETE -H'a: b' --header='c: d' -sS localhost:8080/x");
    expect(request.method).toBe("DELETE");
    expect(request.headers).toMatchObject({ a: "b", c: "d", host: "localhost:8080" });
    expect(request.path).toBe("/x");
  });

  it("has the headers that options stand for", () => {
    const { headers } = parseCurl("curl -u ann:secret -A mine -b a=1 -e http://r http://x/");
    expect(headers).toMatchObject({
      authorization: "Basic YW5uOnNlY3JldA==",
      "user-agent": "mine",
      cookie: "a=1",
      referer: "http://r",
    });
    expect(parseCurl("curl --oauth2-bearer t http://x").headers.authorization).toBe("Bearer t");
  });

  it("does not take values of other options for the address", () => {
    const request = parseCurl("curl -s -o /dev/null -w '%{http_code}' -m 3 http://x/y | jq .");
    expect(request.path).toBe("/y");
    expect(request.method).toBe("GET");
  });

  it("puts data into the query with -G", () => {
    const request = parseCurl("curl -G http://x/s -d q=1 -d r=2");
    expect(request).toMatchObject({ method: "GET", path: "/s?q=1&r=2", body: null });
  });

  it("says what is missing", () => {
    expect(() => parseCurl("wget http://x")).toThrow("begin with curl");
    expect(() => parseCurl("curl -s")).toThrow("no address");
    expect(() => parseCurl("curl -H")).toThrow("-H needs a value");
    expect(() => parseCurl("curl http://[")).toThrow("not a URL");
  });
});
