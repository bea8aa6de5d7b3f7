/** The options of a run, equal for all its cases. */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { payloadBytesMin } from './support/push-request.ts';

export interface BenchOptions {
  /** Letters of the cases, in the order given. */
  readonly cases: readonly string[];
  /** Length of each phase that is measured by time. */
  readonly seconds: number;
  /** Overrides of what a case chooses itself; null = the case's own. */
  readonly connections: number | null;
  readonly partitions: number | null;
  readonly messages: number | null;
  readonly payloadBytes: number;
  /** Messages carry transactionIds, as those of the official clients do. */
  readonly withIds: boolean;
  /** Where the brokers' data folders are made. */
  readonly folder: string;
  readonly jsonFile: string | null;
  /** More arguments of `lanemq serve`, and of node itself. */
  readonly brokerArgs: readonly string[];
  readonly nodeArgs: readonly string[];
}

export const usage = `npm run bench -- CASE … [options]

cases
  a   100 messages per push to one of 10,000 partitions; push, pop, ack
  b   1,000 messages per push scattered over 100,000 partitions; consumed and acked in order
  c   one message per push, 64 connections
  d   push to waiting pop, 100 per second, open loop
  e   1,000,000 partitions by first push; memory, consumption, restart
  f   memory per remembered transactionId
  g   a replay of everything from disk
  h   the disk of an expired backlog of 2 GB, and the latency of others meanwhile
  i   operations over 1,000,000 partitions and dead letters, and the latency of others meanwhile
  j   places in one partition of 1,000,000 appends, searched and read after a restart
  k   queue/v1: 1,000 messages per enqueue and poll, a commit of 100,000, polls after as many commits as messages
  l   the work of a through the client, against fetch and JSON by hand

options
  --seconds N        length of each timed phase (10)
  --connections N    instead of the case's own number of connections
  --partitions N     instead of the case's own number of partitions
  --messages N       instead of the case's own number of messages
  --payload N        bytes of each payload (256)
  --no-ids           send no transactionIds
  --folder DIR       where data folders are made (.bench-data)
  --json FILE        write the figures there too
  --broker-args=STR  more arguments of "lanemq serve", separated by spaces
  --node-args=STR    arguments of the broker's node, such as --cpu-prof
`;

/** null: help was asked for. Throws an Error with a text for the user when an option is not accepted. */
export function parseBenchOptions(args: readonly string[], caseIds: readonly string[]): BenchOptions | null {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '10' },
      connections: { type: 'string' },
      partitions: { type: 'string' },
      messages: { type: 'string' },
      payload: { type: 'string', default: '256' },
      'no-ids': { type: 'boolean', default: false },
      folder: { type: 'string', default: '.bench-data' },
      json: { type: 'string' },
      'broker-args': { type: 'string', default: '' },
      'node-args': { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help || positionals.length === 0) return null;
  const unknown = positionals.find((id) => !caseIds.includes(id));
  if (unknown !== undefined) throw new Error(`there is no case "${unknown}"; there are ${caseIds.join(', ')}`);
  const folder = resolve(values.folder);
  mkdirSync(folder, { recursive: true });
  return {
    cases: positionals,
    seconds: numberIn('seconds', values.seconds, 0.1, 3600),
    connections: optionalIn('connections', values.connections, 1, 4096),
    partitions: optionalIn('partitions', values.partitions, 1, 20_000_000),
    messages: optionalIn('messages', values.messages, 1, 100_000_000),
    payloadBytes: numberIn('payload', values.payload, payloadBytesMin, 1_000_000),
    withIds: !values['no-ids'],
    folder,
    jsonFile: values.json === undefined ? null : resolve(values.json),
    brokerArgs: words(values['broker-args']),
    nodeArgs: words(values['node-args']),
  };
}

function optionalIn(name: string, text: string | undefined, min: number, max: number): number | null {
  return text === undefined ? null : numberIn(name, text, min, max);
}

function numberIn(name: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isFinite(value) && value >= min && value <= max) return value;
  throw new Error(`--${name} must be a number from ${min} to ${max}, got "${text}"`);
}

function words(text: string): string[] {
  return text.split(' ').filter((word) => word !== '');
}
