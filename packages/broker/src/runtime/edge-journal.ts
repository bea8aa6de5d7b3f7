/** The part of the journal for edge tables. */
import { type Hasher, recordType, writeEdgeRangeDeleted, writeEdgeRows, writeJsonRecord } from '../codec/mod.ts';
import type {
  EdgeDatabaseRecord,
  EdgeItems,
  EdgeJournal,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
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

  table(record: EdgeTableRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeTable, record));
  }

  tableDeleted(record: EdgeTableDeletedRecord): void {
    this.#append(() => writeJsonRecord(this.#draft, recordType.edgeTableDeleted, record));
  }

  rows(table: number, stampUs: number, items: EdgeItems, sources: Int32Array, targets: Uint32Array): void {
    this.#append(() => writeEdgeRows(this.#draft, table, stampUs, items, sources, targets, this.#hasher));
  }

  rangeDeleted(table: number, source: number, seqHigh: number, seqLow: number, watermark: number): void {
    this.#append(() => writeEdgeRangeDeleted(this.#draft, table, source, seqHigh, seqLow, watermark));
  }
}
