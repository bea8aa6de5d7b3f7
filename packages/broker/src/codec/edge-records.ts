/**
 * Records 20 to 24 of the log: edge tables. Layouts in docs/formats.md.
 *
 *   rows            header | u32 table | u32 count | u64 stampUs | count × 36 bytes: u32 source, seqHigh, seqLow,
 *                   4 × u32 target, u32 length, u32 checksum of the value | the values, one behind the other
 *   range deleted   header (flag 1: up to a watermark) | u32 table, source, seqHigh, seqLow | u64 watermark
 */
import type {
  EdgeDatabaseRecord,
  EdgeItems,
  EdgeRecordHandlers,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
} from '../core/mod.ts';
import { edgeRow } from '../core/mod.ts';
import { readU64, recordHeaderBytes, recordType, writeU64 } from './format.ts';
import type { Hasher } from './hasher.ts';
import type { RecordSpace } from './records.ts';

const rowBytes = 36;
const rowsFixedBytes = recordHeaderBytes + 16;
const rangeBytes = recordHeaderBytes + 24;
const hasWatermark = 1;
const recordVersion = 1;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function header(view: DataView, at: number, length: number, type: number, flags: number): void {
  view.setUint32(at, length, true);
  view.setUint8(at + 4, type);
  view.setUint8(at + 5, recordVersion);
  view.setUint16(at + 6, flags, true);
}

export function writeEdgeRows(
  space: RecordSpace,
  table: number,
  stampUs: number,
  items: EdgeItems,
  sources: Int32Array,
  targets: Uint32Array,
  hasher: Hasher,
): void {
  const { bytes, values, seqs, count } = items;
  let length = rowsFixedBytes + count * rowBytes;
  for (let i = 0; i < count; i++) length += values[i * 2 + 1] - values[i * 2];
  space.require(length);
  const { view, bytes: target } = space;
  const start = space.position;
  header(view, start, length, recordType.edgeRows, 0);
  view.setUint32(start + 8, table, true);
  view.setUint32(start + 12, count, true);
  writeU64(view, start + 16, stampUs);
  let row = start + rowsFixedBytes;
  let p = row + count * rowBytes;
  for (let i = 0; i < count; i++) {
    const from = values[i * 2];
    const end = values[i * 2 + 1];
    view.setUint32(row, sources[i], true);
    view.setUint32(row + 4, seqs[i * 2], true);
    view.setUint32(row + 8, seqs[i * 2 + 1], true);
    for (let k = 0; k < 4; k++) view.setUint32(row + 12 + k * 4, targets[i * 4 + k], true);
    view.setUint32(row + 28, end - from, true);
    hasher.checksum(bytes, from, end);
    view.setUint32(row + 32, hasher.low, true);
    target.set(new Uint8Array(bytes.buffer, bytes.byteOffset + from, end - from), p);
    p += end - from;
    row += rowBytes;
  }
  space.position = p;
}

export function writeEdgeRangeDeleted(
  space: RecordSpace,
  table: number,
  source: number,
  seqHigh: number,
  seqLow: number,
  watermark: number,
): void {
  space.require(rangeBytes);
  const { view, position } = space;
  const isBounded = watermark !== Number.POSITIVE_INFINITY;
  header(view, position, rangeBytes, recordType.edgeRangeDeleted, isBounded ? hasWatermark : 0);
  view.setUint32(position + 8, table, true);
  view.setUint32(position + 12, source, true);
  view.setUint32(position + 16, seqHigh, true);
  view.setUint32(position + 20, seqLow, true);
  writeU64(view, position + 24, isBounded ? watermark : 0);
  space.position += rangeBytes;
}

const words = new Uint32Array(edgeRow.words);
const numbers = new Float64Array(edgeRow.numbers);

/** Hands one record of type 20 to 24 to its handler. */
export function readEdgeRecord(
  type: number,
  bytes: Uint8Array,
  view: DataView,
  at: number,
  length: number,
  handlers: EdgeRecordHandlers,
): void {
  const json = (): unknown => JSON.parse(decoder.decode(bytes.subarray(at + recordHeaderBytes, at + length)));
  switch (type) {
    case recordType.edgeRows: {
      const count = view.getUint32(at + 12, true);
      handlers.rowsBegin(view.getUint32(at + 8, true), readU64(view, at + 16));
      let row = at + rowsFixedBytes;
      let p = row + count * rowBytes;
      for (let i = 0; i < count; i++, row += rowBytes) {
        for (let k = 0; k < edgeRow.words; k++) words[k] = view.getUint32(row + 4 + k * 4, true);
        numbers[edgeRow.addressAt] = p;
        p += words[edgeRow.lengthAt];
        handlers.row(view.getUint32(row, true), words, numbers);
      }
      return;
    }
    case recordType.edgeRangeDeleted:
      handlers.rangeDeleted(
        view.getUint32(at + 8, true),
        view.getUint32(at + 12, true),
        view.getUint32(at + 16, true),
        view.getUint32(at + 20, true),
        (view.getUint16(at + 6, true) & hasWatermark) !== 0 ? readU64(view, at + 24) : Number.POSITIVE_INFINITY,
      );
      return;
    case recordType.edgeDatabase:
      handlers.database(json() as EdgeDatabaseRecord);
      return;
    case recordType.edgeTable:
      handlers.table(json() as EdgeTableRecord);
      return;
    case recordType.edgeTableDeleted:
      handlers.tableDeleted(json() as EdgeTableDeletedRecord);
      return;
    default:
      throw new Error(`record type ${type} is none of edge tables`);
  }
}
