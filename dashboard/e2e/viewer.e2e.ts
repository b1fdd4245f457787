import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { goTo, launch, open, signIn, type Watched } from "./support/browser.ts";
import { API_RULES } from "./support/rules.ts";
import { Service } from "./support/service.ts";

describe("a viewer", () => {
  let service: Service;
  let browser: Browser;
  let watched: Watched;

  beforeAll(async () => {
    service = await Service.start({ "api.yaml": API_RULES });
    for (let sent = 0; sent < 8; sent += 1) await service.check("api", { api_key: "acme" });
    browser = await launch();
    watched = await open(browser, service, {}, /status of 403/);
    await signIn(watched.page, service, await service.newToken("vera", "viewer"));
  });

  afterAll(async () => {
    await browser?.close();
    await service?.stop();
  });

  it("finds everything that changes something disabled", async () => {
    const { page } = watched;
    const disabled: [string, string][] = [
      ["#/keys", "Override"],
      ["#/tenants/acme", "Override"],
      ["#/tenants/acme", "Reset usage"],
      ["#/rules", "New domain"],
      ["#/tokens", "New token"],
      ["#/events", "Send a test event"],
      ["#/try?domain=api&request=api_key%3Dacme", "Send one for real"],
    ];
    for (const [hash, name] of disabled) {
      await goTo(page, hash);
      const button = page.getByRole("button", { name, exact: true }).first();
      await button.waitFor();
      expect(await button.isDisabled(), `${name} on ${hash}`).toBe(true);
    }
    await goTo(page, "#/rules/api/per%20key");
    expect(await page.getByLabel("Shadow").isDisabled()).toBe(true);
  });

  it("is refused by the service too, with the session's own token against forgery", async () => {
    const attempts: [string, string, unknown][] = [
      ["PUT", "switches/*", { mode: "off" }],
      ["PUT", "quotas/acme", { tier: null, overrides: [] }],
      ["POST", "usage/acme/reset", undefined],
      ["POST", "tokens", { name: "mine", role: "admin" }],
    ];
    const entries = [{ key: "api_key", value: "acme" }];
    if (await service.has("try"))
      attempts.push(["POST", "try", { domain: "api", descriptors: [{ entries }] }]);
    const statuses = await watched.page.evaluate(async (attempts) => {
      const session = (await (await fetch("admin/v1/session")).json()) as { csrf: string };
      const send = async ([method, path, body]: (typeof attempts)[number]) => {
        const headers = { "x-csrf-token": session.csrf, "content-type": "application/json" };
        const response = await fetch(`admin/v1/${path}`, {
          method,
          headers,
          body: body ? JSON.stringify(body) : undefined,
        });
        return response.status;
      };
      return Promise.all(attempts.map(send));
    }, attempts);
    expect(statuses).toEqual(attempts.map(() => 403));
  });

  it("sees no error otherwise", () => {
    expect(watched.complaints).toEqual([]);
  });
});

describe("a session", () => {
  let service: Service;
  let browser: Browser;

  beforeAll(async () => {
    service = await Service.start({ "api.yaml": API_RULES });
    browser = await launch();
  });

  afterAll(async () => {
    await browser?.close();
    await service?.stop();
  });

  it("changes nothing without its token against forgery", async () => {
    const { page } = await open(browser, service, {}, /status of 403/);
    await signIn(page, service, service.token);
    const status = await page.evaluate(async () => {
      const headers = { "content-type": "application/json" };
      return (await fetch("admin/v1/switches/*", { method: "PUT", headers, body: '{"mode":"off"}' })).status;
    });
    expect(status).toBe(403);
  });

  it("ends with its token, and the page says so", async () => {
    const { page } = await open(browser, service, {}, /status of 401|ERR_ABORTED/);
    const { id, token } = await service.api<{ id: string; token: string }>("POST", "tokens", {
      name: "gone",
      role: "viewer",
    });
    await signIn(page, service, token);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await service.api("DELETE", `tokens/${id}`);
    await page.getByText("The session has ended").waitFor();
  });
});
