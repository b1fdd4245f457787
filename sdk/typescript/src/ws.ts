/**
 * Rate limits for the WebSockets of the package `ws`: whoever opens too many is closed with 1008.
 *
 * @module
 */
import type { IncomingMessage } from 'node:http';

import type { Decision } from './decision.js';
import { rawPairs } from './headers.js';
import { Limiter } from './limiter.js';
import type { LimiterOptions } from './limiter-options.js';

/** A WebSocket as `ws` has it, as far as a limit needs to know it. */
export interface LimitedSocket {
  /** 1 while it is open. */
  readonly readyState: number;
  pause(): void;
  resume(): void;
  close(code: number, reason: string): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Options of {@link limitConnections}: those of a `Limiter` that are not about the answer. Functions are called with the upgrade request. */
export type ConnectionLimitOptions = Omit<
  LimiterOptions<IncomingMessage>,
  'reserve' | 'reserveTtlMs' | 'onReject' | 'standardHeaders' | 'legacyHeaders' | 'identifier'
>;

/** Policy violation, which is what RFC 6455 has for it. */
const POLICY_VIOLATION = 1008;
const INTERNAL_ERROR = 1011;
const OPEN = 1;

/**
 * Limits how many connections a client opens. What passes goes to the listener; what does not is closed with
 * 1008 and a reason that says when to come back. Messages that come meanwhile wait.
 *
 * ```ts
 * const wss = new WebSocketServer({ server });
 * wss.on('connection', limitConnections({ name: 'chat', limits: '10/minute' }, (socket, request) => {
 *   socket.on('message', (data) => socket.send(data));
 * }));
 * ```
 */
export function limitConnections<S extends LimitedSocket>(
  options: ConnectionLimitOptions,
  listener: (socket: S, request: IncomingMessage) => void,
): (socket: S, request: IncomingMessage) => void {
  const limiter = new Limiter<IncomingMessage>(options);
  limiter.warnOfTwin();
  return (socket, request) => {
    // Nobody listens yet: a message would be lost.
    socket.pause();
    const decide = async (): Promise<void> => {
      const outcome = await limiter.decide(plainRequest(request), request);
      if (outcome.kind === 'deny') refuse(socket, POLICY_VIOLATION, reasonOf(outcome.decision));
      else if (socket.readyState === OPEN) {
        listener(socket, request);
        socket.resume();
      }
    };
    decide().catch((error: unknown) => {
      limiter.client.logger.error(`tidegate: a WebSocket was closed: ${error instanceof Error ? error.message : String(error)}`);
      refuse(socket, INTERNAL_ERROR, 'internal error');
    });
  };
}

function plainRequest(request: IncomingMessage): Parameters<Limiter<IncomingMessage>['decide']>[0] {
  return {
    method: request.method ?? 'GET',
    path: (request.url ?? '/').split('?', 1)[0] ?? '/',
    peer: request.socket.remoteAddress,
    headers: rawPairs(request.rawHeaders),
    identity: request,
  };
}

function refuse(socket: LimitedSocket, code: number, reason: string): void {
  // The app does not listen to this one, and an error that nobody hears of ends the process.
  socket.on('error', () => {});
  // The answer to the close frame has to be read.
  socket.resume();
  socket.close(code, reason);
}

/** At most 123 bytes fit into a close frame. */
function reasonOf({ retryAfter }: Decision): string {
  if (retryAfter === null) return 'rate limit exceeded';
  return `rate limit exceeded; retry in ${retryAfter} second${retryAfter === 1 ? '' : 's'}`;
}
