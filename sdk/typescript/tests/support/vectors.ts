import { readFileSync } from 'node:fs';

/** The cases of a file that all languages are held to. */
export function vectors<T>(name: string): T[] {
  const text = readFileSync(new URL(`../../../../vectors/${name}.json`, import.meta.url), 'utf8');
  return (JSON.parse(text) as { cases: T[] }).cases;
}
