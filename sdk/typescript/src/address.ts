import { isIPv4, isIPv6 } from 'node:net';

import { trimBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** An IP address as its 16-bit groups: two for IPv4, eight for IPv6. */
export type Address = readonly number[];

/** A network: the addresses whose first `prefix` bits are those of `address`. */
export interface Network {
  readonly address: Address;
  readonly prefix: number;
}

/**
 * Returns the address in a text, without quotes, port, brackets and zone; undefined if there is none. An IPv4 address
 * that is mapped into IPv6 is returned as IPv4.
 */
export function parseAddress(text: string): Address | undefined {
  const bare = trimBlanks(text).replace(/^"(.*)"$/, '$1');
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(bare);
  if (bracketed) return parseVersion6(bracketed[1] ?? '');
  const [address = '', port, ...more] = bare.split(':');
  if (more.length > 0) return parseVersion6(bare);
  if (port !== undefined && !/^\d{1,5}$/.test(port)) return undefined;
  return parseVersion4(address);
}

function parseVersion4(text: string): Address | undefined {
  if (!isIPv4(text)) return undefined;
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number);
  return [a * 256 + b, c * 256 + d];
}

function parseVersion6(text: string): Address | undefined {
  const [bare = ''] = text.split('%', 1);
  if (!isIPv6(bare)) return undefined;
  const tail = /^(.*:)([\d.]+)$/.exec(bare);
  const last = tail?.[2]?.includes('.') ? parseVersion4(tail[2]) : undefined;
  const hex = last ? `${tail?.[1] ?? ''}${last.map((group) => group.toString(16)).join(':')}` : bare;
  const [before = '', after] = hex.split('::');
  const groups = (part: string): number[] => (part === '' ? [] : part.split(':').map((group) => parseInt(group, 16)));
  const left = groups(before);
  const right = after === undefined ? [] : groups(after);
  const all = [...left, ...new Array<number>(8 - left.length - right.length).fill(0), ...right];
  return isMapped(all) ? all.slice(6) : all;
}

/** Returns whether an IPv6 address is in `::ffff:0:0/96`, into which IPv4 is mapped. */
function isMapped(groups: Address): boolean {
  return groups.length === 8 && groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
}

/** Returns the text of an address as RFC 5952 writes it. */
export function formatAddress(address: Address): string {
  if (address.length === 2) return address.flatMap((group) => [group >> 8, group & 255]).join('.');
  const { start, length } = longestZeros(address);
  const hex = (groups: Address): string => groups.map((group) => group.toString(16)).join(':');
  if (length < 2) return hex(address);
  return `${hex(address.slice(0, start))}::${hex(address.slice(start + length))}`;
}

function longestZeros(address: Address): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  for (let start = 0; start < address.length; start += 1) {
    let length = 0;
    while (address[start + length] === 0) length += 1;
    if (length > best.length) best = { start, length };
    start += length;
  }
  return best;
}

/** Returns an address with all bits after the prefix cleared. */
export function masked(address: Address, prefix: number): Address {
  return address.map((group, index) => {
    const bits = Math.min(Math.max(prefix - index * 16, 0), 16);
    return group & ((0xffff << (16 - bits)) & 0xffff);
  });
}

/**
 * Returns the network in a text such as `10.0.0.0/8`; a single address is a network of one.
 *
 * @throws {TidegateError} if the text is neither.
 */
export function parseNetwork(text: string): Network {
  const [before = '', length, ...more] = trimBlanks(text).split('/');
  const plain = isIPv4(before) || isIPv6(before) ? parseAddress(before) : undefined;
  const refuse = (): never => {
    throw new TidegateError(`${JSON.stringify(text)} in trustedProxies is not a network: write it like "10.0.0.0/8" or "2001:db8::/32"`);
  };
  if (!plain || more.length > 0 || (length !== undefined && !/^\d{1,3}$/.test(length))) return refuse();
  const written = isIPv4(before) ? 32 : 128;
  const given = length === undefined ? written : Number(length);
  if (given > written) return refuse();
  const bits = plain.length * 16;
  // A mapped IPv6 network is an IPv4 network, if it is small enough.
  const prefix = given - (written - bits);
  if (prefix < 0) return { address: [0, 0, 0, 0, 0, 0, 0, 0], prefix: given };
  return { address: masked(plain, prefix), prefix };
}

/** Returns whether an address is in a network. */
export function isWithin(address: Address, network: Network): boolean {
  if (address.length !== network.address.length) return false;
  return masked(address, network.prefix).every((group, index) => group === network.address[index]);
}
