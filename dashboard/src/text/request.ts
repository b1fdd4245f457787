import type { Descriptor, Entry, RequestBody } from "../api/types.ts";
import { parseCurl } from "./curl.ts";

/** What was pasted into "Try it", as the service can be asked about it. */
export interface PastedRequest {
  /** How the text was read, in words. */
  readAs: string;
  body: RequestBody;
}

const HTTP_LINE = /^([A-Z]+)\s+(\S+)(\s+HTTP\/[\d.]+)?$/;
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s?(.*)$/;

/**
 * Reads a descriptor (`key=value` lines, or JSON of `/v1/check` or of Envoy), the headers of a request, or a curl command.
 * Throws an `Error` that says what is wrong. A domain in the text wins over `domain`.
 */
export function parsePasted(text: string, domain: string): PastedRequest {
  const trimmed = text.trim();
  if (trimmed === "") throw new Error("paste a descriptor, the headers of a request, or a curl command");
  if (/^(\S*\/)?curl(\.exe)?\s/.test(trimmed)) return ofCurl(trimmed, domain);
  if (trimmed.startsWith("{") || trimmed.startsWith("[")) return ofJson(trimmed, domain, "JSON");
  const lines = trimmed.split(/\r?\n/).map((line) => line.trim());
  const first = lines[0] as string;
  if (HTTP_LINE.test(first) || isHeader(first)) return ofHeaders(lines, domain);
  return ofLines(lines, domain);
}

function isHeader(line: string): boolean {
  const equals = line.indexOf("=");
  const header = HEADER_LINE.exec(line);
  return header !== null && (equals < 0 || line.indexOf(":") < equals);
}

function ofCurl(text: string, domain: string): PastedRequest {
  const request = parseCurl(text);
  const path = request.path.split("?")[0] ?? "";
  if (request.body !== null && /\/(v1\/(check|peek)|json)$/.test(path)) {
    return ofJson(request.body, domain, `the body of a curl command to ${path}`);
  }
  needDomain(domain);
  const { headers, method } = request;
  return {
    readAs: `a curl command: ${method} ${request.path} with ${countOf(Object.keys(headers).length, "header")}`,
    body: { domain, headers, method, path: request.path },
  };
}

function ofHeaders(lines: string[], domain: string): PastedRequest {
  needDomain(domain);
  const start = HTTP_LINE.exec(lines[0] as string);
  const headers: Record<string, string> = {};
  for (const line of start ? lines.slice(1) : lines) {
    if (line === "") break;
    const found = HEADER_LINE.exec(line);
    if (!found) throw new Error(`the line ${JSON.stringify(line)} is not a header; write "name: value"`);
    headers[(found[1] as string).toLowerCase()] = found[2] as string;
  }
  const [method, path] = start ? [start[1] as string, start[2] as string] : ["GET", "/"];
  return {
    readAs: `headers of ${method} ${path} (${countOf(Object.keys(headers).length, "header")})`,
    body: { domain, headers, method, path },
  };
}

/** `key=value` lines; an empty line begins the next descriptor. */
function ofLines(lines: string[], domain: string): PastedRequest {
  needDomain(domain);
  const descriptors: Descriptor[] = [];
  let entries: Entry[] = [];
  for (const line of [...lines, ""]) {
    if (line === "") {
      if (entries.length > 0) descriptors.push({ entries });
      entries = [];
      continue;
    }
    const equals = line.indexOf("=");
    if (equals < 1) throw new Error(`the line ${JSON.stringify(line)} is not an entry; write "key=value"`);
    entries.push({ key: line.slice(0, equals).trim(), value: line.slice(equals + 1).trim() });
  }
  return { readAs: described(descriptors), body: { domain, descriptors } };
}

function ofJson(text: string, domain: string, source: string): PastedRequest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${source} is not valid JSON: ${error instanceof Error ? error.message : error}`);
  }
  const body = (value ?? {}) as Record<string, unknown>;
  const inText = typeof body.domain === "string" ? body.domain : domain;
  needDomain(inText);
  const descriptors = descriptorsOf(value);
  const cost = body.cost ?? body.hits_addend ?? body.hitsAddend;
  const request: RequestBody = { domain: inText, descriptors };
  if (typeof cost === "number") request.cost = cost;
  return { readAs: `${described(descriptors)}, from ${source}`, body: request };
}

function descriptorsOf(value: unknown): Descriptor[] {
  if (Array.isArray(value)) {
    const isEntries = value.every((item) => typeof (item as Entry)?.key === "string");
    return isEntries ? [{ entries: value.map(entryOf) }] : value.map(descriptorOf);
  }
  const body = value as Record<string, unknown>;
  if (Array.isArray(body.descriptors)) return body.descriptors.map(descriptorOf);
  if (body.descriptor !== undefined) return [descriptorOf(body.descriptor)];
  return [descriptorOf(body)];
}

function descriptorOf(value: unknown): Descriptor {
  const body = value as { entries?: unknown };
  if (Array.isArray(body?.entries)) return { entries: body.entries.map(entryOf) };
  if (typeof value !== "object" || value === null)
    throw new Error("a descriptor must be an object or a list");
  const pairs = Object.entries(value).filter(([key]) => key !== "domain");
  return { entries: pairs.map(([key, text]) => entryOf({ key, value: text })) };
}

function entryOf(value: unknown): Entry {
  const entry = value as Partial<Entry>;
  if (typeof entry?.key !== "string") throw new Error('an entry must have a "key"');
  const text = entry.value ?? "";
  if (typeof text === "object") throw new Error(`the value of ${JSON.stringify(entry.key)} must be text`);
  return { key: entry.key, value: String(text) };
}

function described(descriptors: Descriptor[]): string {
  const entries = descriptors.reduce((sum, descriptor) => sum + descriptor.entries.length, 0);
  return `${countOf(descriptors.length, "descriptor")} with ${countOf(entries, "entry", "entries")}`;
}

function countOf(number: number, one: string, several = `${one}s`): string {
  return `${number} ${number === 1 ? one : several}`;
}

function needDomain(domain: string): void {
  if (domain === "") throw new Error("choose a domain");
}
