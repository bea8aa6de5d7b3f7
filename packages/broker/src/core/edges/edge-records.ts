/** The records of edge tables (numbers 20 to 29 of the log), and what decisions and the log say them to. */

/** A database: all of it, as it is from now on. */
export interface EdgeDatabaseRecord {
  readonly name: string;
  readonly active: boolean;
  readonly comment: string;
  readonly createdAtUs: number;
}

/** A table of type IMMUTABLE_EDGE that is a queue: all of it, as it is from now on. */
export interface EdgeTableRecord {
  /** Number for ever; never reused. */
  readonly number: number;
  readonly database: string;
  readonly name: string;
  readonly partitions: number;
  readonly storage: string;
  readonly active: boolean;
  readonly createdAtUs: number;
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
}

export interface EdgeRecordHandlers {
  database(record: EdgeDatabaseRecord): void;
  table(record: EdgeTableRecord): void;
  tableDeleted(record: EdgeTableDeletedRecord): void;
  /** Begins a batch of rows of one table. */
  rowsBegin(tableNumber: number, stampUs: number): void;
  /** One row; `words` and `numbers` as in EdgeRows, reused by the next call. The address is counted from `recordBase`. */
  row(source: number, words: Uint32Array, numbers: Float64Array): void;
  /** Rows of a source up to a value that were added at or before `watermark` (Infinity = all) are gone. */
  rangeDeleted(tableNumber: number, source: number, seqHigh: number, seqLow: number, watermark: number): void;
}

export interface EdgeJournal {
  database(record: EdgeDatabaseRecord): void;
  table(record: EdgeTableRecord): void;
  tableDeleted(record: EdgeTableDeletedRecord): void;
  /** `sources` and `targets` (4 words each) per message. */
  rows(tableNumber: number, stampUs: number, items: EdgeItems, sources: Int32Array, targets: Uint32Array): void;
  rangeDeleted(tableNumber: number, source: number, seqHigh: number, seqLow: number, watermark: number): void;
}
