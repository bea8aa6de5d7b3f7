/**
 * Reads block records where they lie, without copying or allocating. One reader is used for many blocks: `open` puts it
 * on a block, `select` on one record of it.
 */
import { block, readU64, recordFlag } from './format.ts';

export class BlockReader {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(new ArrayBuffer(0));
  /** Index of the block record in `bytes`. */
  at = 0;
  length = 0;
  pid = 0;
  firstOffset = 0;
  stampUs = 0;
  count = 0;

  /** Of the selected record; starts and ends are indexes into `bytes`. */
  flags = 0;
  /** −1 when the record has no transactionId of its own. */
  idStart = -1;
  idEnd = -1;
  traceStart = -1;
  subjectStart = -1;
  subjectEnd = -1;
  messageIdStart = -1;
  /** When the record was to be delivered at the earliest as it was pushed; 0 = at once. */
  dueUs = 0;
  /** A JSON object; −1 when the record has none. */
  headersStart = -1;
  headersEnd = -1;
  payloadStart = 0;
  payloadEnd = 0;

  #dataAt = 0;

  open(bytes: Uint8Array, view: DataView, at: number): this {
    this.bytes = bytes;
    this.view = view;
    this.at = at;
    this.length = view.getUint32(at, true);
    this.pid = readU64(view, at + block.pidAt);
    this.firstOffset = readU64(view, at + block.firstOffsetAt);
    this.stampUs = readU64(view, at + block.stampAt);
    this.count = view.getUint32(at + block.countAt, true);
    this.#dataAt = at + block.tableAt + this.count * block.rowBytes;
    return this;
  }

  hashHigh(index: number): number {
    return this.view.getUint32(this.at + block.tableAt + index * block.rowBytes + 4, true);
  }

  hashLow(index: number): number {
    return this.view.getUint32(this.at + block.tableAt + index * block.rowBytes + 8, true);
  }

  /** Bytes of a record, its ids and flags included: what limits on bytes count. */
  sizeOf(index: number): number {
    const row = this.at + block.tableAt + index * block.rowBytes;
    return this.view.getUint32(row, true) - (index === 0 ? 0 : this.view.getUint32(row - block.rowBytes, true));
  }

  /** Puts the reader on record `index` (0 … count − 1). */
  select(index: number): this {
    const view = this.view;
    const row = this.at + block.tableAt + index * block.rowBytes;
    let p = this.#dataAt + (index === 0 ? 0 : view.getUint32(row - block.rowBytes, true));
    this.payloadEnd = this.#dataAt + view.getUint32(row, true);
    const flags = this.bytes[p++];
    this.flags = flags;
    if ((flags & recordFlag.transactionId) !== 0) {
      const length = view.getUint16(p, true);
      this.idStart = p + 2;
      this.idEnd = this.idStart + length;
      p = this.idEnd;
    } else {
      this.idStart = -1;
      this.idEnd = -1;
    }
    if ((flags & recordFlag.traceId) !== 0) {
      this.traceStart = p;
      p += 16;
    } else this.traceStart = -1;
    if ((flags & recordFlag.producerSub) !== 0) {
      const length = view.getUint16(p, true);
      this.subjectStart = p + 2;
      this.subjectEnd = this.subjectStart + length;
      p = this.subjectEnd;
    } else {
      this.subjectStart = -1;
      this.subjectEnd = -1;
    }
    if ((flags & recordFlag.messageId) !== 0) {
      this.messageIdStart = p;
      p += 16;
    } else this.messageIdStart = -1;
    if ((flags & recordFlag.dueAt) !== 0) {
      this.dueUs = readU64(view, p);
      p += 8;
    } else this.dueUs = 0;
    if ((flags & recordFlag.headers) !== 0) {
      this.headersStart = p + 2;
      this.headersEnd = p + 2 + view.getUint16(p, true);
      p = this.headersEnd;
    } else {
      this.headersStart = -1;
      this.headersEnd = -1;
    }
    this.payloadStart = p;
    return this;
  }
}

/** Bytes of the records fromIndex (inclusive) to toIndex (exclusive) of the block at `at`, ids and flags included. */
export function recordBytes(piece: {
  readonly view: DataView;
  readonly at: number;
  readonly fromIndex: number;
  readonly toIndex: number;
}): number {
  const endOf = (index: number): number =>
    index < 0 ? 0 : piece.view.getUint32(piece.at + block.tableAt + index * block.rowBytes, true);
  return endOf(piece.toIndex - 1) - endOf(piece.fromIndex - 1);
}
