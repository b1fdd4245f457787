import { extname, join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";

import type { Service } from "./service.ts";
import { PATIENCE_MS } from "./until.ts";

const CHROMIUM = process.env.CHROMIUM_BIN ?? "/usr/bin/chromium";

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/**
 * Shows the files in this folder instead of those in the binary, under the same policy: for work on the dashboard without
 * building the service again.
 */
const DIST = process.env.DASHBOARD_DIST;

async function useFiles(context: BrowserContext, service: Service, folder: string): Promise<void> {
  await context.route(new RegExp(`^${service.admin}/(assets/.*)?$`), async (route) => {
    const path = new URL(route.request().url()).pathname;
    const real = await fetch(`${service.admin}/`, { headers: { accept: "text/html" } });
    const policy = real.headers.get("content-security-policy") ?? "";
    const file = join(folder, path === "/" ? "index.html" : path);
    await route.fulfill({
      path: file,
      headers: { "content-type": typeOf(file), "content-security-policy": policy },
    });
  });
}

function typeOf(file: string): string {
  const types: Record<string, string> = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
  };
  return types[extname(file)] ?? "text/html";
}

/** A page, and what must not happen on it. */
export interface Watched {
  page: Page;
  /** Errors in the console and requests to other hosts. Empty, if all is well. */
  complaints: string[];
}

/** Opens a page of its own session. `expected` matches errors that the test causes on purpose. */
export async function open(
  browser: Browser,
  service: Service,
  options: BrowserContextOptions = {},
  expected?: RegExp,
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  if (DIST) await useFiles(context, service, DIST);
  const page = await context.newPage();
  const complaints: string[] = [];
  const complain = (text: string) => {
    if (!expected?.test(text)) complaints.push(text);
  };
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      complain(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => complain(`thrown: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(service.admin)) complain(`a request to ${request.url()}`);
  });
  return { page, complaints };
}

/** Signs in by the form. */
export async function signIn(page: Page, service: Service, token: string, hash = ""): Promise<void> {
  await page.goto(`${service.admin}/${hash}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("main#content").waitFor();
}

/** Goes to a place within the dashboard. */
export async function goTo(page: Page, hash: string): Promise<void> {
  await page.evaluate((target) => {
    location.hash = target;
  }, hash);
}
