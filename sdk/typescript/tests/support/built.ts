/** The sources built into a folder of a test's own, as an app has the package. Not `dist`, which another test builds anew. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** Puts `tidegate` and express into `node_modules` of the folder. */
export function installInto(folder: string): void {
  const installed = join(folder, 'node_modules/tidegate');
  mkdirSync(installed, { recursive: true });
  const tsc = join(here, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, '--project', join(here, 'tsconfig.esm.json'), '--outDir', join(installed, 'dist/esm')]);
  copyFileSync(join(here, 'package.json'), join(installed, 'package.json'));
  symlinkSync(join(here, 'node_modules/express'), join(folder, 'node_modules/express'));
}
