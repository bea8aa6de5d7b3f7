/** Databases, edge tables and their rows, and the handlers that alone change them. */
import { assert } from '../assert.ts';
import type {
  EdgeDatabaseDeletedRecord,
  EdgeDatabaseRecord,
  EdgeRecordHandlers,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
  StoredEdgeValue,
} from './edge-records.ts';
import { type EdgeBound, EdgeRows, edgeRow } from './edge-rows.ts';
import { type KeyedRow, KeyedRows, type KeyRange } from './keyed-rows.ts';

/** The message that an id stands for. */
export interface KnownMessage {
  readonly source: number;
  /** 4 words. */
  readonly target: Uint32Array;
  readonly stampUs: number;
}

export class EdgeTable {
  record: EdgeTableRecord;
  /** Of a queue, by partition; a partition without rows is not in it. */
  readonly sources = new Map<number, EdgeRows>();
  /** Rows ever taken in: what a watermark refers to. */
  appended = 0;
  /** Of a queue: messages that came with an id, oldest first. */
  readonly known = new Map<string, KnownMessage>();
  /** Of a table with a schema. */
  readonly edges = new KeyedRows();

  constructor(record: EdgeTableRecord) {
    this.record = record;
  }

  get rowCount(): number {
    let count = this.edges.count;
    for (const rows of this.sources.values()) count += rows.count;
    return count;
  }

  get valueBytes(): number {
    let bytes = this.edges.valueBytes;
    for (const rows of this.sources.values()) bytes += rows.valueBytes;
    return bytes;
  }
}

/** Bytes of the smallest key, which is below all others. */
const noKey = new Uint8Array(0);

export class EdgeState implements EdgeRecordHandlers {
  readonly databases = new Map<string, EdgeDatabaseRecord>();
  readonly tables = new Map<number, EdgeTable>();
  readonly #byName = new Map<string, EdgeTable>();
  nextTableNumber = 1;
  /** Bytes of values that rows referred to and do not any more, since this state is in memory. */
  droppedBytes = 0;
  /** The greatest target ever given, 4 words. */
  readonly lastTarget = new Uint32Array(4);
  /** Log address of byte 0 of the memory that records are read from; set before they are. */
  recordBase = 0;
  readonly #mix: (value: number) => void;
  readonly #seen: (stampUs: number) => void;
  #table: EdgeTable | undefined;
  #stampUs = 0;
  /** The greatest target before the batch of rows that is being read. */
  readonly #targetBefore = new Uint32Array(4);

  constructor(mix: (value: number) => void, seen: (stampUs: number) => void) {
    this.#mix = mix;
    this.#seen = seen;
  }

  find(database: string, name: string): EdgeTable | undefined {
    return this.#byName.get(`${database}/${name}`);
  }

  /** In the order in which they were made. */
  tablesOf(database: string): EdgeTable[] {
    return [...this.tables.values()].filter(({ record }) => record.database === database);
  }

  database(record: EdgeDatabaseRecord): void {
    this.databases.set(record.name, record);
    this.#seen(record.createdAtUs);
    this.#mix(this.databases.size * 2 + (record.active ? 1 : 0));
  }

  databaseDeleted(record: EdgeDatabaseDeletedRecord): void {
    assert(this.databases.delete(record.name), 'only a known database is deleted');
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
    const table = this.#known(record.number);
    const { database, name } = table.record;
    this.droppedBytes += table.valueBytes;
    this.tables.delete(record.number);
    this.#byName.delete(`${database}/${name}`);
    this.#mix(record.number);
  }

  #known(number: number): EdgeTable {
    const table = this.tables.get(number);
    assert(table !== undefined, 'records of edges name a known table');
    return table;
  }

  rowsBegin(tableNumber: number, stampUs: number): void {
    this.#table = this.#known(tableNumber);
    this.#stampUs = stampUs;
    this.#targetBefore.set(this.lastTarget);
    this.#seen(stampUs);
  }

  row(source: number, words: Uint32Array, numbers: Float64Array): void {
    const table = this.#table;
    assert(table !== undefined, 'rows are added to a known table');
    assert(isGreater(words, edgeRow.targetAt, this.#targetBefore), 'targets rise');
    // Within a batch they rise per partition.
    if (isGreater(words, edgeRow.targetAt, this.lastTarget)) {
      for (let i = 0; i < 4; i++) this.lastTarget[i] = words[edgeRow.targetAt + i];
    }
    numbers[edgeRow.addressAt] += this.recordBase;
    numbers[edgeRow.appendedAt] = ++table.appended;
    rowsOf(table, source).add(words, numbers);
    this.#mix(words[edgeRow.seqLowAt] ^ words[edgeRow.checksumAt]);
    this.#mix(table.appended);
  }

  dedupId(id: string, source: number, words: Uint32Array): void {
    const table = this.#table;
    assert(table !== undefined, 'ids are those of rows of a known table');
    const { known, record } = table;
    const sinceUs = this.#stampUs - (record.queue?.dedupMs ?? 0) * 1000;
    for (const [old, { stampUs }] of known) {
      if (stampUs >= sinceUs) break;
      known.delete(old);
    }
    // One that was forgotten is newest now.
    known.delete(id);
    known.set(id, {
      source,
      target: words.slice(edgeRow.targetAt, edgeRow.targetAt + 4),
      stampUs: this.#stampUs,
    });
    this.#mix(known.size);
  }

  rangeDeleted(tableNumber: number, source: number, bound: EdgeBound, watermark: number): void {
    const table = this.#known(tableNumber);
    const rows = table.sources.get(source);
    const bytesBefore = rows?.valueBytes ?? 0;
    const removed = rows?.removeThrough(bound, watermark) ?? 0;
    this.droppedBytes += bytesBefore - (rows?.valueBytes ?? 0);
    if (rows?.count === 0) table.sources.delete(source);
    this.#mix(removed);
  }

  rowMoved(tableNumber: number, source: number, bound: EdgeBound, address: number): void {
    const rows = this.#known(tableNumber).sources.get(source);
    assert(rows?.moveValue(bound, address + this.recordBase) === true, 'the value of a row that exists is moved');
    this.#mix(source);
  }

  edgePut(tableNumber: number, stampUs: number, row: KeyedRow): void {
    const { edges } = this.#known(tableNumber);
    this.#seen(stampUs);
    this.droppedBytes += edges.find(row.key)?.length ?? 0;
    edges.put(row.key, { ...row, address: row.address + this.recordBase });
    this.#mix(row.checksum);
    this.#mix(edges.count);
  }

  edgesDeleted(tableNumber: number, range: KeyRange, limit: number): void {
    const { edges } = this.#known(tableNumber);
    const bytesBefore = edges.valueBytes;
    this.#mix(edges.remove(range, limit));
    this.droppedBytes += bytesBefore - edges.valueBytes;
  }

  edgeMoved(tableNumber: number, row: KeyedRow): void {
    const { edges } = this.#known(tableNumber);
    assert(edges.find(row.key) !== null, 'the value of a row that exists is moved');
    edges.put(row.key, { ...row, address: row.address + this.recordBase });
    this.#mix(tableNumber);
  }

  /**
   * Shows every stored value that `isWanted`, in steps of some rows: whoever walks may let others change the state between
   * two of them. A value that is there from the first step to the last is shown.
   */
  *walkValues(
    stepRows: number,
    isWanted: (address: number, length: number) => boolean,
    take: (value: StoredEdgeValue) => void,
  ): Generator<void> {
    for (const [number, table] of this.tables) {
      for (const [source, rows] of table.sources) {
        let after: EdgeBound | null = null;
        do {
          after = rows.visit(after, stepRows, (words, w, numbers, n) => {
            const address = numbers[n + edgeRow.addressAt];
            const length = words[w + edgeRow.lengthAt];
            if (length === 0 || !isWanted(address, length)) return;
            const target = words.slice(w + edgeRow.targetAt, w + edgeRow.targetAt + 4);
            const bound = { high: words[w], low: words[w + 1], target };
            take({
              kind: 'row',
              table: number,
              source,
              bound,
              address,
              length,
              checksum: words[w + edgeRow.checksumAt],
            });
          });
          yield;
        } while (after !== null);
      }
      let from = noKey;
      for (let isLeft = table.edges.count > 0; isLeft; ) {
        const { rows, hasNext } = table.edges.page({ from, to: null }, stepRows, Number.POSITIVE_INFINITY);
        for (const row of rows) {
          if (isWanted(row.address, row.length)) take({ kind: 'edge', table: number, ...row });
          from = keyBehind(row.key);
        }
        isLeft = hasNext;
        yield;
      }
    }
  }

  /** True when a row still has its value where it was seen. */
  isStored(value: StoredEdgeValue): boolean {
    const table = this.tables.get(value.table);
    if (value.kind === 'edge') return table?.edges.find(value.key)?.address === value.address;
    return table?.sources.get(value.source)?.addressOf(value.bound) === value.address;
  }
}

/** The next key there could be. */
export function keyBehind(key: Uint8Array): Uint8Array<ArrayBuffer> {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
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
