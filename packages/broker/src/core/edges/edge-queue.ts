/** queue/v1: decisions over edge tables of one fixed schema (partition → source, seq → index value, ULID → target). */
import type { Refusal } from '../outcomes.ts';
import type { EdgeDatabaseRecord, EdgeItems, EdgeJournal, EdgeTableRecord } from './edge-records.ts';
import type { EdgePage } from './edge-rows.ts';
import type { EdgeState, EdgeTable } from './edge-state.ts';

export const edgeQueueLimits = {
  partitionsDefault: 30,
  partitionsMax: 10_000,
  pollDefault: 100,
  pollMax: 1000,
  /** A page longer than asked for, because all of it has one seq. */
  runRowsMax: 10_000,
  pageBytesMax: 16 * 1024 * 1024,
  enqueueMessagesMax: 1000,
  valueBytesMax: 256 * 1024,
  bodyBytesMax: 4 * 1024 * 1024,
} as const;

export interface EdgeContext {
  readonly edges: EdgeState;
  readonly journal: EdgeJournal;
  readonly nowUs: number;
}

/** Halves of a signed 64-bit number as rows have them. */
export type Seq = readonly [number, number];

function refusal(code: Refusal['code'], message: string): Refusal {
  return { ok: false, code, message };
}

const nameRule = /^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/;
const storageRule = /^datastore:\/\/[a-z0-9_]+\/[a-zA-Z0-9_-]+$/;

export function decideCreateDatabase(
  context: EdgeContext,
  name: string,
  comment: string,
): EdgeDatabaseRecord | Refusal {
  const { edges, journal, nowUs } = context;
  if (!nameRule.test(name)) return refusal('bad_request', `database must match ${nameRule.source}`);
  if (edges.databases.has(name)) return refusal('conflict', `database ${name} exists`);
  const record = { name, active: true, comment, createdAtUs: nowUs };
  journal.database(record);
  return record;
}

export function decideCreateEdgeQueue(
  context: EdgeContext,
  command: { readonly database: string; readonly queue: string; readonly storage: string; readonly partitions: number },
): EdgeTableRecord | Refusal {
  const { edges, journal, nowUs } = context;
  const { database, queue, storage, partitions } = command;
  const { partitionsMax } = edgeQueueLimits;
  if (!nameRule.test(queue)) return refusal('bad_request', `queue must match ${nameRule.source}`);
  if (!storageRule.test(storage)) return refusal('bad_request', `storage must match ${storageRule.source}`);
  if (partitions < 1 || partitions > partitionsMax) {
    return refusal('bad_request', `partitions must be in 1..${partitionsMax}, got ${partitions}`);
  }
  const found = edges.databases.get(database);
  if (found === undefined || !found.active) {
    return refusal('bad_request', `ddl create failed: namespace \`${database}\` is unknown or inactive`);
  }
  if (edges.find(database, queue) !== undefined) return refusal('conflict', `queue ${database}.${queue} exists`);
  const record = {
    number: edges.nextTableNumber,
    database,
    name: queue,
    partitions,
    storage,
    active: true,
    createdAtUs: nowUs,
  };
  journal.table(record);
  return record;
}

export function findEdgeQueue(edges: EdgeState, database: string, queue: string): EdgeTable | Refusal {
  return edges.find(database, queue) ?? refusal('not_found', `no queue ${database}.${queue}`);
}

export function decideSetEdgeQueueActive(
  context: EdgeContext,
  database: string,
  queue: string,
  active: boolean,
): EdgeTableRecord | Refusal {
  const table = findEdgeQueue(context.edges, database, queue);
  if ('ok' in table) return table;
  if (table.record.active !== active) context.journal.table({ ...table.record, active });
  return table.record;
}

/** The queue with all its rows; it must be disabled. */
export function decideDeleteEdgeQueue(
  context: EdgeContext,
  database: string,
  queue: string,
): { readonly deleted: true } | Refusal {
  const table = findEdgeQueue(context.edges, database, queue);
  if ('ok' in table) return table;
  if (table.record.active) return refusal('conflict', 'queue is enabled: disable it before it is deleted');
  context.journal.tableDeleted({ number: table.record.number });
  return { deleted: true };
}

function enabledQueue(edges: EdgeState, database: string, queue: string): EdgeTable | Refusal {
  const table = findEdgeQueue(edges, database, queue);
  if ('ok' in table) return table;
  return table.record.active ? table : refusal('conflict', 'queue is disabled');
}

function pinnedQueue(edges: EdgeState, database: string, queue: string, partition: number): EdgeTable | Refusal {
  const table = enabledQueue(edges, database, queue);
  if ('ok' in table) return table;
  const { partitions } = table.record;
  if (partition >= 0 && partition < partitions) return table;
  return refusal('bad_request', `partition must be in 0..${partitions - 1}, got ${partition}`);
}

/** floorMod of a signed 32-bit hash. */
export function edgePartitionOf(hash: number, partitions: number): number {
  return (((hash | 0) % partitions) + partitions) % partitions;
}

export interface EnqueueOutcome {
  readonly count: number;
  readonly sources: Int32Array;
  /** 4 words each: a ULID. */
  readonly targets: Uint32Array;
}

/** All messages or none. @param entropy 10 unpredictable bytes, used when the millisecond is a new one. */
export function decideEnqueue(
  context: EdgeContext,
  database: string,
  queue: string,
  items: EdgeItems,
  entropy: Uint8Array,
): EnqueueOutcome | Refusal {
  const { edges, journal, nowUs } = context;
  const table = enabledQueue(edges, database, queue);
  if ('ok' in table) return table;
  const { count, keyHashes } = items;
  const sources = new Int32Array(count);
  const targets = new Uint32Array(count * 4);
  const next = nextTarget(edges.lastTarget, Math.floor(nowUs / 1000), entropy);
  for (let i = 0; i < count; i++) {
    sources[i] = edgePartitionOf(keyHashes[i], table.record.partitions);
    if (i > 0) increment(next);
    targets.set(next, i * 4);
  }
  if (count > 0) journal.rows(table.record.number, nowUs, items, sources, targets);
  return { count, sources, targets };
}

/** A ULID greater than the last: 48 bits of milliseconds, 80 bits of chance; in the same millisecond one more. */
function nextTarget(last: Uint32Array, nowMs: number, entropy: Uint8Array): Uint32Array {
  const lastMs = last[0] * 65_536 + (last[1] >>> 16);
  const next = Uint32Array.from(last);
  if (nowMs <= lastMs) {
    increment(next);
    return next;
  }
  next[0] = Math.floor(nowMs / 65_536);
  next[1] = ((nowMs % 65_536) * 65_536 + entropy[0] * 256 + entropy[1]) >>> 0;
  for (let i = 0; i < 2; i++) {
    const at = 2 + i * 4;
    next[2 + i] = entropy[at] * 0x100_0000 + entropy[at + 1] * 65_536 + entropy[at + 2] * 256 + entropy[at + 3];
  }
  return next;
}

/** The carry out of the 80 bits goes into the milliseconds. */
function increment(target: Uint32Array): void {
  for (let i = 3; i >= 0; i--) {
    target[i]++;
    if (target[i] !== 0) return;
  }
}

export interface PollCommand {
  readonly database: string;
  readonly queue: string;
  readonly partition: number;
  readonly limit: number;
  readonly after: Seq | null;
  readonly until: Seq | null;
}

export interface PollOutcome {
  readonly page: EdgePage;
  /** Rows the queue had taken in. */
  readonly watermark: number;
}

const noRows: EdgePage = { count: 0, words: new Uint32Array(0), numbers: new Float64Array(0), hasNext: false };

export function decidePoll(edges: EdgeState, command: PollCommand): PollOutcome | Refusal {
  const table = pinnedQueue(edges, command.database, command.queue, command.partition);
  if ('ok' in table) return table;
  const rows = table.sources.get(command.partition);
  const page =
    rows === undefined
      ? noRows
      : rows.page(
          command.after,
          command.until,
          command.limit,
          edgeQueueLimits.runRowsMax,
          edgeQueueLimits.pageBytesMax,
        );
  if (page !== null) return { page, watermark: table.appended };
  return refusal(
    'conflict',
    `seq run too long: more than ${edgeQueueLimits.runRowsMax} messages or ${edgeQueueLimits.pageBytesMax} bytes have one seq`,
  );
}

export function decideCommit(
  context: EdgeContext,
  command: {
    readonly database: string;
    readonly queue: string;
    readonly partition: number;
    readonly offset: Seq;
    /** Only messages taken in before it; Infinity = all. */
    readonly watermark: number;
  },
): { readonly committed: number } | Refusal {
  const { edges, journal } = context;
  const table = pinnedQueue(edges, command.database, command.queue, command.partition);
  if ('ok' in table) return table;
  const rows = table.sources.get(command.partition);
  if (rows === undefined) return { committed: 0 };
  const [high, low] = command.offset;
  const before = rows.count;
  if (!rows.hasThrough(high, low)) return { committed: 0 };
  journal.rangeDeleted(table.record.number, command.partition, high, low, command.watermark);
  return { committed: before - rows.count };
}
