/** Databases, edge tables and their rows, and the handlers that alone change them. */
import { assert } from '../assert.ts';
import type {
  EdgeDatabaseRecord,
  EdgeRecordHandlers,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
} from './edge-records.ts';
import { EdgeRows, edgeRow } from './edge-rows.ts';

export class EdgeTable {
  record: EdgeTableRecord;
  /** By source; a source without rows is not in it. */
  readonly sources = new Map<number, EdgeRows>();
  /** Rows ever taken in: what a watermark refers to. */
  appended = 0;

  constructor(record: EdgeTableRecord) {
    this.record = record;
  }
}

export class EdgeState implements EdgeRecordHandlers {
  readonly databases = new Map<string, EdgeDatabaseRecord>();
  readonly tables = new Map<number, EdgeTable>();
  readonly #byName = new Map<string, EdgeTable>();
  nextTableNumber = 1;
  /** The greatest target ever given, 4 words. */
  readonly lastTarget = new Uint32Array(4);
  /** Log address of byte 0 of the memory that records are read from; set before they are. */
  recordBase = 0;
  readonly #mix: (value: number) => void;
  readonly #seen: (stampUs: number) => void;
  #table: EdgeTable | undefined;

  constructor(mix: (value: number) => void, seen: (stampUs: number) => void) {
    this.#mix = mix;
    this.#seen = seen;
  }

  find(database: string, name: string): EdgeTable | undefined {
    return this.#byName.get(`${database}/${name}`);
  }

  database(record: EdgeDatabaseRecord): void {
    this.databases.set(record.name, record);
    this.#seen(record.createdAtUs);
    this.#mix(this.databases.size);
  }

  table(record: EdgeTableRecord): void {
    const existing = this.tables.get(record.number);
    if (existing !== undefined) existing.record = record;
    else this.addTable(record);
    this.#seen(record.createdAtUs);
    this.#mix(record.number * 2 + (record.active ? 1 : 0));
  }

  addTable(record: EdgeTableRecord): EdgeTable {
    const table = new EdgeTable(record);
    assert(this.find(record.database, record.name) === undefined, 'a table name is taken once');
    this.tables.set(record.number, table);
    this.#byName.set(`${record.database}/${record.name}`, table);
    this.nextTableNumber = Math.max(this.nextTableNumber, record.number + 1);
    return table;
  }

  tableDeleted(record: EdgeTableDeletedRecord): void {
    const table = this.tables.get(record.number);
    assert(table !== undefined, 'only a known table is deleted');
    this.tables.delete(record.number);
    this.#byName.delete(`${table.record.database}/${table.record.name}`);
    this.#mix(record.number);
  }

  rowsBegin(tableNumber: number, stampUs: number): void {
    this.#table = this.tables.get(tableNumber);
    this.#seen(stampUs);
  }

  row(source: number, words: Uint32Array, numbers: Float64Array): void {
    const table = this.#table;
    assert(table !== undefined, 'rows are added to a known table');
    assert(isGreater(words, edgeRow.targetAt, this.lastTarget), 'targets rise');
    for (let i = 0; i < 4; i++) this.lastTarget[i] = words[edgeRow.targetAt + i];
    numbers[edgeRow.addressAt] += this.recordBase;
    numbers[edgeRow.appendedAt] = ++table.appended;
    rowsOf(table, source).add(words, numbers);
    this.#mix(words[edgeRow.seqLowAt] ^ words[edgeRow.checksumAt]);
    this.#mix(table.appended);
  }

  rangeDeleted(tableNumber: number, source: number, seqHigh: number, seqLow: number, watermark: number): void {
    const table = this.tables.get(tableNumber);
    assert(table !== undefined, 'rows of a known table are deleted');
    const rows = table.sources.get(source);
    const removed = rows?.removeThrough(seqHigh, seqLow, watermark) ?? 0;
    if (rows?.count === 0) table.sources.delete(source);
    this.#mix(removed);
  }

  /** Tells every stored value that is still referred to: the segments they lie in must stay. */
  visitValues(value: (address: number, length: number) => void): void {
    for (const table of this.tables.values()) {
      for (const rows of table.sources.values()) {
        rows.visit((words, w, numbers, n) => {
          if (words[w + edgeRow.lengthAt] > 0) value(numbers[n + edgeRow.addressAt], words[w + edgeRow.lengthAt]);
        });
      }
    }
  }
}

export function rowsOf(table: EdgeTable, source: number): EdgeRows {
  let rows = table.sources.get(source);
  if (rows === undefined) {
    rows = new EdgeRows();
    table.sources.set(source, rows);
  }
  return rows;
}

function isGreater(words: Uint32Array, at: number, last: Uint32Array): boolean {
  for (let i = 0; i < 4; i++) {
    if (words[at + i] !== last[i]) return words[at + i] > last[i];
  }
  return false;
}
