/**
 * Rate limits for WebSocket connections of the package `ws`.
 *
 * @module
 */
import type { IncomingMessage } from 'node:http';

import type { Decision } from './decision.js';
import { rawPairs } from './headers.js';
import { Limiter } from './limiter.js';
import type { LimiterOptions } from './limiter-options.js';

/** The part of a `WebSocket` of the package `ws` that {@link limitConnections} uses. */
export interface LimitedSocket {
  /** 1 while the connection is open. */
  readonly readyState: number;
  pause(): void;
  resume(): void;
  close(code: number, reason: string): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Options of {@link limitConnections}: those of a `Limiter`, except those about the response. Functions get the upgrade request. */
export type ConnectionLimitOptions = Omit<
  LimiterOptions<IncomingMessage>,
  'reserve' | 'reserveTtlMs' | 'onReject' | 'standardHeaders' | 'legacyHeaders' | 'identifier'
>;

/** The close code for a policy violation (RFC 6455). */
const POLICY_VIOLATION = 1008;
const INTERNAL_ERROR = 1011;
const OPEN = 1;

/**
 * Returns a listener for `connection` events that limits how many connections a client opens.
 *
 * ```ts
 * const wss = new WebSocketServer({ server });
 * wss.on('connection', limitConnections({ name: 'chat', limits: '10/minute' }, (socket, request) => {
 *   socket.on('message', (data) => socket.send(data));
 * }));
 * ```
 *
 * A connection that is allowed is passed to `listener`, without losing messages that came meanwhile. One that is
 * denied is closed with code 1008 and a reason such as `rate limit exceeded; retry in 12 seconds`.
 */
export function limitConnections<S extends LimitedSocket>(
  options: ConnectionLimitOptions,
  listener: (socket: S, request: IncomingMessage) => void,
): (socket: S, request: IncomingMessage) => void {
  const limiter = new Limiter<IncomingMessage>(options);
  limiter.warnOfTwin();
  return (socket, request) => {
    // There is no listener yet, so a message would be lost.
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
  // The app has no listener on this socket, and an unhandled 'error' event ends the process.
  socket.on('error', () => {});
  // The close frame of the client has to be read.
  socket.resume();
  socket.close(code, reason);
}

/** Returns the reason for closing; a close frame has room for 123 bytes. */
function reasonOf({ retryAfter }: Decision): string {
  if (retryAfter === null) return 'rate limit exceeded';
  return `rate limit exceeded; retry in ${retryAfter} second${retryAfter === 1 ? '' : 's'}`;
}
