/**
 * Text that strangers chose, such as the values of keys, made harmless to look at. Preact escapes HTML by itself; what is
 * left are characters that cannot be seen, that turn the direction of the text around them, or that pile up. Each of
 * these becomes a marked piece with its code point.
 */

export interface Piece {
  text: string;
  /** The name of what stands here, if the character itself is not shown. */
  mark?: string;
}

const NAMES: Record<number, string> = {
  0: "NUL",
  9: "TAB",
  10: "LF",
  13: "CR",
  27: "ESC",
  127: "DEL",
  160: "NBSP",
  173: "SHY",
  1564: "ALM",
  8203: "ZWSP",
  8204: "ZWNJ",
  8205: "ZWJ",
  8206: "LRM",
  8207: "RLM",
  8232: "LSEP",
  8233: "PSEP",
  8234: "LRE",
  8235: "RLE",
  8236: "PDF",
  8237: "LRO",
  8238: "RLO",
  8294: "LRI",
  8295: "RLI",
  8296: "FSI",
  8297: "PDI",
  65279: "BOM",
};

/** Format, control, private, unassigned and lone surrogate characters, and spaces that are not the ordinary one. */
const UNSEEN = /^[\p{C}\p{Zl}\p{Zp}]$/u;
const ODD_SPACE = /^\p{Zs}$/u;
const FILLER = new Set([0x115f, 0x1160, 0x3164, 0xffa0, 0x2800]);
const COMBINING = /^\p{M}$/u;
const PICTURE = /^(\p{Extended_Pictographic}|\u{fe0f}|[\u{1f3fb}-\u{1f3ff}])$/u;
/** Marks on one character beyond this number are counted instead of drawn. */
const MAX_COMBINING = 3;

/** Splits a text into pieces to show. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  const characters = Array.from(text);
  let combining = 0;
  let dropped = 0;
  const flush = () => {
    if (dropped > 0) found.push({ text: `+${dropped}`, mark: `${dropped} more combining marks` });
    dropped = 0;
  };
  characters.forEach((character, index) => {
    if (COMBINING.test(character) && !PICTURE.test(character)) {
      combining += 1;
      if (combining > MAX_COMBINING) {
        dropped += 1;
        return;
      }
    } else {
      combining = 0;
      flush();
    }
    const mark = markOf(character, characters[index - 1], characters[index + 1]);
    const last = found[found.length - 1];
    if (mark) found.push({ text: mark, mark: `U+${hex(character)}` });
    else if (last && !last.mark) last.text += character;
    else found.push({ text: character });
  });
  flush();
  return found;
}

/** Returns the text as one line without anything hidden, for labels, titles and file names. */
export function plain(text: string): string {
  return pieces(text)
    .map((piece) => (piece.mark ? `[${piece.text}]` : piece.text))
    .join("");
}

/** Cuts the middle out of a long text. `cut` is how many characters are missing. */
export function shorten(text: string, most: number): { head: string; tail: string; cut: number } {
  const characters = Array.from(text);
  if (characters.length <= most) return { head: text, tail: "", cut: 0 };
  const tail = Math.floor(most / 4);
  const head = most - tail;
  return {
    head: characters.slice(0, head).join(""),
    tail: characters.slice(characters.length - tail).join(""),
    cut: characters.length - most,
  };
}

function markOf(character: string, before?: string, after?: string): string | undefined {
  const code = character.codePointAt(0) ?? 0;
  // A joiner between two pictures is part of an emoji.
  if (code === 0x200d && before && after && PICTURE.test(before) && PICTURE.test(after)) return undefined;
  const unseen = UNSEEN.test(character) || FILLER.has(code);
  const space = character !== " " && ODD_SPACE.test(character);
  if (!unseen && !space) return undefined;
  return NAMES[code] ?? `U+${hex(character)}`;
}

function hex(character: string): string {
  return (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}
