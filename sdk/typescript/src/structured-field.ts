/** An item of a list whose value is a string or a token. */
export interface NamedItem {
  readonly name: string;
  /** The parameters that are whole numbers, 0 or more; others are ignored. */
  readonly numbers: ReadonlyMap<string, number>;
}

const KEY = /[a-z*][a-z0-9_\-.*]*/y;
const NUMBER = /-?\d{1,15}(?:\.\d{1,3})?(?![\d.])/y;
const STRING = /"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"/y;
const TOKEN = /[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*/y;
const BYTES = /:[A-Za-z0-9+/=]*:/y;
const BOOLEAN = /\?[01]/y;
const DATE = /@-?\d{1,15}/y;
const DISPLAY = /%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"/y;
const SPACE = / */y;
const OPTIONAL_SPACE = /[ \t]*/y;

type Bare = { readonly name: string } | { readonly number: number } | { readonly other: true };

/**
 * Parses a header as a list of structured fields (RFC 9651), and returns its items that are strings or tokens. Returns
 * undefined if it is not a valid list; inner lists are not supported.
 */
export function namedItems(text: string): NamedItem[] | undefined {
  const reader = new Reader(text.trim());
  const items: NamedItem[] = [];
  for (;;) {
    const value = reader.bare();
    const numbers = value && parameters(reader);
    if (!value || !numbers) return undefined;
    if ('name' in value) items.push({ name: value.name, numbers });
    reader.take(OPTIONAL_SPACE);
    if (reader.ended) return items;
    if (!reader.accept(',')) return undefined;
    reader.take(OPTIONAL_SPACE);
  }
}

function parameters(reader: Reader): Map<string, number> | undefined {
  const numbers = new Map<string, number>();
  while (reader.accept(';')) {
    reader.take(SPACE);
    const key = reader.take(KEY)?.[0];
    if (key === undefined) return undefined;
    const value = reader.accept('=') ? reader.bare() : ({ other: true } as const);
    if (!value) return undefined;
    // Of several parameters with one name, the last counts.
    numbers.delete(key);
    if ('number' in value && Number.isInteger(value.number) && value.number >= 0) numbers.set(key, value.number);
  }
  return numbers;
}

class Reader {
  #at = 0;

  constructor(private readonly text: string) {}

  get ended(): boolean {
    return this.#at === this.text.length;
  }

  accept(character: string): boolean {
    if (this.text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    if (found) this.#at += found[0].length;
    return found;
  }

  bare(): Bare | undefined {
    const string = this.take(STRING);
    if (string) return { name: (string[1] ?? '').replace(/\\(.)/g, '$1') };
    const number = this.take(NUMBER);
    if (number) return { number: Number(number[0]) };
    const token = this.take(TOKEN);
    if (token) return { name: token[0] };
    return [BYTES, BOOLEAN, DATE, DISPLAY].some((pattern) => this.take(pattern)) ? { other: true } : undefined;
  }
}
