import { createHash } from 'node:crypto';

/** Longer values are shortened, so that the service accepts them. */
const MAX_BYTES = 256;
/** Bytes of a long value that are kept, for people who read it. */
const KEPT_BYTES = 200;
const HASH_DIGITS = 32;

/** Values that are sent as they are, which nearly all are. */
const PLAIN = /^[\t\x20-\x7e]{0,256}$/;
/** Characters that the service refuses: control characters except the tab. */
const REFUSED = /[\0-\x08\x0a-\x1f\x7f]/g;

/**
 * Returns a value that the service accepts, from any text; different texts have different values. If a client could send
 * a value that the service refuses, the fallback would decide, and the client would escape its limit.
 */
export function sanitizeValue(value: string): string {
  if (PLAIN.test(value)) return value;
  const encoded = value.replace(REFUSED, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
  // Half of a surrogate pair becomes U+FFFD here.
  const bytes = Buffer.from(encoded);
  if (bytes.length <= MAX_BYTES) return bytes.toString();
  let end = KEPT_BYTES;
  while (isWithinCharacter(bytes[end] ?? 0)) end -= 1;
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, HASH_DIGITS);
  return `${bytes.toString('utf8', 0, end)}~${hash}`;
}

/** Returns whether a byte of UTF-8 continues a character that began before it. */
function isWithinCharacter(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
