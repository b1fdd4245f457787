import { readFileSync } from 'node:fs';

/** The cases of a file that all languages are held to. */
export function vectors<T>(name: string): T[] {
  return vectorsOf<{ cases: T[] }>(name).cases;
}

/** The whole of such a file. */
export function vectorsOf<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../../../vectors/${name}.json`, import.meta.url), 'utf8')) as T;
}
