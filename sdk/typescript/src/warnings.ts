/** Where warnings and errors go; `console` unless told. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}

/** What is warned of, once per process each. */
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
    'trustedProxies has a network of all addresses (/0), so whoever connects is believed to be a proxy and ' +
    'can claim any address: limits by address are then easily escaped. ' +
    'Name the networks of your own proxies only, such as "10.0.0.0/8".',
  TIDEGATE_SPOOFABLE_KEY:
    'the key is taken from a header that any client can write, so a client is somebody else whenever it likes ' +
    'and is never limited. Leave keyGenerator out and name your proxies in trustedProxies: ' +
    'then the header is believed only where they wrote it.',
  TIDEGATE_DOUBLE_COUNT:
    'one request was charged to the same counter twice, so clients reach the limit at half of it. ' +
    'Mount the middleware once, or give the second one a name of its own.',
  TIDEGATE_LIMITER_PER_REQUEST:
    'a client or a middleware was made while a request was handled, or there are more than 100 of them, or so many ' +
    'were made within a minute. Each has connections and fallback counters of its own, so nothing is sent in ' +
    'batches and memory grows; those without a name share their counters. ' +
    'Make it once when the app starts, and use it in the handler.',
  TIDEGATE_IPV6_UNGROUPED:
    'addresses of version 6 are grouped by more than 64 bits, but one customer has at least a /64, ' +
    'and so as many keys as it likes. Leave ipv6Subnet at 56, or set it to 64 or less.',
  TIDEGATE_TRUST_PROXY_IGNORED:
    'the app has "trust proxy" set, but trustedProxies of the rate limit is empty: behind a proxy all clients then ' +
    'share one key, the address of the proxy. Name the networks of your proxies in trustedProxies, or say how many ' +
    'there are: trustedProxies: 1 believes the last entry of X-Forwarded-For.',
  TIDEGATE_UNNAMED_TWIN:
    'two limiters have one of their limits in common and no name, so only the order in which the app makes them tells ' +
    'their counters apart: once it changes, they count in each other\'s place. ' +
    'Give each a name, such as rateLimit({ name: "login", ... }); limiters that share a name share their counters.',
  TIDEGATE_NO_ADDRESS:
    'a request came without the address of a client, as through a Unix socket, so all such requests share one key and ' +
    'one limit. If a proxy of your own connects there, set trustedProxies: 1, so that the client is the last entry of ' +
    'X-Forwarded-For; else say who is limited with keyGenerator (key in Limiter).',
};

/** More than so many limiters, at once or within a minute, are a sign that they are made again and again. */
const MANY = 100;
const MINUTE_MS = 60_000;

interface Shared {
  readonly said: Set<WarningCode>;
  alive: number;
  /** When the last of them were made, {@link MANY} at most, whether they are still there or not. */
  made: number[];
}

/** One for the process, even if the package is loaded both by `import` and by `require`. */
const shared: Shared = ((globalThis as Record<symbol, unknown>)[Symbol.for('tidegate.warnings')] ??= {
  said: new Set(),
  alive: 0,
  made: [],
}) as Shared;

const collected = new FinalizationRegistry<undefined>(() => {
  shared.alive -= 1;
});

/** Says it, unless it was said. */
export function warnOnce(code: WarningCode, logger: Logger): void {
  if (shared.said.has(code)) return;
  shared.said.add(code);
  logger.warn(`${code}: ${TEXTS[code]}`);
}

/** To be called as a client or a limiter is made. */
export function noteCreated(made: object, logger: Logger): void {
  shared.alive += 1;
  collected.register(made, undefined);
  if (tooOften(performance.now()) || shared.alive > MANY || withinRequest()) warnOnce('TIDEGATE_LIMITER_PER_REQUEST', logger);
}

/** Whether more than {@link MANY} were made within a minute, this one among them. */
function tooOften(now: number): boolean {
  const before = shared.made.length < MANY ? undefined : shared.made.shift();
  shared.made.push(now);
  return before !== undefined && now - before < MINUTE_MS;
}

/** Whether the code that calls runs because a request came in: then the server of Node is on the stack. */
export function withinRequest(): boolean {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 200;
  const { stack = '' } = new Error();
  Error.stackTraceLimit = before;
  return /\bparserOnIncoming\b|\bonServerStream\b|\bLayer\.handle(?:Request|_request)?\b/.test(stack);
}

const SPOOFABLE = /x-forwarded-for|x-real-ip|\bforwarded\b|x-client-ip|true-client-ip|cf-connecting-ip/i;

/** Whether a function that makes keys reads a header that clients can write, as far as its text shows. */
export function readsSpoofableHeader(makesKeys: (...args: never[]) => unknown): boolean {
  return SPOOFABLE.test(Function.prototype.toString.call(makesKeys));
}

/** As if nothing had been said yet; for tests. */
export function forgetWarnings(): void {
  shared.said.clear();
  shared.alive = 0;
  shared.made = [];
}
