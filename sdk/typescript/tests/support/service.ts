/** The real binary, started with rules of a test's own and stopped with it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { afterAll, beforeAll } from 'vitest';

import { until } from './until.js';

export const RULES: Readonly<Record<string, string>> = {
  'apps.yaml': 'domain: apps\ninline_limits: { max: 1000 }\n',
  'shop.yaml': `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: export
    concurrency: { max: 1, timeout: 10m }
`,
};

export class Service {
  private constructor(
    readonly url: string,
    private readonly folder: string,
    private child: ChildProcess,
  ) {}

  /** Without any rules, it is as somebody starts it for the first time. */
  static async start(rules: Readonly<Record<string, string>> | 'none' = RULES): Promise<Service> {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-ts-'));
    if (rules !== 'none') {
      mkdirSync(join(folder, 'rules'));
      for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, 'rules', name), text);
    }
    try {
      const { child, place } = await launch(folder, '127.0.0.1:0');
      return new Service(`http://${place}`, folder, child);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops it where it is, and waits until it has: a signal takes a moment to arrive. */
  async pause(): Promise<void> {
    this.child.kill('SIGSTOP');
    await until('the service is stopped', () => {
      const stat = readFileSync(`/proc/${this.child.pid}/stat`, 'utf8');
      return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
    });
  }

  resume(): void {
    this.child.kill('SIGCONT');
  }

  /** Ends it without a warning. */
  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }

  /** Starts it again where it was. */
  async restart(): Promise<void> {
    const { child } = await launch(this.folder, new URL(this.url).host);
    this.child = child;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** One service for all tests of a file, which ask about clients of their own. */
export function serviceForAll(): { readonly url: string } {
  let service: Service | undefined;
  beforeAll(async () => {
    service = await Service.start();
  });
  afterAll(() => service?.stop());
  return {
    get url(): string {
      if (!service) throw new Error('the service runs only while tests do');
      return service.url;
    },
  };
}

async function launch(folder: string, listen: string): Promise<{ child: ChildProcess; place: string }> {
  const binary = process.env['TIDEGATE_BIN'];
  if (!binary || !existsSync(binary)) {
    throw new Error('set TIDEGATE_BIN to the binary of the service: cargo build --package tidegate-server');
  }
  // Whoever runs the tests may have settings of their own.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TIDEGATE_')));
  const child = spawn(binary, ['serve'], {
    cwd: folder,
    env: {
      ...env,
      ...(existsSync(join(folder, 'rules')) ? { TIDEGATE_RULES: join(folder, 'rules') } : {}),
      TIDEGATE_DATA: join(folder, 'data'),
      TIDEGATE_GRPC__LISTEN: '127.0.0.1:0',
      TIDEGATE_HTTP__LISTEN: listen,
      TIDEGATE_ADMIN__LISTEN: '127.0.0.1:0',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (piece: Buffer) => (errors += piece.toString()));
  for await (const line of createInterface({ input: child.stdout })) {
    const [name, place] = line.trim().split(/\s+/);
    if (name === 'http' && place) {
      child.stdout.resume();
      return { child, place };
    }
  }
  throw new Error(`the service did not start: ${errors}`);
}
