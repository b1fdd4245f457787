/** One element of the response to a batch, with its body as the service wrote it. */
export interface BatchElement {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/**
 * Returns the elements of the response to a batch; undefined if the text is not one. Bodies are cut out of the text, not
 * serialized again: an app passes on the bytes of the service, and numbers too large for JavaScript are not changed.
 */
export function batchElements(text: string): BatchElement[] | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed)) return undefined;
  // The text is valid JSON, so finding the ends of values is enough.
  const elements: BatchElement[] = [];
  let at = skipTo(text, text.indexOf('[') + 1);
  for (const element of parsed as unknown[]) {
    const { status, headers } = (element ?? {}) as Partial<BatchElement>;
    const body = bodyWithin(text, at);
    if (typeof status !== 'number' || typeof headers !== 'object' || body === undefined) return undefined;
    elements.push({ status, headers, text: body });
    at = skipTo(text, endOfValue(text, at));
    if (text[at] === ',') at = skipTo(text, at + 1);
  }
  return elements;
}

/** Returns the text of the member `body` of the object that begins at `at`. */
function bodyWithin(text: string, at: number): string | undefined {
  if (text[at] !== '{') return undefined;
  let next = skipTo(text, at + 1);
  while (text[next] === '"') {
    const nameEnd = endOfString(text, next);
    const name = text.slice(next + 1, nameEnd - 1);
    const value = skipTo(text, skipTo(text, nameEnd) + 1);
    const valueEnd = endOfValue(text, value);
    if (name === 'body') return text.slice(value, valueEnd);
    next = skipTo(text, skipTo(text, valueEnd) + 1);
  }
  return undefined;
}

const SPACE = /[ \t\r\n]*/y;
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/y;
const SCALAR = /[^\s,\]}]+/y;
const DELIMITER = /["{}[\]]/g;

function skipTo(text: string, at: number): number {
  SPACE.lastIndex = at;
  SPACE.test(text);
  return SPACE.lastIndex;
}

function endOfString(text: string, at: number): number {
  STRING.lastIndex = at;
  return STRING.test(text) ? STRING.lastIndex : text.length;
}

function endOfValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== '{' && first !== '[') {
    SCALAR.lastIndex = at;
    return SCALAR.test(text) ? SCALAR.lastIndex : text.length;
  }
  let depth = 0;
  DELIMITER.lastIndex = at;
  for (let found = DELIMITER.exec(text); found; found = DELIMITER.exec(text)) {
    if (found[0] === '"') {
      DELIMITER.lastIndex = endOfString(text, found.index);
    } else {
      depth += found[0] === '{' || found[0] === '[' ? 1 : -1;
      if (depth === 0) return found.index + 1;
    }
  }
  return text.length;
}
