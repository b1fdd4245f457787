import { formatAddress, isWithin, masked, parseAddress, parseNetwork, type Address, type Network } from './address.js';
import { trimBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** Headers, as pairs in the order they came or as an object like Node's. */
export type HeaderSource =
  | Iterable<readonly [name: string, value: string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Options of a {@link ClientIpFinder}. */
export interface ClientIpOptions {
  /**
   * Networks of your own proxies, such as `10.0.0.0/8`, or the number of proxies that a request goes through: with 1, the
   * client is the last entry of the header. Default: none is trusted, and the header is ignored.
   */
  readonly trustedProxies?: readonly string[] | number;
  /** The header in which your proxies write the address of the client. Default: `'x-forwarded-for'`. */
  readonly header?: 'x-forwarded-for' | 'forwarded';
  /** Bits of the networks that IPv6 addresses are grouped by. Default: 56. */
  readonly ipv6Prefix?: number;
}

/** The address of a client, and the key that it is limited by. */
export interface ClientIp {
  /** The address. */
  readonly ip: string;
  /** The address of IPv4, or the network of IPv6, such as `2001:db8:1:200::/56`. */
  readonly key: string;
}

/** Entries of a header that are looked at; no chain of proxies is longer. */
const MAX_HOPS = 32;
const DEFAULT_PREFIX = 56;

/**
 * Finds the address of the client of a request. Create one when the app starts.
 *
 * ```ts
 * const clientIp = new ClientIpFinder({ trustedProxies: ['10.0.0.0/8'] });
 * clientIp.find('10.0.0.1', { 'x-forwarded-for': '198.51.100.1' }).ip // '198.51.100.1'
 * ```
 */
export class ClientIpFinder {
  readonly #networks: readonly Network[];
  /** The number of proxies, if that is how they were given. */
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

  /** Whether one of the trusted networks contains all addresses. */
  get trustsAll(): boolean {
    return this.#networks.some(({ prefix }) => prefix === 0);
  }

  /** Returns the client of a request, from the address at the other end of the connection and the headers. */
  find(peer: string, headers: HeaderSource, ipv6Prefix = this.#prefix): ClientIp {
    const from = parseAddress(peer);
    const address = this.#hops === undefined ? from && this.#search(from, headers) : this.#count(from, headers, this.#hops);
    // A Unix socket has no address; all its clients have the same key.
    if (!address) return { ip: peer, key: peer };
    return { ip: formatAddress(address), key: keyOf(address, ipv6Prefix) };
  }

  #trusts(address: Address): boolean {
    return this.#networks.some((network) => isWithin(address, network));
  }

  /** Returns the last hop that is not a trusted proxy. */
  #search(peer: Address, headers: HeaderSource): Address {
    if (!this.#trusts(peer)) return peer;
    let last = peer;
    for (const hop of this.#hopsFromLast(headers)) {
      const address = hop === undefined ? undefined : parseAddress(hop);
      // The proxy wrote something that is not an address, so the proxy is all that is known.
      if (!address) return last;
      last = address;
      if (!this.#trusts(address)) return last;
    }
    return last;
  }

  /** Returns the hop at this number from the last, or the first if there are fewer. */
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
    return hops.slice(-MAX_HOPS).reverse();
  }
}

function hopsOf(hops: number): number {
  if (Number.isInteger(hops) && hops >= 0 && hops <= MAX_HOPS) return hops;
  throw new TidegateError(`trustedProxies must be a list of networks, or the number of proxies (0 to ${MAX_HOPS}), got ${hops}`);
}

function networksOf(networks: readonly string[]): Network[] {
  if (Array.isArray(networks)) return networks.map((network) => parseNetwork(network as string));
  throw new TidegateError(
    `trustedProxies must be a list of networks such as ["10.0.0.0/8"], or the number of proxies, got ${JSON.stringify(networks)}`,
  );
}

/** Returns whether a text is an IP address. */
export function isAddress(text: string): boolean {
  return parseAddress(text) !== undefined;
}

/**
 * Returns the key that an address is limited by: the address of IPv4, or the network of IPv6. A text that is not an
 * address is returned as it is.
 *
 * ```ts
 * ipKey('2001:db8:1:2ff::1') // '2001:db8:1:200::/56'
 * ```
 */
export function ipKey(ip: string, ipv6Prefix = DEFAULT_PREFIX): string {
  checkPrefix(ipv6Prefix);
  const address = parseAddress(ip);
  return address ? keyOf(address, ipv6Prefix) : ip;
}

function checkPrefix(prefix: number): void {
  if (!Number.isInteger(prefix) || prefix < 1 || prefix > 128) {
    throw new TidegateError(`the IPv6 prefix must be a whole number from 1 to 128, got ${prefix}`);
  }
}

function keyOf(address: Address, prefix: number): string {
  if (address.length === 2 || prefix === 128) return formatAddress(address);
  return `${formatAddress(masked(address, prefix))}/${prefix}`;
}

/** Returns the lines of one header. */
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
  return line.split(',').map((hop) => trimBlanks(hop)).filter((hop) => hop !== '');
}

/** Returns the `for` of each element of a `Forwarded` header (RFC 7239); undefined unless it has exactly one. */
function forwardedHops(line: string): (string | undefined)[] {
  return splitOutsideQuotes(line, ',')
    .filter((element) => trimBlanks(element) !== '')
    .map((element) => {
      const named = splitOutsideQuotes(element, ';').map(forOf).filter((value) => value !== undefined);
      return named.length === 1 ? unquoted(named[0] as string) : undefined;
    });
}

/** Returns the value of a pair whose name is `for`. */
function forOf(pair: string): string | undefined {
  const at = pair.indexOf('=');
  return at >= 0 && trimBlanks(pair.slice(0, at)).toLowerCase() === 'for' ? trimBlanks(pair.slice(at + 1)) : undefined;
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
      // The next character is escaped.
      index += 1;
    } else if (character === at && !quoted) {
      parts.push(text.slice(start, index));
      start = index + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
