/** Reads by offset: no lease, no position, no group. The loops that a caller of the routes would have to write. */
import { arrayIn, badArgument, objectIn } from './answers.ts';
import { LaneError } from './errors.ts';
import type { Answer, Transport } from './transport.ts';
import type { ChangedPartition, FetchedRecord, FoundOffset, WireFetch } from './wire.ts';

/** Limits of a fetch. */
export interface FetchOptions {
  /** The offset to begin with, by partition. Default 0 each. */
  readonly offsets?: Readonly<Record<string, number>>;
  /** Payload bytes of one request; more are read by further requests. Default 8 MiB. */
  readonly maxBytes?: number;
  /**
   * When there is nothing to read yet: milliseconds to wait for something, at most 30,000. Default 0.
   */
  readonly waitMillis?: number;
  /** Ends the read. */
  readonly signal?: AbortSignal;
}

/** What a fetch read of one partition. */
export interface FetchedPartition<T = unknown> {
  /** Name of the partition. */
  readonly partition: string;
  /** In the order of their offsets. */
  readonly records: readonly FetchedRecord<T>[];
  /** The next offset to be given. */
  readonly highWatermark: number;
  /** The oldest offset that is kept. */
  readonly logStartOffset: number;
  /** Where to begin next time, to read what is new. */
  readonly nextOffset: number;
}

/** Partitions that were written since a time. */
export interface ChangedPartitions {
  /** In the order of their creation. */
  readonly partitions: readonly ChangedPartition[];
  /** The next `since`: no write is missed between the two. The broker's time, not this machine's. */
  readonly safeTime: string;
}

interface Progress<T> {
  readonly records: FetchedRecord<T>[];
  highWatermark: number;
  logStartOffset: number;
  nextOffset: number;
  /** The high watermark of the first answer: the read ends there, and does not chase what is written meanwhile. */
  end: number | null;
}

const entriesPerCall = 1000;
const maxBytesDefault = 8 * 1024 * 1024;
const waitGraceMillis = 5000;

export async function fetchPartitions<T>(
  transport: Transport,
  queue: string,
  partitions: string | readonly string[],
  options: FetchOptions,
): Promise<Map<string, FetchedPartition<T>>> {
  const names = [...new Set(typeof partitions === 'string' ? [partitions] : partitions)];
  const { offsets = {}, maxBytes = maxBytesDefault, signal } = options;
  checkFetch(queue, names, offsets, maxBytes);
  const progress = new Map<string, Progress<T>>(
    names.map((name) => [
      name,
      { records: [], highWatermark: 0, logStartOffset: 0, nextOffset: offsets[name] ?? 0, end: null },
    ]),
  );
  // Only the first request waits: later ones ask for what is known to be there.
  let waitMillis = options.waitMillis ?? 0;
  for (let pending: readonly string[] = names; pending.length > 0; waitMillis = 0) {
    const again: string[] = [];
    for (let i = 0; i < pending.length; i += entriesPerCall) {
      const chunk = pending.slice(i, i + entriesPerCall);
      const entries = await fetchOnce(transport, queue, chunk, progress, maxBytes, waitMillis, signal);
      again.push(...takeEntries(queue, chunk, entries, progress));
    }
    pending = again;
  }
  return new Map(
    [...progress].map(([partition, { records, highWatermark, logStartOffset, nextOffset }]) => [
      partition,
      { partition, records, highWatermark, logStartOffset, nextOffset },
    ]),
  );
}

function checkFetch(
  queue: string,
  names: readonly string[],
  offsets: Readonly<Record<string, number>>,
  maxBytes: number,
): void {
  if (queue === '') throw badArgument('a fetch needs the name of a queue');
  if (names.some((name) => typeof name !== 'string' || name === '')) {
    throw badArgument('a partition to fetch must have a name that is not empty');
  }
  for (const [name, offset] of Object.entries(offsets)) {
    if (!Number.isSafeInteger(offset) || offset < 0) {
      throw badArgument(`offsets["${name}"] must be a whole number from 0 on, got ${offset}`);
    }
  }
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1) {
    throw badArgument(`maxBytes must be a whole number from 1 on, got ${maxBytes}`);
  }
}

async function fetchOnce<T>(
  transport: Transport,
  queue: string,
  chunk: readonly string[],
  progress: ReadonlyMap<string, Progress<T>>,
  maxBytes: number,
  waitMillis: number,
  signal: AbortSignal | undefined,
): Promise<WireFetch<T>[]> {
  const entries = chunk.map((partition) => ({
    queue,
    partition,
    offset: progress.get(partition)?.nextOffset ?? 0,
    maxBytes,
  }));
  const answer = await transport.send({
    method: 'POST',
    path: '/api/v1/fetch',
    body: { entries, maxBytes, ...(waitMillis > 0 ? { maxWaitMs: waitMillis } : {}) },
    signal,
    affinityKey: `${queue}:*:__READ__`,
    ...(waitMillis > 0 ? { waiting: true, timeoutMillis: waitMillis + waitGraceMillis } : {}),
  });
  return arrayIn(answer, objectIn<{ entries?: unknown }>(answer).entries, chunk.length);
}

/** Takes an answer into the progress, and returns which partitions have to be asked again. */
function takeEntries<T>(
  queue: string,
  chunk: readonly string[],
  entries: readonly WireFetch<T>[],
  progress: ReadonlyMap<string, Progress<T>>,
): string[] {
  const again: string[] = [];
  const starved: string[] = [];
  let delivered = 0;
  for (let i = 0; i < chunk.length; i++) {
    const name = chunk[i];
    const entry = entries[i];
    const state = progress.get(name);
    if (state === undefined) continue;
    state.highWatermark = entry.highWatermark;
    state.logStartOffset = entry.logStartOffset;
    if (entry.error === 'OFFSET_OUT_OF_RANGE' && state.nextOffset < entry.logStartOffset) {
      // Retention removed the start: what is left begins here.
      state.nextOffset = entry.logStartOffset;
      again.push(name);
      continue;
    }
    if (entry.error === 'OFFSET_OUT_OF_RANGE' || entry.error === 'UNKNOWN_TOPIC_OR_PARTITION') continue;
    if (entry.error !== undefined) {
      throw new LaneError({ code: 'bad_answer', status: 200, message: `${queue}/${name}: ${entry.error}` });
    }
    state.end ??= entry.highWatermark;
    for (const { offset, transactionId, payload, ts } of entry.records) {
      state.records.push({ offset, transactionId, payload, ts });
      state.nextOffset = offset + 1;
    }
    delivered += entry.records.length;
    if (state.nextOffset >= state.end) continue;
    (entry.records.length > 0 ? again : starved).push(name);
  }
  // An entry that came back empty is asked again only when its call read something: another would read as little.
  return delivered > 0 ? [...again, ...starved] : again;
}

export async function fetchOffsets(
  transport: Transport,
  queue: string,
  entries: readonly { readonly partition?: string; readonly timestamp: number | string }[],
): Promise<FoundOffset[]> {
  const body = { entries: entries.map((entry) => ({ queue, ...entry })) };
  const affinityKey = `${queue}:*:__READ__`;
  const answer = await transport.send({ method: 'POST', path: '/api/v1/fetch/offsets', body, affinityKey });
  return arrayIn(answer, objectIn<{ entries?: unknown }>(answer).entries, entries.length);
}

export async function changedSince(
  transport: Transport,
  queue: string,
  since: Date | number | string | undefined,
): Promise<ChangedPartitions> {
  if (queue === '') throw badArgument('changedSince needs the name of a queue');
  const from = since === undefined ? undefined : isoTime(since);
  const partitions: ChangedPartition[] = [];
  let safeTime: string | undefined;
  for (let after: string | null = null; ; ) {
    const entry = { queue, limit: entriesPerCall, ...(from === undefined ? {} : { since: from }), after };
    const answer: Answer = await transport.send({
      method: 'POST',
      path: '/api/v1/partitions/changed',
      body: { entries: [entry] },
      affinityKey: `${queue}:*:__READ__`,
    });
    const page: { safeTime: string; entries?: unknown } = objectIn(answer);
    // Pages of different nodes: the smallest holds for all of them. They are spelled alike, so texts compare as times.
    const known: string = safeTime ?? page.safeTime;
    safeTime = page.safeTime < known ? page.safeTime : known;
    const [row] = arrayIn<{ partitions?: unknown; next: string | null; error?: string }>(answer, page.entries, 1);
    if (row.error === 'UNKNOWN_TOPIC_OR_PARTITION') return { partitions, safeTime };
    if (row.error !== undefined) {
      throw new LaneError({ code: 'bad_answer', status: answer.status, message: `${queue}: ${row.error}` });
    }
    for (const partition of arrayIn<ChangedPartition>(answer, row.partitions)) partitions.push(partition);
    if (row.next === null) return { partitions, safeTime };
    after = row.next;
  }
}

/** A text goes as it is: the broker reads more than this machine's `Date` has digits for. */
function isoTime(time: Date | number | string): string {
  if (typeof time === 'string' && time !== '') return time;
  const date = typeof time === 'string' ? new Date(Number.NaN) : new Date(time);
  if (Number.isNaN(date.getTime())) throw badArgument(`a time must be a Date, milliseconds or ISO-8601, got ${time}`);
  return date.toISOString();
}
