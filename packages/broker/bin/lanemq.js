#!/usr/bin/env node
// Stands here before the build does, so that an install can link the command.
import { existsSync } from 'node:fs';

const main = new URL('../dist/src/cli/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write('lanemq: this checkout is not built yet: run `npm run build` first\n');
  process.exitCode = 1;
}
