/** queue/v1: decisions over edge tables of one fixed schema (partition → source, seq → index value, ULID → target). */
import type { Refusal } from '../outcomes.ts';
import { type EdgeContext, refusal } from './edge-context.ts';
import { refuseNewTable } from './edge-metadata.ts';
import type { EdgeItems, EdgeTableRecord } from './edge-records.ts';
import type { EdgeBound, EdgePage, EdgeRange } from './edge-rows.ts';
import { edgeRow } from './edge-rows.ts';
import type { EdgeState, EdgeTable, KnownMessage } from './edge-state.ts';

export const edgeQueueLimits = {
  partitionsDefault: 30,
  partitionsMax: 10_000,
  pollDefault: 100,
  pollMax: 1000,
  pollWaitMsMax: 30_000,
  /** A page longer than asked for, because all of it has one seq. */
  runRowsMax: 10_000,
  pageBytesMax: 16 * 1024 * 1024,
  enqueueMessagesMax: 1000,
  valueBytesMax: 256 * 1024,
  bodyBytesMax: 4 * 1024 * 1024,
  dedupIdLengthMax: 128,
  dedupMsDefault: 300_000,
  dedupMsMax: 86_400_000,
  /** Of one queue, remembered at the same time. */
  dedupIdsMax: 1_000_000,
} as const;

/** Halves of a signed 64-bit number as rows have them. */
export type Seq = readonly [number, number];

export function decideCreateEdgeQueue(
  context: EdgeContext,
  command: {
    readonly database: string;
    readonly queue: string;
    readonly storage: string;
    readonly partitions: number;
    readonly dedupMs: number;
  },
): EdgeTableRecord | Refusal {
  const { edges, journal, nowUs } = context;
  const { database, queue: name, storage, partitions, dedupMs } = command;
  const { partitionsMax, dedupMsMax } = edgeQueueLimits;
  if (partitions < 1 || partitions > partitionsMax) {
    return refusal('bad_request', `partitions must be in 1..${partitionsMax}, got ${partitions}`);
  }
  if (dedupMs < 1 || dedupMs > dedupMsMax) {
    return refusal('bad_request', `dedupWindowMs must be in 1..${dedupMsMax}, got ${dedupMs}`);
  }
  const refused = refuseNewTable(edges, 'queue', { database, name, storage });
  if (refused !== null) return refused;
  const record = {
    number: edges.nextTableNumber,
    database,
    name,
    storage,
    active: true,
    comment: '',
    mode: 'SYNC',
    createdAtUs: nowUs,
    queue: { partitions, dedupMs },
    schema: null,
  } as const;
  journal.table(record);
  return record;
}

interface FoundQueue {
  readonly table: EdgeTable;
  readonly partitions: number;
}

function findQueue(edges: EdgeState, database: string, queue: string): FoundQueue | Refusal {
  const table = edges.find(database, queue);
  if (table === undefined) return refusal('not_found', `no queue ${database}.${queue}`);
  const settings = table.record.queue;
  if (settings === null) return refusal('bad_request', `\`${database}.${queue}\` is not a queue/v1 table`);
  return { table, partitions: settings.partitions };
}

export function showEdgeQueue(edges: EdgeState, database: string, queue: string): EdgeTableRecord | Refusal {
  const found = findQueue(edges, database, queue);
  return 'ok' in found ? found : found.table.record;
}

export function decideSetEdgeQueueActive(
  context: EdgeContext,
  database: string,
  queue: string,
  active: boolean,
): EdgeTableRecord | Refusal {
  const found = findQueue(context.edges, database, queue);
  if ('ok' in found) return found;
  const { table } = found;
  if (table.record.active !== active) context.journal.table({ ...table.record, active });
  return table.record;
}

/** The queue with all its rows; it must be disabled. */
export function decideDeleteEdgeQueue(
  context: EdgeContext,
  database: string,
  queue: string,
): { readonly deleted: true } | Refusal {
  const found = findQueue(context.edges, database, queue);
  if ('ok' in found) return found;
  const { active, number } = found.table.record;
  if (active) return refusal('conflict', 'queue is enabled: disable it before it is deleted');
  context.journal.tableDeleted({ number });
  return { deleted: true };
}

function enabledQueue(edges: EdgeState, database: string, queue: string): FoundQueue | Refusal {
  const found = findQueue(edges, database, queue);
  if ('ok' in found || found.table.record.active) return found;
  return refusal('conflict', 'queue is disabled');
}

function pinnedQueue(edges: EdgeState, database: string, queue: string, partition: number): EdgeTable | Refusal {
  const found = enabledQueue(edges, database, queue);
  if ('ok' in found) return found;
  const { table, partitions } = found;
  if (partition >= 0 && partition < partitions) return table;
  return refusal('bad_request', `partition must be in 0..${partitions - 1}, got ${partition}`);
}

/** floorMod of a signed 32-bit hash. */
export function edgePartitionOf(hash: number, partitions: number): number {
  return (((hash | 0) % partitions) + partitions) % partitions;
}

export interface EnqueueOutcome {
  readonly count: number;
  /** Messages that were stored by this call. */
  readonly created: number;
  readonly table: number;
  readonly sources: Int32Array;
  /** 4 words each: a ULID. */
  readonly targets: Uint32Array;
  /** Per message 1 when it is known by its id already; null when none is. */
  readonly duplicates: Uint8Array | null;
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
  const found = enabledQueue(edges, database, queue);
  if ('ok' in found) return found;
  const { table, partitions } = found;
  const { number } = table.record;
  const { count, keyHashes } = items;
  const sources = new Int32Array(count);
  const targets = new Uint32Array(count * 4);
  const next = nextTarget(edges.lastTarget, Math.floor(nowUs / 1000), entropy);
  const known = items.dedupIds === null ? null : new KnownIds(table, nowUs);
  const fresh: number[] = [];
  for (let i = 0; i < count; i++) {
    const id = items.dedupIds?.[i] ?? null;
    const first = id === null ? undefined : known?.find(id);
    if (first !== undefined) {
      sources[i] = first.source;
      targets.set(first.target, i * 4);
      continue;
    }
    sources[i] = edgePartitionOf(keyHashes[i], partitions);
    if (fresh.length > 0) increment(next);
    targets.set(next, i * 4);
    fresh.push(i);
    if (id !== null) known?.add(id, { source: sources[i], target: next.slice(), stampUs: nowUs });
  }
  if (known?.isFull === true) {
    return {
      ok: false,
      code: 'overloaded',
      message: `the queue remembers ${edgeQueueLimits.dedupIdsMax} dedupIds, the limit: nothing was stored`,
    };
  }
  const created = fresh.length;
  if (created === count) {
    if (count > 0) journal.rows(number, nowUs, items, sources, targets);
    return { count, created, table: number, sources, targets, duplicates: null };
  }
  const duplicates = new Uint8Array(count).fill(1);
  for (const i of fresh) duplicates[i] = 0;
  if (created > 0) {
    const freshTargets = Uint32Array.from(fresh.flatMap((i) => [...targets.subarray(i * 4, i * 4 + 4)]));
    journal.rows(
      number,
      nowUs,
      chosen(items, fresh),
      Int32Array.from(fresh, (i) => sources[i]),
      freshTargets,
    );
  }
  return { count, created, table: number, sources, targets, duplicates };
}

/** The ids that a queue remembers, and those of the enqueue that is being decided. */
class KnownIds {
  readonly #table: EdgeTable;
  readonly #sinceUs: number;
  readonly #added = new Map<string, KnownMessage>();

  constructor(table: EdgeTable, nowUs: number) {
    this.#table = table;
    this.#sinceUs = nowUs - (table.record.queue?.dedupMs ?? 0) * 1000;
  }

  find(id: string): KnownMessage | undefined {
    const stored = this.#table.known.get(id);
    return stored !== undefined && stored.stampUs >= this.#sinceUs ? stored : this.#added.get(id);
  }

  add(id: string, message: KnownMessage): void {
    this.#added.set(id, message);
  }

  /** Those that are old enough to be forgotten go when these are stored. */
  get isFull(): boolean {
    const { known } = this.#table;
    if (known.size + this.#added.size <= edgeQueueLimits.dedupIdsMax) return false;
    let forgotten = 0;
    for (const { stampUs } of known.values()) {
      if (stampUs >= this.#sinceUs) break;
      forgotten++;
    }
    return known.size - forgotten + this.#added.size > edgeQueueLimits.dedupIdsMax;
  }
}

function chosen(items: EdgeItems, numbers: readonly number[]): EdgeItems {
  return {
    bytes: items.bytes,
    count: numbers.length,
    values: Int32Array.from(numbers.flatMap((i) => [items.values[i * 2], items.values[i * 2 + 1]])),
    seqs: Uint32Array.from(numbers.flatMap((i) => [items.seqs[i * 2], items.seqs[i * 2 + 1]])),
    keyHashes: Int32Array.from(numbers, (i) => items.keyHashes[i]),
    dedupIds: numbers.map((i) => items.dedupIds?.[i] ?? null),
  };
}

/** A ULID greater than the last: 48 bits of milliseconds, 80 bits of chance; in the same millisecond one more. */
function nextTarget(last: Uint32Array, nowMs: number, entropy: Uint8Array): Uint32Array {
  const next = Uint32Array.from(last);
  if (nowMs <= targetMs(last, 0)) {
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

/** When a ULID was given. */
function targetMs(words: Uint32Array, at: number): number {
  return words[at] * 65_536 + (words[at + 1] >>> 16);
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
  /** Set: `after` is a seq and this id, and pages may end anywhere. */
  readonly afterTarget: Uint32Array | null;
  /** `now`: the broker's time in milliseconds. */
  readonly until: Seq | 'now' | null;
}

export interface PollOutcome {
  readonly page: EdgePage;
  /** Rows the queue had taken in. */
  readonly watermark: number;
  readonly table: number;
  /** Of an empty page: when the first message enters the range by itself, milliseconds; Infinity = never. */
  readonly dueMs: number;
}

const noRows: EdgePage = { count: 0, words: new Uint32Array(0), numbers: new Float64Array(0), hasNext: false };
const two32 = 0x1_0000_0000;
const signBit = 0x8000_0000;

/** Halves of a number of milliseconds, which is not negative. */
function seqOfMs(ms: number): Seq {
  return [Math.floor(ms / two32) + signBit, ms % two32];
}

export function decidePoll(context: EdgeContext, command: PollCommand): PollOutcome | Refusal {
  const { edges, nowUs } = context;
  const table = pinnedQueue(edges, command.database, command.queue, command.partition);
  if ('ok' in table) return table;
  const nowMs = Math.floor(nowUs / 1000);
  const until = command.until === 'now' ? seqOfMs(nowMs) : command.until;
  const after = command.after === null ? null : boundOf(command.after, command.afterTarget);
  const range: EdgeRange = { after, until: until === null ? null : boundOf(until, null) };
  const { pageBytesMax, runRowsMax } = edgeQueueLimits;
  const rows = table.sources.get(command.partition);
  const outcome = { watermark: table.appended, table: table.record.number, dueMs: Number.POSITIVE_INFINITY };
  if (rows === undefined) return { ...outcome, page: noRows };
  const page =
    command.afterTarget === null
      ? rows.page(range, command.limit, runRowsMax, pageBytesMax)
      : rows.compoundPage(range, command.limit, pageBytesMax);
  if (page === null) {
    return refusal(
      'conflict',
      `seq run too long: more than ${runRowsMax} messages or ${pageBytesMax} bytes have one seq; page with after=<seq>,<id>`,
    );
  }
  if (page.count > 0 || command.until !== 'now') return { ...outcome, page };
  const first = rows.first({ after, until: null });
  const dueMs = first === null ? outcome.dueMs : (first.words[0] - signBit) * two32 + first.words[1];
  return { ...outcome, page, dueMs };
}

function boundOf([high, low]: Seq, target: Uint32Array | null): EdgeBound {
  return { high, low, target };
}

export function decideCommit(
  context: EdgeContext,
  command: {
    readonly database: string;
    readonly queue: string;
    readonly partition: number;
    readonly offset: Seq;
    /** Of the messages with that seq only those up to this id; null = all. */
    readonly target: Uint32Array | null;
    /** Only messages taken in before it; Infinity = all. */
    readonly watermark: number;
  },
): { readonly committed: number } | Refusal {
  const { edges, journal } = context;
  const { partition, watermark } = command;
  const table = pinnedQueue(edges, command.database, command.queue, partition);
  if ('ok' in table) return table;
  const bound = boundOf(command.offset, command.target);
  const committed = table.sources.get(partition)?.countThrough(bound, watermark) ?? 0;
  if (committed > 0) journal.rangeDeleted(table.record.number, partition, bound, watermark);
  return { committed };
}

const lastSeq: EdgeBound = { high: 0xffff_ffff, low: 0xffff_ffff, target: null };

/** Removes all messages. */
export function decidePurge(
  context: EdgeContext,
  database: string,
  queue: string,
): { readonly purged: number } | Refusal {
  const found = enabledQueue(context.edges, database, queue);
  if ('ok' in found) return found;
  const { record, sources, rowCount } = found.table;
  for (const partition of [...sources.keys()].sort((a, b) => a - b)) {
    context.journal.rangeDeleted(record.number, partition, lastSeq, Number.POSITIVE_INFINITY);
  }
  return { purged: rowCount };
}

/** A partition that holds messages. */
export interface PartitionDepth {
  readonly partition: number;
  readonly depth: number;
  readonly firstSeq: Seq;
  readonly lastSeq: Seq;
  /** How long ago the message that is first in order was enqueued. */
  readonly lagMs: number;
}

export interface QueueDepth {
  readonly record: EdgeTableRecord;
  readonly depth: number;
  /** The greatest of its partitions. */
  readonly lagMs: number;
  /** Those that hold messages, by number. */
  readonly partitions: readonly PartitionDepth[];
}

function depthOf(table: EdgeTable, nowMs: number): QueueDepth {
  const partitions: PartitionDepth[] = [];
  for (const [partition, rows] of table.sources) {
    const first = rows.first({ after: null, until: null });
    const last = rows.last();
    if (first === null || last === null) continue;
    partitions.push({
      partition,
      depth: rows.count,
      firstSeq: [first.words[0], first.words[1]],
      lastSeq: [last.words[0], last.words[1]],
      lagMs: Math.max(0, nowMs - targetMs(first.words, edgeRow.targetAt)),
    });
  }
  partitions.sort((a, b) => a.partition - b.partition);
  const depth = partitions.reduce((sum, each) => sum + each.depth, 0);
  const lagMs = partitions.reduce((most, each) => Math.max(most, each.lagMs), 0);
  return { record: table.record, depth, lagMs, partitions };
}

export function showQueueDepth(context: EdgeContext, database: string, queue: string): QueueDepth | Refusal {
  const found = findQueue(context.edges, database, queue);
  return 'ok' in found ? found : depthOf(found.table, Math.floor(context.nowUs / 1000));
}

/** The queues of a namespace, in the order in which they were made. */
export function listQueueDepths(context: EdgeContext, database: string): readonly QueueDepth[] | Refusal {
  const { edges, nowUs } = context;
  if (!edges.databases.has(database)) return refusal('not_found', `no namespace ${database}`);
  const queues = edges.tablesOf(database).filter(({ record }) => record.queue !== null);
  return queues.map((table) => depthOf(table, Math.floor(nowUs / 1000)));
}
