import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { goTo, launch, open, signIn } from "./support/browser.ts";
import { API_RULES, HOSTILE, WEB_RULES } from "./support/rules.ts";
import { Service } from "./support/service.ts";
import { Traffic } from "./support/traffic.ts";
import { until } from "./support/until.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENSHOTS = new URL("../screenshots/", import.meta.url).pathname;

const PLACES: Record<string, string> = {
  overview: "#/overview",
  "overview-hour": "#/overview?span=1h",
  keys: "#/keys?by=denied&window=60m",
  "keys-active": "#/keys?by=active&window=60m",
  events: "#/events",
  rules: "#/rules",
  "rules-tree": "#/rules?view=tree",
  rule: "#/rules/api/per%20key",
  domain: "#/rules/shop",
  editor: "#/rules/shop?tab=edit",
  versions: "#/rules/shop?tab=versions",
  "file-rules": "#/rules/api?tab=edit",
  tenants: "#/tenants",
  tenant: "#/tenants/acme",
  "tenant-unknown": "#/tenants/nobody",
  try: "#/try?domain=api&request=api_key%3Dacme",
  nodes: "#/nodes",
  settings: "#/settings",
  tokens: "#/tokens",
  audit: "#/audit",
};

const LOOKS: Record<string, BrowserContextOptions> = {
  dark: { colorScheme: "dark" },
  light: { colorScheme: "light" },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 },
};

interface Violation {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary?: string }[];
}

/** What axe looks at: a page differs between colours by its contrast, and on a phone by its layout. */
const RULES: Record<string, object> = {
  dark: {},
  light: { runOnly: ["color-contrast", "link-in-text-block"] },
  phone: {},
};

/** Returns what axe takes for serious or worse. */
async function violations(page: Page, look: string): Promise<string[]> {
  // Evaluated by the debugger, which the page's own policy does not hinder.
  await page.evaluate(AXE);
  const found = await page.evaluate(async (options) => {
    type Axe = { run(options: object): Promise<{ violations: Violation[] }> };
    const { axe } = globalThis as unknown as { axe: Axe };
    return (await axe.run({ resultTypes: ["violations"], ...options })).violations;
  }, RULES[look] ?? {});
  const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(
    ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`,
  );
}

describe("every page", () => {
  let service: Service;
  let browser: Browser;
  let traffic: Traffic;

  beforeAll(async () => {
    mkdirSync(SCREENSHOTS, { recursive: true });
    service = await Service.start({ "api.yaml": API_RULES, "web.yaml": WEB_RULES });
    const shop = (requests: number) =>
      `domain: shop\ndescriptors:\n  - key: user\n    limits:\n      - { name: daily, requests: ${requests}, per: day }\n`;
    await service.api("PUT", "rules/shop?comment=first", shop(100));
    await service.api("PUT", "rules/shop?comment=people%20complained", shop(200));
    const at = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    await service.api("PUT", "quotas/acme", {
      tier: "pro",
      overrides: [
        {
          limit: "steady",
          requests_per_unit: 200,
          duration: "365d",
          effective_at: at(-1),
          expires_at: at(20),
        },
        {
          limit: "steady",
          requests_per_unit: 900,
          duration: "365d",
          effective_at: at(25),
          expires_at: at(60),
        },
        { descriptor: "endpoint:POST /orders", unlimited: true, effective_at: at(40) },
      ],
    });
    await service.api("PUT", "quotas/globex", { tier: "free" });
    await service.newToken("billing", "operator");
    for (const name of ["initech", "umbrella", ...Object.values(HOSTILE)]) {
      const id = `7b1f22c4-90f7-4c52-8a4c-5d0a1d3c5a0${name.length % 10}`;
      for (let sent = 0; sent < 9; sent += 1) await service.check("api", { api_key: name }, id);
    }
    traffic = new Traffic(service, "web", [{ client: "one" }, { client: "two" }, { client: "three" }]);
    browser = await launch();
  });

  afterAll(async () => {
    await traffic?.stop();
    await browser?.close();
    await service?.stop();
  });

  for (const [look, options] of Object.entries(LOOKS)) {
    it(`is whole in ${look}, and axe finds nothing serious`, { timeout: 180_000 }, async () => {
      const { page, complaints } = await open(browser, service, options);
      await page.goto(`${service.admin}/`);
      await page.getByLabel("Token").waitFor();
      await page.screenshot({ path: `${SCREENSHOTS}sign-in-${look}.png` });
      expect(await violations(page, look), "sign-in").toEqual([]);
      await signIn(page, service, service.token);
      for (const [name, hash] of Object.entries(PLACES)) {
        await goTo(page, hash);
        await page.locator("main h1").waitFor();
        await until(`${name} to load`, async () => (await page.locator("main .loading").count()) === 0);
        if (name === "overview") await page.getByText("Live", { exact: true }).waitFor();
        if (name === "try") {
          await page.getByRole("button", { name: "Explain" }).click();
          await page.locator(".outcome").waitFor();
        }
        await page.screenshot({ path: `${SCREENSHOTS}${name}-${look}.png`, fullPage: true });
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        expect(wider, `${name} is wider than the screen`).toBeLessThanOrEqual(0);
        expect(await violations(page, look), name).toEqual([]);
      }
      await dialogs(page, look);
      expect(complaints).toEqual([]);
      await page.context().close();
    });
  }

  async function dialogs(page: Page, look: string): Promise<void> {
    const shoot = async (name: string) => {
      await until(`${name} to load`, async () => (await page.locator("dialog .loading").count()) === 0);
      await page.screenshot({ path: `${SCREENSHOTS}${name}-${look}.png` });
      expect(await violations(page, look), name).toEqual([]);
      await page.keyboard.press("Escape");
    };
    await goTo(page, "#/keys?by=denied&window=60m");
    await page.getByRole("button", { name: "Open api_key=initech" }).click();
    await page.getByRole("dialog").getByText("Remembered denials, last hour").waitFor();
    await shoot("key");
    await page
      .getByRole("row", { name: /api_key=initech/ })
      .getByRole("button", { name: "Override" })
      .click();
    await page.getByRole("button", { name: "Apply the override" }).waitFor();
    await shoot("override");
    await page.locator("main").focus();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await shoot("help");
  }
});

describe("a thousand rules", () => {
  let service: Service;
  let browser: Browser;

  beforeAll(async () => {
    const rules = Array.from(
      { length: 1000 },
      (_, index) => `  - { key: k${index}, rate_limit: { unit: minute, requests_per_unit: 5 } }`,
    );
    service = await Service.start({ "many.yaml": `domain: many\ndescriptors:\n${rules.join("\n")}\n` });
    browser = await launch();
  });

  afterAll(async () => {
    await browser?.close();
    await service?.stop();
  });

  it("are shown in pages, and found", async () => {
    const { page, complaints } = await open(browser, service);
    await signIn(page, service, service.token, "#/rules");
    await page.getByText("1–50 of 1,000").waitFor();
    await page.reload();
    await page.getByText("1–50 of 1,000").waitFor();
    const took = await page.evaluate(() => {
      const paints = performance.getEntriesByType("paint");
      return {
        paint_ms: paints.find((entry) => entry.name === "first-contentful-paint")?.startTime,
        rules_ms: performance.now(),
      };
    });
    console.log(
      `a thousand rules: first paint after ${took.paint_ms} ms, the list before ${took.rules_ms} ms`,
    );
    expect(took.paint_ms, "first paint").toBeLessThan(1000);
    await page.getByLabel("Search rules").fill("k777");
    await page.getByRole("link", { name: "k777", exact: true }).waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    expect(complaints).toEqual([]);
  });
});
