/**
 * Returns the text without spaces and tabs around it. `trim` also removes other characters, such as U+00A0, with which
 * neither an address nor a limit may begin; a regular expression would take quadratic time.
 */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text[start])) start += 1;
  while (end > start && isBlank(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t';
}
