// Builds the package twice, for `import` and for `require`.
import { execFileSync } from 'node:child_process';
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

rmSync(join(here, 'dist'), { recursive: true, force: true });
for (const project of ['tsconfig.esm.json', 'tsconfig.cjs.json']) {
  execFileSync(process.execPath, [tsc, '--project', join(here, project)], { stdio: 'inherit' });
}
// The package is of type "module"; the files for `require` are not modules.
writeFileSync(join(here, 'dist/cjs/package.json'), '{ "type": "commonjs" }\n');
// `const rateLimit = require('tidegate/express')` is the function itself, as with express-rate-limit.
appendFileSync(
  join(here, 'dist/cjs/express.js'),
  'module.exports = Object.defineProperties(rateLimit, Object.getOwnPropertyDescriptors(exports));\n',
);
