import * as http from 'node:http';
import * as https from 'node:https';

import type { Answer } from './decision.js';
import { TidegateError, UnavailableError } from './errors.js';
import { REFUND_PATH } from './refund.js';

/** Where the service is, and how it is spoken to. */
export interface TransportOptions {
  readonly url: string;
  readonly token?: string;
}

/** The service closes a connection that was idle for 75 s; ours go before, so that none is used as it closes. */
const IDLE_MS = 60_000;
/** Checks need two; the rest is for reservations and permits, which are not batched. */
const MOST_SOCKETS = 64;
/** The largest batch has answers of about 1 MiB. */
const MOST_BYTES = 16 * 1024 * 1024;

/** POSTs JSON over kept connections. `node:http`, because a call takes half of what the global fetch does. */
export class Transport {
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;
  readonly #options: http.RequestOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #basePath: string;

  constructor({ url, token }: TransportOptions) {
    const at = parseUrl(url);
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      // The token itself is a secret, and stays out of logs.
      throw new TidegateError('token must be printable ASCII without spaces, as it is sent in a header');
    }
    const secure = at.protocol === 'https:';
    const agentOptions = { keepAlive: true, maxSockets: MOST_SOCKETS, maxFreeSockets: 8, timeout: IDLE_MS };
    this.#agent = secure ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
    this.#request = secure ? https.request : http.request;
    this.#basePath = at.pathname.replace(/\/$/, '');
    // Brackets are how a URL writes version 6; a socket wants the bare address.
    const host = at.hostname.replace(/^\[(.*)\]$/, '$1');
    this.#options = { agent: this.#agent, method: 'POST', host, ...(at.port ? { port: at.port } : {}) };
    this.#headers = {
      'content-type': 'application/json',
      // Where denials have a body of the operator's, the problem has the numbers.
      accept: 'application/json, application/problem+json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
  }

  /**
   * Sends a body and waits for the whole answer, at most so long.
   *
   * @throws {UnavailableError} if there is none; an answer of any status is one.
   */
  post(path: string, body: string, timeoutMs: number): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = new Call(body, resolve, reject);
      const options = {
        ...this.#options,
        path: this.#basePath + path,
        headers: { ...this.#headers, 'content-length': call.bytes.length },
      };
      // Sent twice, anything else takes too much at worst; a refund would give away what nobody had taken.
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
    throw new TidegateError(`${JSON.stringify(url)} is no url of a service: write it like "http://localhost:8080"`);
  }
  return at;
}

/** One call, which is sent again only if a kept connection turned out to be closed. */
class Call {
  readonly bytes: Buffer;
  #request: http.ClientRequest | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #sent = false;

  constructor(
    body: string,
    private readonly resolve: (answer: Answer) => void,
    private readonly reject: (error: UnavailableError) => void,
  ) {
    this.bytes = Buffer.from(body);
  }

  begin(timeoutMs: number, open: () => http.ClientRequest, mayRepeat: boolean): void {
    this.#timer = setTimeout(() => {
      const message = `the service did not answer within ${Math.ceil(timeoutMs)} ms`;
      this.#fail(new UnavailableError('timeout', message, { sent: this.#sent }));
    }, timeoutMs);
    this.#send(open, mayRepeat);
  }

  #send(open: () => http.ClientRequest, mayRepeat: boolean): void {
    const request = open();
    this.#request = request;
    let answered = false;
    // Nothing is written before the connection stands.
    request.once('socket', (socket) => {
      const sent = (): void => void (this.#sent = true);
      if (socket.connecting) socket.once('encrypted' in socket ? 'secureConnect' : 'connect', sent);
      else sent();
    });
    request.once('response', (response) => {
      answered = true;
      this.#read(response);
    });
    request.on('error', (cause: NodeJS.ErrnoException) => {
      if (this.#ended) return;
      // The service closed the connection, as when it was restarted, before it read this.
      const stale = request.reusedSocket && !answered && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE');
      if (stale && mayRepeat) this.#send(open, false);
      else this.#fail(new UnavailableError('connection', `the service cannot be reached: ${whatOf(cause)}`, { cause, sent: this.#sent }));
    });
    request.end(this.bytes);
  }

  #read(response: http.IncomingMessage): void {
    const pieces: Buffer[] = [];
    let length = 0;
    response.on('data', (piece: Buffer) => {
      pieces.push(piece);
      length += piece.length;
      if (length > MOST_BYTES) this.#fail(new UnavailableError('answer', `the answer is longer than ${MOST_BYTES} bytes`));
    });
    response.on('error', (cause) => {
      this.#fail(new UnavailableError('connection', `the answer broke off: ${whatOf(cause)}`, { cause }));
    });
    response.on('end', () => {
      if (this.#ended) return;
      this.#end();
      const text = (pieces.length === 1 ? pieces[0] ?? Buffer.alloc(0) : Buffer.concat(pieces)).toString('utf8');
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

function whatOf(cause: NodeJS.ErrnoException): string {
  // Where a name has several addresses, the message is empty and each has its own.
  const first = cause instanceof AggregateError ? (cause.errors[0] as Error | undefined) : undefined;
  return cause.message || first?.message || cause.code || 'for no reason given';
}
