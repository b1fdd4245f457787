import { isIPv4, isIPv6 } from 'node:net';

import { withoutBlanks } from './blanks.js';
import { TidegateError } from './errors.js';

/** An IP address as its 16-bit groups: two for version 4, eight for version 6. */
export type Address = readonly number[];

/** Addresses that begin with the same bits. */
export interface Network {
  readonly address: Address;
  readonly prefix: number;
}

/**
 * Reads an address, whatever stands around it: quotes, a port, brackets and a zone do not matter. One of
 * version 4 inside one of version 6 is the former. Returns undefined for what is no address.
 */
export function parseAddress(text: string): Address | undefined {
  const bare = withoutBlanks(text).replace(/^"(.*)"$/, '$1');
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

/** `::ffff:0:0/96` holds the addresses of version 4. */
function isMapped(groups: Address): boolean {
  return groups.length === 8 && groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
}

/** Writes an address as RFC 5952 has it. */
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

/** An address with all bits after the prefix cleared. */
export function masked(address: Address, prefix: number): Address {
  return address.map((group, index) => {
    const bits = Math.min(Math.max(prefix - index * 16, 0), 16);
    return group & ((0xffff << (16 - bits)) & 0xffff);
  });
}

/**
 * Reads a network, `10.0.0.0/8`, or an address, which is a network of one.
 *
 * @throws {TidegateError} if it is none.
 */
export function parseNetwork(text: string): Network {
  const [before = '', length, ...more] = withoutBlanks(text).split('/');
  const plain = isIPv4(before) || isIPv6(before) ? parseAddress(before) : undefined;
  const refuse = (): never => {
    throw new TidegateError(`${JSON.stringify(text)} is no network of proxies: write it like "10.0.0.0/8" or "2001:db8::/32"`);
  };
  if (!plain || more.length > 0 || (length !== undefined && !/^\d{1,3}$/.test(length))) return refuse();
  const written = isIPv4(before) ? 32 : 128;
  const given = length === undefined ? written : Number(length);
  if (given > written) return refuse();
  const bits = plain.length * 16;
  // A mapped network of version 6 is one of version 4, if it is small enough to be.
  const prefix = given - (written - bits);
  if (prefix < 0) return { address: [0, 0, 0, 0, 0, 0, 0, 0], prefix: given };
  return { address: masked(plain, prefix), prefix };
}

/** Whether an address is in a network. */
export function isWithin(address: Address, network: Network): boolean {
  if (address.length !== network.address.length) return false;
  return masked(address, network.prefix).every((group, index) => group === network.address[index]);
}
