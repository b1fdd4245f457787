import { type ChildProcess, spawn } from "node:child_process";
import { createConnection, createServer } from "node:net";

import { until } from "./until.ts";

/** A real Redis server that can be lost and come back at the same address. */
export class Redis {
  readonly port: number;
  private child: ChildProcess | null = null;

  private constructor(port: number) {
    this.port = port;
  }

  static async start(): Promise<Redis> {
    const redis = new Redis(await freePort());
    await redis.run();
    return redis;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async run(): Promise<void> {
    const flags = ["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    this.child = spawn("redis-server", flags, { stdio: "ignore" });
    await until("Redis to listen", () => connects(this.port));
  }

  async kill(): Promise<void> {
    const child = this.child;
    if (!child) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill("SIGKILL");
    await ended;
    this.child = null;
  }
}

function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => done(typeof address === "object" && address ? address.port : 0));
    });
  });
}

function connects(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      done(true);
    });
    socket.once("error", () => done(false));
  });
}
