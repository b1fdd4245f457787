import { ApiProblem } from "./problem.ts";
import type { Session } from "./types.ts";

/** Query parameters; those that are undefined or empty are left out. */
export type Query = Record<string, string | number | boolean | undefined>;

interface RequestOptions {
  query?: Query;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is, for rules in YAML. */
  text?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** A response body with the `ETag` that guards the next change. */
export interface Tagged<T> {
  body: T;
  etag: string | null;
}

let csrf = "";
let onSignedOut: () => void = () => undefined;

/** Keeps what changes must send, or forgets it. */
export function setSession(session: Session | null): void {
  csrf = session?.csrf ?? "";
}

/** Sets what happens once the session has ended. */
export function whenSignedOut(handler: () => void): void {
  onSignedOut = handler;
}

/** Returns the address of a route; relative to the page, so that a prefix that a proxy adds is kept. */
export function address(path: string, query: Query = {}): string {
  const url = new URL(`admin/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  let body: string | undefined;
  if (options.json !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(options.json);
  } else if (options.text !== undefined) {
    headers["content-type"] = "application/yaml";
    body = options.text;
  }
  if (method !== "GET" && csrf) headers["x-csrf-token"] = csrf;
  let response: Response;
  try {
    const { query, signal } = options;
    response = await fetch(address(path, query), {
      method,
      headers,
      body,
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw ApiProblem.ofNetwork(error);
  }
  if (response.ok) return response;
  if (response.status === 401 && path !== "session") onSignedOut();
  throw await ApiProblem.of(response);
}

async function json<T>(response: Response): Promise<T> {
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return json<T>(await send("GET", path, { query, signal }));
}

export async function getTagged<T>(path: string, query?: Query, signal?: AbortSignal): Promise<Tagged<T>> {
  const response = await send("GET", path, { query, signal });
  return { body: await json<T>(response), etag: response.headers.get("etag") };
}

export async function getText(path: string, query?: Query, signal?: AbortSignal): Promise<Tagged<string>> {
  const response = await send("GET", path, { query, signal, headers: { accept: "*/*" } });
  return { body: await response.text(), etag: response.headers.get("etag") };
}

export async function post<T>(path: string, body?: unknown, query?: Query): Promise<T> {
  return json<T>(await send("POST", path, { json: body, query }));
}

export async function postYaml<T>(path: string, text: string, signal?: AbortSignal): Promise<T> {
  return json<T>(await send("POST", path, { text, signal }));
}

/** Replaces an object; with `etag`, only if it is still the one that was read. `"none"`: only if there is none yet. */
export async function put<T>(
  path: string,
  body: unknown,
  etag?: string | "none" | null,
  query?: Query,
): Promise<T> {
  return json<T>(await send("PUT", path, { json: body, headers: condition(etag), query }));
}

export async function putYaml<T>(path: string, text: string, query: Query, etag?: string | null): Promise<T> {
  return json<T>(await send("PUT", path, { text, query, headers: condition(etag) }));
}

export async function remove(path: string, query?: Query): Promise<void> {
  await send("DELETE", path, { query });
}

/** Returns a segment of a path: names may contain anything. */
export function segment(name: string): string {
  return encodeURIComponent(name);
}

function condition(etag?: string | "none" | null): Record<string, string> {
  if (!etag) return {};
  return etag === "none" ? { "if-none-match": "*" } : { "if-match": etag };
}
