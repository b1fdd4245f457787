/** Reads a curl command line as people paste it from a browser's developer tools or a terminal. Nothing is executed. */

export interface CurlRequest {
  method: string;
  /** Path and query. */
  path: string;
  host: string;
  headers: Record<string, string>;
  body: string | null;
}

/** Options with a value that says nothing about what the server sees. */
const IGNORED_WITH_VALUE = new Set(
  "-o --output -w --write-out -m --max-time --connect-timeout --cacert --capath --cert -E --key --pass -x --proxy -K --config --retry --retry-delay --retry-max-time --resolve --interface --limit-rate -c --cookie-jar -D --dump-header --ciphers --tls-max -C --continue-at -r --range -T --upload-file -Y -y -z --proxy-user -U --unix-socket --dns-servers --stderr --trace --trace-ascii".split(
    " ",
  ),
);
const DATA = new Set([
  "-d",
  "--data",
  "--data-raw",
  "--data-ascii",
  "--data-binary",
  "--data-urlencode",
  "--json",
]);
const FORM = new Set(["-F", "--form", "--form-string"]);
/** Short options with a value, which may follow without a space: `-XPOST`. */
const SHORT_WITH_VALUE = /^-([XHduAbeoFwmxEKcDrCTUYyz])(.+)$/;

/** Splits a command line into words as a POSIX shell does, and `$'…'` as bash does. Variables stay as they are. */
export function words(line: string): string[] {
  const found: string[] = [];
  let word: string | null = null;
  let at = 0;
  const take = (text: string) => {
    word = (word ?? "") + text;
  };
  while (at < line.length) {
    const character = line[at] as string;
    if (/\s/.test(character)) {
      if (word !== null) found.push(word);
      word = null;
      at += 1;
    } else if (character === "\\") {
      const next = line[at + 1] ?? "";
      const isBreak = next === "\n" || (next === "\r" && line[at + 2] === "\n");
      if (!isBreak) take(next);
      at += next === "\r" ? 3 : 2;
    } else if (character === "$" && line[at + 1] === "'") {
      const end = closing(line, at + 2, true);
      take(ansi(line.slice(at + 2, end)));
      at = end + 1;
    } else if (character === "'") {
      const end = closing(line, at + 1, false);
      take(line.slice(at + 1, end));
      at = end + 1;
    } else if (character === '"') {
      const [text, end] = doubleQuoted(line, at + 1);
      take(text);
      at = end;
    } else {
      take(character);
      at += 1;
    }
  }
  if (word !== null) found.push(word);
  return found;
}

/** Returns the request that a curl command would send. Throws an `Error` that says what is missing. */
export function parseCurl(line: string): CurlRequest {
  const [program, ...rest] = words(line.trim());
  if (!program || !/^(.*\/)?curl(\.exe)?$/.test(program))
    throw new Error("the command does not begin with curl");
  const headers: Record<string, string> = {};
  let method: string | null = null;
  let target: string | null = null;
  let inQuery = false;
  const data: string[] = [];
  let hasForm = false;

  const given = separated(rest);
  for (let at = 0; at < given.length; at += 1) {
    const word = given[at] as string;
    const value = () => {
      at += 1;
      const text = given[at];
      if (text === undefined) throw new Error(`${word} needs a value`);
      return text;
    };
    if (word === "-H" || word === "--header") addHeader(headers, value());
    else if (word === "-X" || word === "--request") method = value().toUpperCase();
    else if (word === "-I" || word === "--head") method ??= "HEAD";
    else if (word === "-G" || word === "--get") inQuery = true;
    else if (word === "-A" || word === "--user-agent") headers["user-agent"] = value();
    else if (word === "-e" || word === "--referer") headers.referer = value();
    else if (word === "-b" || word === "--cookie") headers.cookie = value();
    else if (word === "-u" || word === "--user") headers.authorization = `Basic ${base64(value())}`;
    else if (word === "--oauth2-bearer") headers.authorization = `Bearer ${value()}`;
    else if (word === "--url") target = value();
    else if (DATA.has(word)) {
      data.push(value());
      if (word === "--json") {
        headers["content-type"] ??= "application/json";
        headers.accept ??= "application/json";
      }
    } else if (FORM.has(word)) {
      value();
      hasForm = true;
    } else if (IGNORED_WITH_VALUE.has(word)) value();
    else if (!word.startsWith("-")) target ??= word;
  }
  if (target === null) throw new Error("the command has no address");
  return assembled(target, method, headers, data, inQuery, hasForm);
}

function assembled(
  target: string,
  method: string | null,
  headers: Record<string, string>,
  data: string[],
  inQuery: boolean,
  hasForm: boolean,
): CurlRequest {
  let url: URL;
  try {
    url = new URL(/^[a-z][a-z0-9+.-]*:\/\//i.test(target) ? target : `http://${target}`);
  } catch {
    throw new Error(`the address ${JSON.stringify(target)} is not a URL`);
  }
  if (inQuery && data.length > 0) url.search += (url.search ? "&" : "") + data.join("&");
  const hasBody = !inQuery && (data.length > 0 || hasForm);
  if (hasBody && data.length > 0) headers["content-type"] ??= "application/x-www-form-urlencoded";
  headers.host ??= url.host;
  return {
    method: method ?? (hasBody ? "POST" : "GET"),
    path: url.pathname + url.search,
    host: url.host,
    headers,
    body: hasBody && data.length > 0 ? data.join("&") : null,
  };
}

/** Separates `--name=value` and `-Xvalue`, and drops the ends of what a shell would do with the output. */
function separated(given: string[]): string[] {
  const found: string[] = [];
  for (const word of given) {
    if (word === "|" || word === ">" || word === ">>" || word === "2>" || word === "&&" || word === ";")
      break;
    const short = SHORT_WITH_VALUE.exec(word);
    if (/^--[a-z0-9-]+=/.test(word)) {
      const equals = word.indexOf("=");
      found.push(word.slice(0, equals), word.slice(equals + 1));
    } else if (short) found.push(`-${short[1]}`, short[2] as string);
    else found.push(word);
  }
  return found;
}

/** Adds `Name: value`; a name that ends in `;` has an empty value, and one without a value is removed. */
function addHeader(headers: Record<string, string>, text: string): void {
  const colon = text.indexOf(":");
  if (colon > 0) {
    const name = text.slice(0, colon).trim().toLowerCase();
    const value = text.slice(colon + 1).trim();
    if (value) headers[name] = value;
    else delete headers[name];
  } else if (text.endsWith(";")) headers[text.slice(0, -1).trim().toLowerCase()] = "";
}

function closing(line: string, from: number, escapes: boolean): number {
  for (let at = from; at < line.length; at += 1) {
    if (escapes && line[at] === "\\") at += 1;
    else if (line[at] === "'") return at;
  }
  throw new Error("a single quote is not closed");
}

function doubleQuoted(line: string, from: number): [string, number] {
  let text = "";
  for (let at = from; at < line.length; at += 1) {
    const character = line[at] as string;
    if (character === '"') return [text, at + 1];
    const next = line[at + 1] ?? "";
    if (character === "\\" && '"\\$`\n'.includes(next) && next !== "") {
      if (next !== "\n") text += next;
      at += 1;
    } else text += character;
  }
  throw new Error("a double quote is not closed");
}

const ESCAPES: Record<string, string> = {
  n: "\n",
  r: "\r",
  t: "\t",
  a: "\x07",
  b: "\b",
  f: "\f",
  v: "\v",
  e: "\x1b",
};

function ansi(text: string): string {
  return text.replace(/\\(u[0-9a-fA-F]{1,4}|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|[\s\S])/g, (_, code: string) => {
    if (/^[ux][0-9a-fA-F]/.test(code)) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
    return ESCAPES[code] ?? code;
  });
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
