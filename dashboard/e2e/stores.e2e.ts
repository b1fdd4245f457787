import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { goTo, launch, open, signIn } from "./support/browser.ts";
import { Redis } from "./support/redis.ts";
import { API_RULES } from "./support/rules.ts";
import { Service } from "./support/service.ts";
import { Traffic } from "./support/traffic.ts";

describe("two nodes on one Redis", () => {
  let redis: Redis;
  let nodes: Service[];
  let browser: Browser;

  beforeAll(async () => {
    redis = await Redis.start();
    const start = () => Service.start({ "api.yaml": API_RULES }, { TIDEGATE_STORE: redis.url });
    nodes = await Promise.all([start(), start()]);
    browser = await launch();
  });

  afterAll(async () => {
    await browser?.close();
    await Promise.all((nodes ?? []).map((node) => node.stop()));
    await redis?.kill();
  });

  it("show one merged top list", async () => {
    const [one, two] = nodes as [Service, Service];
    for (let sent = 0; sent < 9; sent += 1) {
      await one.check("api", { api_key: "first" });
      await two.check("api", { api_key: "second" });
    }
    const { page, complaints } = await open(browser, one);
    await signIn(page, one, one.token, "#/keys?by=denied&window=60m");
    await page.getByText("Merged over all nodes").waitFor();
    await page.getByRole("row", { name: /api_key=first/ }).waitFor();
    await page.getByRole("row", { name: /api_key=second/ }).waitFor();
    await goTo(page, "#/nodes");
    await page.getByText("(this node)").waitFor();
    expect(await page.getByRole("table").first().getByRole("row").count()).toBe(3);
    expect(complaints).toEqual([]);
  });

  it("say that Redis is lost, and that it is back", async () => {
    const [one] = nodes as [Service, Service];
    const { page, complaints } = await open(browser, one);
    await signIn(page, one, one.token);
    await page.getByText("Live", { exact: true }).waitFor();
    const traffic = new Traffic(one, "api", [{ api_key: "steady" }]);
    await redis.kill();
    await page.locator("[data-banner=degraded]").waitFor();
    await redis.run();
    await page.locator("[data-banner=recovered]").waitFor();
    await traffic.stop();
    expect(await page.locator("[data-banner=degraded]").count()).toBe(0);
    expect(complaints).toEqual([]);
  });
});
