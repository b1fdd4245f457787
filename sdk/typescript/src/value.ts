import { createHash } from 'node:crypto';

/** Longer values are shortened, so that they are never too long for the service. */
const MOST_BYTES = 256;
/** So much of a long one is kept, for whoever reads it. */
const KEPT_BYTES = 200;
const HASH_DIGITS = 32;

/** What is sent as it is, which nearly everything is. */
const PLAIN = /^[\t\x20-\x7e]{0,256}$/;
/** What the service refuses: control characters but the tab. */
const REFUSED = /[\0-\x08\x0a-\x1f\x7f]/g;

/**
 * A value of an entry as the service takes it, whatever a client wrote: a value that it refused would
 * leave the decision to the fallback, and the client would have left its limit.
 */
export function sendable(value: string): string {
  if (PLAIN.test(value)) return value;
  const encoded = value.replace(REFUSED, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
  // Half of a surrogate pair becomes U+FFFD here.
  const bytes = Buffer.from(encoded);
  if (bytes.length <= MOST_BYTES) return bytes.toString();
  let end = KEPT_BYTES;
  while (isWithinCharacter(bytes[end] ?? 0)) end -= 1;
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, HASH_DIGITS);
  return `${bytes.toString('utf8', 0, end)}~${hash}`;
}

/** Whether a byte of UTF-8 goes on with a character that began before it. */
function isWithinCharacter(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
