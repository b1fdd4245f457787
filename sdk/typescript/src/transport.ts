import * as http from 'node:http';
import * as https from 'node:https';

import type { ServiceResponse } from './decision.js';
import { TidegateError, UnavailableError } from './errors.js';
import { REFUND_PATH } from './refund.js';

/** Options of a {@link Transport}. */
export interface TransportOptions {
  readonly url: string;
  readonly token?: string;
}

/** The service closes a connection that was idle for 75 s. Closing earlier avoids a request on a closed one. */
const IDLE_MS = 60_000;
/** Checks need two; the others are for reservations and permits, which are not batched. */
const MAX_SOCKETS = 64;
/** The largest batch has a response of about 1 MiB. */
const MAX_BYTES = 16 * 1024 * 1024;

/** Sends JSON over keep-alive connections. It uses `node:http`, which takes half the time of the global `fetch`. */
export class Transport {
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;
  readonly #options: http.RequestOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #basePath: string;

  constructor({ url, token }: TransportOptions) {
    const at = parseUrl(url);
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      // The token is a secret, so it is not part of the message.
      throw new TidegateError('token must be printable ASCII without spaces, as it is sent in a header');
    }
    const secure = at.protocol === 'https:';
    const agentOptions = { keepAlive: true, maxSockets: MAX_SOCKETS, maxFreeSockets: 8, timeout: IDLE_MS };
    this.#agent = secure ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
    this.#request = secure ? https.request : http.request;
    this.#basePath = at.pathname.replace(/\/$/, '');
    // A URL has brackets around an IPv6 address; a socket takes the bare address.
    const host = at.hostname.replace(/^\[(.*)\]$/, '$1');
    this.#options = { agent: this.#agent, method: 'POST', host, ...(at.port ? { port: at.port } : {}) };
    this.#headers = {
      'content-type': 'application/json',
      // Even if the operator has set another body for denials, get the problem: it has the numbers.
      accept: 'application/json, application/problem+json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
  }

  /**
   * Sends a body and returns the response, whatever its status.
   *
   * @throws {UnavailableError} if there is no complete response within `timeoutMs`.
   */
  post(path: string, body: string, timeoutMs: number): Promise<ServiceResponse> {
    return new Promise((resolve, reject) => {
      const call = new Call(body, resolve, reject);
      const options = {
        ...this.#options,
        path: this.#basePath + path,
        headers: { ...this.#headers, 'content-length': call.bytes.length },
      };
      // Any other request that arrives twice charges too much at worst. A refund that arrives twice would give back
      // units that were never charged.
      call.begin(timeoutMs, () => this.#request(options), path !== REFUND_PATH);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

function parseUrl(url: string): URL {
  const at = URL.canParse(url) ? new URL(url) : undefined;
  if (at?.protocol !== 'http:' && at?.protocol !== 'https:') {
    throw new TidegateError(`url must be like "http://localhost:8080", got ${JSON.stringify(url)}`);
  }
  return at;
}

/** One request; it is sent again only if the service had closed the keep-alive connection. */
class Call {
  readonly bytes: Buffer;
  #request: http.ClientRequest | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #sent = false;

  constructor(
    body: string,
    private readonly resolve: (response: ServiceResponse) => void,
    private readonly reject: (error: UnavailableError) => void,
  ) {
    this.bytes = Buffer.from(body);
  }

  begin(timeoutMs: number, open: () => http.ClientRequest, mayRepeat: boolean): void {
    this.#timer = setTimeout(() => {
      const message = `the service did not respond within ${Math.ceil(timeoutMs)} ms`;
      this.#fail(new UnavailableError('timeout', message, { sent: this.#sent }));
    }, timeoutMs);
    this.#send(open, mayRepeat);
  }

  #send(open: () => http.ClientRequest, mayRepeat: boolean): void {
    const request = open();
    this.#request = request;
    let responded = false;
    // Nothing is written before the connection is established.
    request.once('socket', (socket) => {
      const sent = (): void => void (this.#sent = true);
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', sent);
      else sent();
    });
    request.once('response', (response) => {
      responded = true;
      this.#read(response);
    });
    request.on('error', (cause: NodeJS.ErrnoException) => {
      if (this.#ended) return;
      // The service closed the connection before it read the request, as when it is restarted.
      const stale = request.reusedSocket && !responded && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE');
      if (stale && mayRepeat) this.#send(open, false);
      else this.#fail(new UnavailableError('connection', `the service cannot be reached: ${messageOf(cause)}`, { cause, sent: this.#sent }));
    });
    request.end(this.bytes);
  }

  #read(response: http.IncomingMessage): void {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > MAX_BYTES) this.#fail(new UnavailableError('response', `the response is longer than ${MAX_BYTES} bytes`));
    });
    response.on('error', (cause) => {
      this.#fail(new UnavailableError('connection', `the response is incomplete: ${messageOf(cause)}`, { cause }));
    });
    response.on('end', () => {
      if (this.#ended) return;
      this.#end();
      const text = (chunks.length === 1 ? chunks[0] ?? Buffer.alloc(0) : Buffer.concat(chunks)).toString('utf8');
      this.resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
    });
  }

  #fail(error: UnavailableError): void {
    if (this.#ended) return;
    this.#end();
    this.#request?.destroy();
    this.reject(error);
  }

  #end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }
}

function messageOf(cause: NodeJS.ErrnoException): string {
  // If a name has several addresses, the message is empty and each address has its own.
  const first = cause instanceof AggregateError ? (cause.errors[0] as Error | undefined) : undefined;
  return cause.message || first?.message || cause.code || 'unknown error';
}
