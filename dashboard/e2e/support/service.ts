import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

import { until } from "./until.ts";

const BINARY = resolve(process.env.TIDEGATE_BIN ?? "../target/debug/tidegate");

/** The real service, on free ports, with a folder of its own. */
export class Service {
  readonly folder: string;
  readonly http: string;
  readonly admin: string;
  readonly token: string;
  private readonly child: ChildProcess;

  private constructor(folder: string, addresses: Map<string, string>, child: ChildProcess) {
    this.folder = folder;
    this.http = `http://${addresses.get("http")}`;
    this.admin = `http://${addresses.get("admin")}`;
    this.token = readFileSync(join(folder, "data", "admin-token"), "utf8").trim();
    this.child = child;
  }

  /** Starts it with rule files by their names. */
  static async start(rules: Record<string, string>, settings: Record<string, string> = {}): Promise<Service> {
    const folder = mkdtempSync(join(tmpdir(), "tidegate-e2e-"));
    mkdirSync(join(folder, "rules"));
    for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, "rules", name), text);
    const arguments_ = ["serve", "--rules", "rules", "--data", "data"];
    for (const listener of ["grpc", "http", "admin"]) arguments_.push(`--${listener}`, "127.0.0.1:0");
    const child = spawn(BINARY, arguments_, {
      cwd: folder,
      env: { PATH: process.env.PATH, ...settings },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const addresses = new Map<string, string>();
    const log: string[] = [];
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on("line", (line) => {
      log.push(line);
      const found = /"listener":"(\w+)","at":"([^"]+)"/.exec(line);
      if (found) addresses.set(found[1] as string, found[2] as string);
    });
    await until("the service to listen", () => {
      if (child.exitCode !== null) throw new Error(`it has ended:\n${log.join("\n")}`);
      return addresses.size === 3;
    });
    return new Service(folder, addresses, child);
  }

  /** Sends one request for a decision. Returns the status: 200, or 429 for a denial. */
  async check(domain: string, descriptor: Record<string, string>, requestId?: string): Promise<number> {
    const response = await fetch(`${this.http}/v1/check`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(requestId && { "x-request-id": requestId }) },
      body: JSON.stringify({ domain, descriptor }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  /** Calls the admin API with the administrator's token. */
  async api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const isText = typeof body === "string";
    const response = await fetch(`${this.admin}/admin/v1/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        "content-type": isText ? "application/yaml" : "application/json",
      },
      body: body === undefined ? undefined : isText ? body : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }

  /** Returns whether the API has a route. */
  async has(path: string): Promise<boolean> {
    const document = (await (await fetch(`${this.admin}/openapi.json`)).json()) as { paths: object };
    return `/admin/v1/${path}` in document.paths;
  }

  async newToken(name: string, role: string): Promise<string> {
    return (await this.api<{ token: string }>("POST", "tokens", { name, role })).token;
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGKILL");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
