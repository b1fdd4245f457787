/** A server that answers as a test says, for what the real service does not do on demand. */
import * as http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface CheckBody {
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** `hang` never answers, `drop` closes the connection. */
export type StubReply =
  | 'hang'
  | 'drop'
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body: string };

export type Answering = (asked: CheckBody) => StubReply | Promise<StubReply>;

export class Stub {
  readonly asked: CheckBody[] = [];
  /** Connections that were ever opened. */
  connections = 0;
  answer: Answering;
  readonly #server: http.Server;
  readonly #sockets = new Set<Socket>();

  private constructor(answer: Answering) {
    this.answer = answer;
    this.#server = http.createServer((request, response) => void this.#serve(request, response));
    this.#server.on('connection', (socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(answer: Answering): Promise<Stub> {
    const stub = new Stub(answer);
    await new Promise<void>((resolve, reject) => {
      stub.#server.once('error', reject);
      stub.#server.listen(0, '127.0.0.1', resolve);
    });
    return stub;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const asked = { path: request.url ?? '', headers: request.headers, body: Buffer.concat(pieces).toString() };
    this.asked.push(asked);
    const reply = await this.answer(asked);
    if (reply === 'hang') return;
    if (reply === 'drop') {
      request.socket.destroy();
      return;
    }
    response.writeHead(reply.status, reply.headers);
    response.end(reply.body);
  }
}

/** Where nobody listens. A port that was free a moment ago may be another test's by now. */
export const NOWHERE = 'http://127.0.0.1:1';

/** The answer to a check, or to a batch with one for each. */
export function passing(remaining = 9): Answering {
  const body = JSON.stringify({
    allowed: true,
    decided_by: { rule: 'inline', name: 'minute' },
    source: 'memory',
    limits: [{ rule: 'inline', name: 'minute', limit: 10, remaining, reset_after_ms: 60_000, retry_after_ms: null, shadow: false }],
  });
  const headers = {
    'ratelimit-policy': '"inline:minute";q=10;w=60',
    ratelimit: `"inline:minute";r=${remaining};t=60`,
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': '1700000060',
  };
  return forEach({ status: 200, headers, body });
}

/** A denial with 7 seconds to wait. */
export function denying(): Answering {
  const body = JSON.stringify({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Quota Exceeded',
    status: 429,
    detail: 'limit minute of rule inline allows 10 per minute; retry in 7 seconds',
    'violated-policies': ['inline:minute'],
    retry_after: 7,
    limit: 10,
    window: 60,
    scope: 'inline',
    allowed: false,
    decided_by: { rule: 'inline', name: 'minute' },
    source: 'memory',
    limits: [{ rule: 'inline', name: 'minute', limit: 10, remaining: 0, reset_after_ms: 60_000, retry_after_ms: 7_000, shadow: false }],
  });
  const headers = {
    'ratelimit-policy': '"inline:minute";q=10;w=60',
    ratelimit: '"inline:minute";r=0;t=7',
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': '1700000007',
    'retry-after': '7',
  };
  return forEach({ status: 429, headers, body });
}

/** Answers a check with this, and a batch with a list of it. */
export function forEach(reply: { status: number; headers: Readonly<Record<string, string>>; body: string }): Answering {
  const problem = reply.status === 200 ? 'application/json' : 'application/problem+json';
  return ({ body }) => {
    const asked: unknown = JSON.parse(body);
    if (!Array.isArray(asked)) return { ...reply, headers: { 'content-type': problem, ...reply.headers } };
    const element = `{"status":${reply.status},"headers":${JSON.stringify(reply.headers)},"body":${reply.body}}`;
    return { status: 200, headers: { 'content-type': 'application/json' }, body: `[${asked.map(() => element).join(',')}]` };
  };
}
