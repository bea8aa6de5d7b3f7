/** The part of the journal for edge tables. */
import {
  type Hasher,
  recordType,
  writeEdgeRangeDeleted,
  writeEdgeRows,
  writeEdgesDeleted,
  writeEdgesPut,
  writeEdgeValueMoved,
  writeJsonRecord,
} from '../codec/mod.ts';
import type {
  EdgeBound,
  EdgeDatabaseDeletedRecord,
  EdgeDatabaseRecord,
  EdgeItems,
  EdgeJournal,
  EdgePut,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
  KeyRange,
  StoredEdgeValue,
} from '../core/mod.ts';
import type { EntryDraft } from '../ports/mod.ts';

export class DraftEdgeJournal implements EdgeJournal {
  readonly #draft: EntryDraft;
  readonly #hasher: Hasher;
  /** Runs a writer, and applies what it wrote. */
  readonly #append: (write: () => void) => void;

  constructor(draft: EntryDraft, hasher: Hasher, append: (write: () => void) => void) {
    this.#draft = draft;
    this.#hasher = hasher;
    this.#append = append;
  }

  database(record: EdgeDatabaseRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeDatabase, record));
  }

  databaseDeleted(record: EdgeDatabaseDeletedRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeDatabaseDeleted, record));
  }

  table(record: EdgeTableRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeTable, record));
  }

  tableDeleted(record: EdgeTableDeletedRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeTableDeleted, record));
  }

  rows(table: number, stampUs: number, items: EdgeItems, sources: Int32Array, targets: Uint32Array): void {
    this.#append(() => writeEdgeRows(this.#draft, table, stampUs, items, sources, targets, this.#hasher));
  }

  rangeDeleted(table: number, source: number, bound: EdgeBound, watermark: number): void {
    this.#append(() => writeEdgeRangeDeleted(this.#draft, table, source, bound, watermark));
  }

  edgesPut(table: number, stampUs: number, edges: readonly EdgePut[]): void {
    this.#append(() => writeEdgesPut(this.#draft, table, stampUs, edges, this.#hasher));
  }

  edgesDeleted(table: number, range: KeyRange, limit: number): void {
    this.#append(() => writeEdgesDeleted(this.#draft, table, range, limit));
  }

  valueMoved(value: StoredEdgeValue, bytes: Uint8Array, at: number): void {
    this.#append(() => writeEdgeValueMoved(this.#draft, value, bytes, at));
  }
}
