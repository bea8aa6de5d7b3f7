/** Bodies of the reads by offset. What is wrong with a field refuses the whole request, with a text that names it. */

import { limits } from '@lanemq/protocol';
import type { ChangedEntry, FetchEntry, FetchRequest, OffsetsEntry } from '../runtime/mod.ts';
import { parseIsoTime } from './iso-time.ts';
import { isObject, type JsonObject } from './small-body.ts';

/** A field of a body has a value that is not accepted; the message says which. */
export class BadField extends Error {
  override readonly name = 'BadField';
}

const defaultPartition = 'Default';
const cursorForm = /^p\|(\d{1,15})$/;
const usPerMs = 1000;

/** The entries of a body, none of them read yet. */
function entriesOf(body: unknown): readonly JsonObject[] {
  if (!isObject(body)) throw new BadField('the body must be a JSON object with entries');
  const entries = body['entries'];
  if (!Array.isArray(entries)) throw new BadField('entries must be an array');
  if (entries.length > limits.readEntriesMax) throw new BadField('too many entries');
  return entries.map((entry: unknown) => {
    if (!isObject(entry)) throw new BadField('an entry must be an object');
    return entry;
  });
}

/** A missing queue is one without a name, which nobody has. */
function queueOf(entry: JsonObject): string {
  const queue = entry['queue'] ?? '';
  if (typeof queue !== 'string') throw new BadField('queue must be a string');
  return queue;
}

function partitionOf(entry: JsonObject): string {
  const partition = entry['partition'] ?? defaultPartition;
  if (typeof partition === 'number' && Number.isSafeInteger(partition)) return String(partition);
  if (typeof partition !== 'string') throw new BadField('partition must be a string or an integer');
  return partition === '' ? defaultPartition : partition;
}

function integerOf(body: JsonObject, field: string, missing: number): number {
  const value = body[field] ?? missing;
  if (typeof value !== 'number' || (value !== missing && !Number.isInteger(value))) {
    throw new BadField(`${field} must be an integer`);
  }
  return value;
}

function clamped(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

function fetchEntry(entry: JsonObject): FetchEntry {
  const offset = integerOf(entry, 'offset', 0);
  if (offset < 0) throw new BadField('offset must be non-negative');
  return {
    queue: queueOf(entry),
    partition: partitionOf(entry),
    offset,
    maxBytes: clamped(integerOf(entry, 'maxBytes', limits.fetchEntryBytesDefault), 1, limits.fetchEntryBytesMax),
  };
}

export function readFetchBody(body: unknown): FetchRequest {
  const entries = entriesOf(body).map(fetchEntry);
  const fields = body as JsonObject;
  return {
    entries,
    maxWaitMs: clamped(integerOf(fields, 'maxWaitMs', 0), 0, limits.fetchWaitMsMax),
    minBytes: Math.max(integerOf(fields, 'minBytes', 1), 0),
    maxBytes: Math.max(integerOf(fields, 'maxBytes', Number.POSITIVE_INFINITY), 1),
  };
}

/** Epoch milliseconds or an ISO time, in microseconds. */
function timestampOf(entry: JsonObject): number {
  const timestamp = entry['timestamp'];
  const us =
    typeof timestamp === 'number'
      ? Math.ceil(timestamp * usPerMs)
      : typeof timestamp === 'string'
        ? parseIsoTime(timestamp)
        : undefined;
  if (us === undefined || !Number.isFinite(us)) {
    throw new BadField('timestamp must be epoch milliseconds or an ISO-8601 time');
  }
  return us;
}

export function readOffsetsBody(body: unknown): readonly OffsetsEntry[] {
  return entriesOf(body).map((entry) => ({
    queue: queueOf(entry),
    partition: partitionOf(entry),
    stampUs: timestampOf(entry),
  }));
}

function sinceOf(entry: JsonObject): number {
  const since = entry['since'] ?? null;
  if (since === null) return Number.NEGATIVE_INFINITY;
  const us = typeof since === 'string' ? parseIsoTime(since) : undefined;
  if (us === undefined) throw new BadField('since must be an ISO-8601 time, such as 2026-10-20T09:00:00Z, or null');
  return us;
}

/** The pid behind which a page begins; −1 for what is no cursor of this broker. */
function afterOf(entry: JsonObject): number {
  const after = entry['after'] ?? '';
  if (after === '') return 0;
  const cursor = typeof after === 'string' ? cursorForm.exec(after) : null;
  return cursor === null ? -1 : Number(cursor[1]);
}

/** The text of a cursor that `afterOf` reads. */
export function cursorText(pid: number): string {
  return `p|${pid}`;
}

function changedEntry(entry: JsonObject): ChangedEntry {
  return {
    queue: queueOf(entry),
    sinceUs: sinceOf(entry),
    after: afterOf(entry),
    limit: clamped(integerOf(entry, 'limit', limits.changedPageMax), 1, limits.changedPageMax),
  };
}

export function readChangedBody(body: unknown): readonly ChangedEntry[] {
  return entriesOf(body).map(changedEntry);
}
