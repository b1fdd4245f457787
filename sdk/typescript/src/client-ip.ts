import { formatAddress, isWithin, masked, parseAddress, parseNetwork, type Address, type Network } from './address.js';
import { withoutBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** Headers as pairs in the order they came, or as an object like Node's. */
export type HeaderSource =
  | Iterable<readonly [name: string, value: string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Whom to believe about who asked. */
export interface ClientIpOptions {
  /**
   * Networks of your own proxies, `10.0.0.0/8`, or how many of them a request goes through: with 1, the client
   * is the last entry of the header. Nobody is trusted unless told.
   */
  readonly trustedProxies?: readonly string[] | number;
  /** The one header that your proxies write; `x-forwarded-for` unless told. */
  readonly header?: 'x-forwarded-for' | 'forwarded';
  /** Addresses of version 6 are counted by networks of so many bits; 56 unless told. */
  readonly ipv6Prefix?: number;
}

/** Who asked. */
export interface ClientIp {
  /** The address. */
  readonly ip: string;
  /** What it is counted under: the address, or its network for version 6. */
  readonly key: string;
}

/** Longer chains of proxies do not exist; longer headers are an attack. */
const MOST_HOPS = 32;
const DEFAULT_PREFIX = 56;

/**
 * Finds out who asked. Make one when the app starts.
 *
 * ```ts
 * const clientIp = new ClientIpFinder({ trustedProxies: ['10.0.0.0/8'] });
 * clientIp.find('10.0.0.1', { 'x-forwarded-for': '198.51.100.1' }).ip // '198.51.100.1'
 * ```
 */
export class ClientIpFinder {
  readonly #networks: readonly Network[];
  /** How many proxies a request goes through, if that is how they are told. */
  readonly #hops: number | undefined;
  readonly #header: 'x-forwarded-for' | 'forwarded';
  readonly #prefix: number;

  constructor(options: ClientIpOptions = {}) {
    const { trustedProxies = [] } = options;
    this.#hops = typeof trustedProxies === 'number' ? hopsOf(trustedProxies) : undefined;
    this.#networks = typeof trustedProxies === 'number' ? [] : networksOf(trustedProxies);
    this.#header = options.header ?? 'x-forwarded-for';
    this.#prefix = options.ipv6Prefix ?? DEFAULT_PREFIX;
    checkPrefix(this.#prefix);
    if (this.#header !== 'x-forwarded-for' && this.#header !== 'forwarded') {
      throw new TidegateError(`header must be "x-forwarded-for" or "forwarded", got ${JSON.stringify(this.#header)}`);
    }
  }

  /** Whether a network of proxies is all addresses there are. */
  get trustsAll(): boolean {
    return this.#networks.some(({ prefix }) => prefix === 0);
  }

  /** Who asked, from the address at the other end of the connection and what it said. */
  find(peer: string, headers: HeaderSource, ipv6Prefix = this.#prefix): ClientIp {
    const from = parseAddress(peer);
    const address = this.#hops === undefined ? from && this.#search(from, headers) : this.#count(from, headers, this.#hops);
    // A Unix socket has no address; all that come through it are one client.
    if (!address) return { ip: peer, key: peer };
    return { ip: formatAddress(address), key: keyOf(address, ipv6Prefix) };
  }

  #trusts(address: Address): boolean {
    return this.#networks.some((network) => isWithin(address, network));
  }

  /** The last hop that is no proxy of ours. */
  #search(peer: Address, headers: HeaderSource): Address {
    if (!this.#trusts(peer)) return peer;
    let last = peer;
    for (const hop of this.#hopsFromLast(headers)) {
      const address = hop === undefined ? undefined : parseAddress(hop);
      // What the proxy wrote here is no address: the proxy is all that is known.
      if (!address) return last;
      last = address;
      if (!this.#trusts(address)) return last;
    }
    return last;
  }

  /** The hop of that number from the last, or as far as there are any. */
  #count(peer: Address | undefined, headers: HeaderSource, hops: number): Address | undefined {
    let last = peer;
    for (const hop of this.#hopsFromLast(headers).slice(0, hops)) {
      const address = hop === undefined ? undefined : parseAddress(hop);
      if (!address) return last;
      last = address;
    }
    return last;
  }

  #hopsFromLast(headers: HeaderSource): (string | undefined)[] {
    const hops: (string | undefined)[] = linesOf(headers, this.#header).flatMap<string | undefined>(
      this.#header === 'forwarded' ? forwardedHops : listedHops,
    );
    return hops.slice(-MOST_HOPS).reverse();
  }
}

function hopsOf(hops: number): number {
  if (Number.isInteger(hops) && hops >= 0 && hops <= MOST_HOPS) return hops;
  throw new TidegateError(`trustedProxies must be a list of networks, or how many proxies there are (0 to ${MOST_HOPS}), got ${hops}`);
}

function networksOf(networks: readonly string[]): Network[] {
  if (Array.isArray(networks)) return networks.map((network) => parseNetwork(network as string));
  throw new TidegateError(
    `trustedProxies must be a list of networks such as ["10.0.0.0/8"], or how many proxies a request goes through, got ${JSON.stringify(networks)}`,
  );
}

/** Whether a text is an address, and not the name of something else, such as a Unix socket. */
export function isAddress(text: string): boolean {
  return parseAddress(text) !== undefined;
}

/** What an address is counted under. */
export function ipKey(ip: string, ipv6Prefix = DEFAULT_PREFIX): string {
  checkPrefix(ipv6Prefix);
  const address = parseAddress(ip);
  return address ? keyOf(address, ipv6Prefix) : ip;
}

function checkPrefix(prefix: number): void {
  if (!Number.isInteger(prefix) || prefix < 1 || prefix > 128) {
    throw new TidegateError(`the prefix of version 6 must be a whole number from 1 to 128, got ${prefix}`);
  }
}

function keyOf(address: Address, prefix: number): string {
  if (address.length === 2 || prefix === 128) return formatAddress(address);
  return `${formatAddress(masked(address, prefix))}/${prefix}`;
}

/** The lines of one header, whatever form the headers have. */
export function linesOf(headers: HeaderSource, name: string): string[] {
  const pairs: Iterable<readonly [string, string | readonly string[] | undefined]> = isIterable(headers)
    ? headers
    : Object.entries(headers);
  const lines: string[] = [];
  for (const [found, value] of pairs) {
    if (value === undefined || found.toLowerCase() !== name) continue;
    if (typeof value === 'string') lines.push(value);
    else lines.push(...value);
  }
  return lines;
}

function isIterable(headers: HeaderSource): headers is Iterable<readonly [string, string]> {
  return Symbol.iterator in headers;
}

function listedHops(line: string): string[] {
  return line.split(',').map((hop) => withoutBlanks(hop)).filter((hop) => hop !== '');
}

/** The `for` of each element of a `Forwarded` (RFC 7239); undefined where it has not exactly one. */
function forwardedHops(line: string): (string | undefined)[] {
  return splitOutsideQuotes(line, ',')
    .filter((element) => withoutBlanks(element) !== '')
    .map((element) => {
      const named = splitOutsideQuotes(element, ';').map(forOf).filter((value) => value !== undefined);
      return named.length === 1 ? unquoted(named[0] as string) : undefined;
    });
}

/** The value of a pair that is called `for`. */
function forOf(pair: string): string | undefined {
  const at = pair.indexOf('=');
  return at >= 0 && withoutBlanks(pair.slice(0, at)).toLowerCase() === 'for' ? withoutBlanks(pair.slice(at + 1)) : undefined;
}

function unquoted(value: string): string | undefined {
  if (!value.startsWith('"')) return value;
  const inside = /^"((?:[^"\\]|\\.)*)"$/.exec(value)?.[1];
  return inside?.replace(/\\(.)/g, '$1');
}

function splitOutsideQuotes(text: string, at: ',' | ';'): string[] {
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === '"') {
      quoted = !quoted;
    } else if (quoted && character === '\\') {
      // Whatever follows stands for itself.
      index += 1;
    } else if (character === at && !quoted) {
      parts.push(text.slice(start, index));
      start = index + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
