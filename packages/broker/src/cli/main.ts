#!/usr/bin/env node
/** The `lanemq` executable. */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { inspectDataFolder, startBroker, verifyDataFolder } from '../server.ts';
import { version } from '../version.ts';
import { run } from './run.ts';
import type { Terminal } from './terminal.ts';

/** A mistyped folder must not be reported as an empty log in which nothing is wrong. */
async function requireDataFolder(folder: string): Promise<string> {
  try {
    await access(join(folder, 'segments'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`${folder} is no data folder: its segments cannot be opened (${code})`), { code });
  }
  return folder;
}

// The young generation is collected by the thread that filled it: little survives in it, so that waking others for it costs
// more of the processor than it saves (they took a twelfth of the broker's). Read by V8 at each collection.
setFlagsFromString('--no-parallel-scavenge');
// The old generation may double before it is marked again. Left to itself V8 comes to allow a small heap little more than a
// collection of the young generation frees in buffers, which it counts in: a busy broker then marks its whole heap eight
// times a second, for a fifth of its processor time. More than double serves consumers that read from disk a tenth
// cheaper, and takes 30 MB more.
setFlagsFromString('--heap-growing-percent=100');

// A broker must not end because nobody reads what it prints any more.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const terminal: Terminal = {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
};

const code = await run(process.argv.slice(2), process.env, terminal, {
  version,
  startBroker,
  inspectFolder: async (folder) => inspectDataFolder(await requireDataFolder(folder)),
  verifyFolder: async (folder) => verifyDataFolder(await requireDataFolder(folder)),
});
// What was written must be out before the process ends, and nothing that is still open may keep it alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(code)));
