/** The options of the demo, and the folder it may use. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface DemoOptions {
  readonly dataFolder: string;
  readonly rounds: number;
  /** Worker processes per group. */
  readonly workers: number;
  /** Port of the commands printed at the end, and of the broker with `keep`. */
  readonly port: number;
  readonly keep: boolean;
}

export const usage = `npm run demo -- [options]

  --data DIR     data folder of the broker, made anew by each run (./lanemq-demo-data)
  --rounds N     how often the set of webhook payloads is pushed, 1 to 10000 (20)
  --workers N    worker processes per group, 2 to 32 (3)
  --port N       port of the broker after the run (6632)
  --keep         leave the broker running at the end, until Ctrl-C
  --help         this text
`;

/** The demo deletes a folder only when it finds its own mark in it. */
const markFile = '.made-by-lanemq-demo';

/** null: help was asked for. Throws an Error with a text for the user when an option is not accepted. */
export function parseDemoOptions(args: readonly string[]): DemoOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: 'string', default: './lanemq-demo-data' },
      rounds: { type: 'string', default: '20' },
      workers: { type: 'string', default: '3' },
      port: { type: 'string', default: '6632' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return null;
  return {
    dataFolder: resolve(values.data),
    rounds: integerIn('rounds', values.rounds, 1, 10_000),
    workers: integerIn('workers', values.workers, 2, 32),
    port: integerIn('port', values.port, 1, 65_535),
    keep: values.keep,
  };
}

/** Empties the folder of an earlier demo, or makes it. Throws when the folder holds anything else. */
export function prepareDataFolder(folder: string): void {
  const mark = join(folder, markFile);
  if (existsSync(mark)) rmSync(folder, { recursive: true });
  else if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new Error(`${folder} is not empty and not from an earlier demo; name another folder with --data`);
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(mark, 'The next run of the LaneMQ demo empties this folder.\n');
}

function integerIn(name: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new Error(`--${name} must be a whole number from ${min} to ${max}, got "${text}"`);
}
