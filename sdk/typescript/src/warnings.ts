/** Receives warnings and errors, such as `console` or the logger of an app. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}

/** The codes of warnings about likely mistakes; each is logged once per process. */
export type WarningCode =
  | 'TIDEGATE_TRUST_ALL'
  | 'TIDEGATE_SPOOFABLE_KEY'
  | 'TIDEGATE_DOUBLE_COUNT'
  | 'TIDEGATE_LIMITER_PER_REQUEST'
  | 'TIDEGATE_IPV6_UNGROUPED'
  | 'TIDEGATE_TRUST_PROXY_IGNORED'
  | 'TIDEGATE_UNNAMED_TWIN'
  | 'TIDEGATE_NO_ADDRESS';

const TEXTS: Readonly<Record<WarningCode, string>> = {
  TIDEGATE_TRUST_ALL:
    'trustedProxies contains a network of all addresses (/0), so any client can claim any address and escape its limit. ' +
    'List only the networks of your own proxies, such as "10.0.0.0/8".',
  TIDEGATE_SPOOFABLE_KEY:
    'the key is taken from a header that any client can send, so a client escapes its limit by sending another value. ' +
    'Remove keyGenerator and set trustedProxies, so that only your own proxies are believed about the address of the ' +
    'client.',
  TIDEGATE_DOUBLE_COUNT:
    'one request was charged to the same counter twice, so clients reach the limit at half of it. ' +
    'Mount the middleware once, or give the second one a name of its own.',
  TIDEGATE_LIMITER_PER_REQUEST:
    'a client or a middleware was created while a request was handled, or more than 100 of them exist or were created ' +
    'within a minute. Each has its own connections and local counters, so checks are not batched and memory grows; ' +
    'those without a name share their counters. Create it once when the app starts, and use it in the handler.',
  TIDEGATE_IPV6_UNGROUPED:
    'IPv6 addresses are grouped by more than 64 bits, but one customer usually has a whole /56 or /64 and can use a new ' +
    'address for every request. Leave ipv6Subnet at 56, or set it to 64 or less.',
  TIDEGATE_TRUST_PROXY_IGNORED:
    'the app has "trust proxy" set, but trustedProxies of the rate limit is empty, so behind a proxy all clients share ' +
    'one key, the address of the proxy. Set trustedProxies to the networks of your proxies, or to their number: ' +
    'trustedProxies: 1 takes the last entry of X-Forwarded-For.',
  TIDEGATE_UNNAMED_TWIN:
    'two limiters have a limit in common and no name, so only the order in which the app creates them tells their ' +
    'counters apart; if the order changes, they use each other\'s counters. ' +
    'Give each a name, such as rateLimit({ name: "login", ... }); limiters with the same name share their counters.',
  TIDEGATE_NO_ADDRESS:
    'a connection has no client address (it may be a Unix socket), so all such clients share one key. ' +
    'Behind a proxy set trustedProxies: 1, which takes the last entry of X-Forwarded-For, or set keyGenerator (key in ' +
    'Limiter).',
};

/** More limiters than this, at once or within a minute, are a sign that they are created again and again. */
const MANY = 100;
const MINUTE_MS = 60_000;

interface Shared {
  readonly logged: Set<WarningCode>;
  /** Clients and limiters that still exist. */
  alive: number;
  /** When the last {@link MANY} clients and limiters were created. */
  createdAt: number[];
}

/** One for the process, even if the package is loaded both by `import` and by `require`. */
const shared: Shared = ((globalThis as Record<symbol, unknown>)[Symbol.for('tidegate.warnings')] ??= {
  logged: new Set(),
  alive: 0,
  createdAt: [],
}) as Shared;

const collected = new FinalizationRegistry<undefined>(() => {
  shared.alive -= 1;
});

/** Logs a warning, unless it was logged before. */
export function warnOnce(code: WarningCode, logger: Logger): void {
  if (shared.logged.has(code)) return;
  shared.logged.add(code);
  logger.warn(`${code}: ${TEXTS[code]}`);
}

/** Warns if clients or limiters are created again and again; called for each that is created. */
export function noteCreated(created: object, logger: Logger): void {
  shared.alive += 1;
  collected.register(created, undefined);
  if (tooOften(performance.now()) || shared.alive > MANY || withinRequest()) warnOnce('TIDEGATE_LIMITER_PER_REQUEST', logger);
}

/** Returns whether more than {@link MANY} were created within a minute, including this one. */
function tooOften(now: number): boolean {
  const before = shared.createdAt.length < MANY ? undefined : shared.createdAt.shift();
  shared.createdAt.push(now);
  return before !== undefined && now - before < MINUTE_MS;
}

/** Returns whether the caller runs while a request is handled: then the HTTP server of Node is on the stack. */
export function withinRequest(): boolean {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 200;
  const { stack = '' } = new Error();
  Error.stackTraceLimit = before;
  return /\bparserOnIncoming\b|\bonServerStream\b|\bLayer\.handle(?:Request|_request)?\b/.test(stack);
}

const SPOOFABLE = /x-forwarded-for|x-real-ip|\bforwarded\b|x-client-ip|true-client-ip|cf-connecting-ip/i;

/** Returns whether the source of a key function names a header that any client can send. */
export function readsSpoofableHeader(keyFunction: (...args: never[]) => unknown): boolean {
  return SPOOFABLE.test(Function.prototype.toString.call(keyFunction));
}

/** Makes every warning appear again, for tests. */
export function resetWarnings(): void {
  shared.logged.clear();
  shared.alive = 0;
  shared.createdAt = [];
}
