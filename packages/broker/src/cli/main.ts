#!/usr/bin/env node
/** The `lanemq` executable. */

import { readFileSync } from 'node:fs';
import { inspectDataFolder, startBroker, verifyDataFolder } from '../server.ts';
import { run } from './run.ts';
import type { Terminal } from './terminal.ts';

/** The package's own file lies three folders above the compiled one. */
function packageVersion(): string {
  const file = new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

// A broker must not end because nobody reads what it prints any more.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const terminal: Terminal = {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
};

const code = await run(process.argv.slice(2), process.env, terminal, {
  version: packageVersion(),
  startBroker,
  inspectFolder: inspectDataFolder,
  verifyFolder: verifyDataFolder,
});
// What was written must be out before the process ends, and nothing that is still open may keep it alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(code)));
