/** The records of edge tables (numbers 20 to 29 of the log), and what decisions and the log say them to. */
import type { EdgeBound } from './edge-rows.ts';
import type { EdgeSchema } from './edge-schema.ts';
import type { KeyedRow, KeyRange } from './keyed-rows.ts';

/** A database: all of it, as it is from now on. */
export interface EdgeDatabaseRecord {
  readonly name: string;
  readonly active: boolean;
  readonly comment: string;
  readonly createdAtUs: number;
}

export interface EdgeDatabaseDeletedRecord {
  readonly name: string;
}

export type EdgeTableMode = 'SYNC' | 'ASYNC' | 'DROP';

/** What a table that is a queue has, whose schema is the same for all queues. */
export interface EdgeQueueSettings {
  readonly partitions: number;
  /** How long a dedupId is remembered. */
  readonly dedupMs: number;
}

/** A table of type IMMUTABLE_EDGE: all of it, as it is from now on. */
export interface EdgeTableRecord {
  /** Number for ever; never reused. */
  readonly number: number;
  readonly database: string;
  readonly name: string;
  readonly storage: string;
  readonly active: boolean;
  readonly comment: string;
  readonly mode: EdgeTableMode;
  readonly createdAtUs: number;
  /** Either it is a queue, or it has a schema of its own. */
  readonly queue: EdgeQueueSettings | null;
  readonly schema: EdgeSchema | null;
}

export interface EdgeTableDeletedRecord {
  readonly number: number;
}

/** Messages of one enqueue. Values are ranges of `bytes`; an empty range is JSON null. */
export interface EdgeItems {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Per message the start and end of its value. */
  readonly values: Int32Array;
  /** Per message the halves of its seq: the high one with its sign bit flipped, the low one. */
  readonly seqs: Uint32Array;
  /** Per message the signed XXH32 of its key. */
  readonly keyHashes: Int32Array;
  /** Per message the id it is known by, null = none; null when no message has one. */
  readonly dedupIds: readonly (string | null)[] | null;
}

/** An edge that is put: its key, and the text that is stored for it. */
export interface EdgePut {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export interface EdgeRecordHandlers {
  database(record: EdgeDatabaseRecord): void;
  databaseDeleted(record: EdgeDatabaseDeletedRecord): void;
  table(record: EdgeTableRecord): void;
  tableDeleted(record: EdgeTableDeletedRecord): void;
  /** Begins a batch of rows of one queue, which come by partition. */
  rowsBegin(tableNumber: number, stampUs: number): void;
  /** One row; `words` and `numbers` as in EdgeRows, reused by the next call. The address is counted from `recordBase`. */
  row(source: number, words: Uint32Array, numbers: Float64Array): void;
  /** A row of the batch, with its words, is known by an id. */
  dedupId(id: string, source: number, words: Uint32Array): void;
  /** Rows of a source up to a bound that were added at or before `watermark` (Infinity = all) are gone. */
  rangeDeleted(tableNumber: number, source: number, bound: EdgeBound, watermark: number): void;
  /** The value of a row lies elsewhere from now on; the address is counted from `recordBase`. */
  rowMoved(tableNumber: number, source: number, bound: EdgeBound, address: number): void;
  /** A row of a table with a schema is put; the address is counted from `recordBase`. */
  edgePut(tableNumber: number, stampUs: number, row: KeyedRow): void;
  /** The first `limit` rows of a range are gone. */
  edgesDeleted(tableNumber: number, range: KeyRange, limit: number): void;
  /** The value of a row lies elsewhere from now on; the address is counted from `recordBase`. */
  edgeMoved(tableNumber: number, row: KeyedRow): void;
}

/** A stored value with what refers to it: the row of a queue, or of a table with a schema. */
export type StoredEdgeValue = {
  readonly table: number;
  readonly address: number;
  readonly length: number;
  readonly checksum: number;
} & (
  | { readonly kind: 'row'; readonly source: number; readonly bound: EdgeBound }
  | { readonly kind: 'edge'; readonly key: Uint8Array }
);

export interface EdgeJournal {
  database(record: EdgeDatabaseRecord): void;
  databaseDeleted(record: EdgeDatabaseDeletedRecord): void;
  table(record: EdgeTableRecord): void;
  tableDeleted(record: EdgeTableDeletedRecord): void;
  /** `sources` and `targets` (4 words each) per message. */
  rows(tableNumber: number, stampUs: number, items: EdgeItems, sources: Int32Array, targets: Uint32Array): void;
  rangeDeleted(tableNumber: number, source: number, bound: EdgeBound, watermark: number): void;
  edgesPut(tableNumber: number, stampUs: number, edges: readonly EdgePut[]): void;
  edgesDeleted(tableNumber: number, range: KeyRange, limit: number): void;
  /** Stores a value once more; bytes[at, at + value.length) are its bytes. */
  valueMoved(value: StoredEdgeValue, bytes: Uint8Array, at: number): void;
}
