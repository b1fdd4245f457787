/** The package as it is published, built and packed once for all tests that need it. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { until } from './until.js';

const here = join(dirname(fileURLToPath(import.meta.url)), '../..');
const MADE_OF = ['src', 'package.json', 'build.mjs', 'tsconfig.json', 'tsconfig.esm.json', 'tsconfig.cjs.json', 'README.md', 'LICENSE'];
/** How long packing may take on a machine that has other things to do. */
const PATIENCE_MS = 280_000;

/**
 * Returns a folder like the repository's root, in which `npm pack` was called in `sdk/typescript`; the package
 * is also unpacked, in `package`. Sources that have not changed are not built again.
 */
export async function packed(): Promise<string> {
  // Not below node_modules: there TypeScript writes modules in any case.
  const folder = join(tmpdir(), `tidegate-packed-${digestOf(here)}`, digest());
  const done = join(folder, 'done');
  try {
    mkdirSync(dirname(folder), { recursive: true });
    mkdirSync(folder);
  } catch {
    // Another test was first.
    await until('the package is packed', () => existsSync(done) || !existsSync(folder), PATIENCE_MS);
    return existsSync(done) ? folder : packed();
  }
  try {
    pack(folder);
    writeFileSync(done, '');
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

function pack(folder: string): void {
  // What was packed from older sources is of no use any more.
  for (const name of readdirSync(dirname(folder))) {
    const other = join(dirname(folder), name);
    if (other !== folder && existsSync(join(other, 'done'))) rmSync(other, { recursive: true, force: true });
  }
  const sources = join(folder, 'sdk/typescript');
  mkdirSync(sources, { recursive: true });
  for (const name of MADE_OF) cpSync(join(here, name), join(sources, name), { recursive: true });
  symlinkSync(join(here, 'node_modules'), join(sources, 'node_modules'));
  execFileSync('npm', ['pack', '--silent'], { cwd: sources, stdio: ['ignore', 'pipe', 'inherit'] });
  execFileSync('tar', ['--extract', '--file', tarballIn(folder), '--directory', folder]);
}

/** What was packed, in a folder of {@link packed}. */
export function tarballIn(folder: string): string {
  const sources = join(folder, 'sdk/typescript');
  const name = readdirSync(sources).find((one) => one.endsWith('.tgz'));
  return join(sources, name ?? 'nothing was packed');
}

/** Puts the package and express into `node_modules` of an app. */
export async function installInto(app: string): Promise<void> {
  const folder = await packed();
  mkdirSync(join(app, 'node_modules'), { recursive: true });
  cpSync(join(folder, 'package'), join(app, 'node_modules/tidegate'), { recursive: true });
  symlinkSync(join(here, 'node_modules/express'), join(app, 'node_modules/express'));
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function digest(): string {
  const hash = createHash('sha256');
  const add = (path: string): void => {
    hash.update(`${path}\0`).update(readFileSync(join(here, path)));
  };
  for (const name of MADE_OF) {
    if (name !== 'src') add(name);
    else for (const file of readdirSync(join(here, 'src'), { recursive: true }).map(String).sort()) if (file.endsWith('.ts')) add(`src/${file}`);
  }
  return hash.digest('hex').slice(0, 16);
}
