/** Records 20 to 29 of the log: edge tables. Layouts in docs/formats.md. */
import {
  type EdgeBound,
  type EdgeDatabaseDeletedRecord,
  type EdgeDatabaseRecord,
  type EdgeItems,
  type EdgePut,
  type EdgeRecordHandlers,
  type EdgeTableDeletedRecord,
  type EdgeTableRecord,
  edgeRow,
  type KeyRange,
  type StoredEdgeValue,
} from '../core/mod.ts';
import { readU64, recordHeaderBytes, recordType, writeU64 } from './format.ts';
import type { Hasher } from './hasher.ts';
import type { RecordSpace } from './records.ts';

const rowBytes = 36;
const rowsFixedBytes = recordHeaderBytes + 16;
const rangeBytes = recordHeaderBytes + 24;
const targetBytes = 16;
const movedRowBytes = recordHeaderBytes + 40;
const putsFixedBytes = recordHeaderBytes + 16;
const putBytes = 12;
const deletedFixedBytes = recordHeaderBytes + 12;
const movedEdgeFixedBytes = recordHeaderBytes + 16;
const rowsFlag = { ids: 1 } as const;
const rangeFlag = { watermark: 1, target: 2 } as const;
const deletedFlag = { bounded: 1 } as const;
const recordVersion = 1;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

function header(view: DataView, at: number, length: number, type: number, flags: number): void {
  view.setUint32(at, length, true);
  view.setUint8(at + 4, type);
  view.setUint8(at + 5, recordVersion);
  view.setUint16(at + 6, flags, true);
}

interface DedupId {
  readonly row: number;
  readonly id: Uint8Array;
}

/**
 * The messages of a partition beside each other: a page of one partition then reads a few pieces of each record, not all
 * of it.
 */
function byPartition(count: number, sources: Int32Array): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  return order.sort((a, b) => sources[a] - sources[b] || a - b);
}

/** Layout: header | u32 table | u32 count | u64 stampUs | rows by partition | values | ids, with flag 1. */
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
  const order = byPartition(count, sources);
  const ids = dedupIds(items, order);
  let length = rowsFixedBytes + count * rowBytes + (ids.length > 0 ? 4 : 0);
  for (let i = 0; i < count; i++) length += values[i * 2 + 1] - values[i * 2];
  for (const { id } of ids) length += 6 + id.length;
  space.require(length);
  const { view, bytes: target } = space;
  const start = space.position;
  header(view, start, length, recordType.edgeRows, ids.length > 0 ? rowsFlag.ids : 0);
  view.setUint32(start + 8, table, true);
  view.setUint32(start + 12, count, true);
  writeU64(view, start + 16, stampUs);
  let row = start + rowsFixedBytes;
  let p = row + count * rowBytes;
  for (const i of order) {
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
  if (ids.length > 0) p = writeDedupIds(space, p, ids);
  space.position = p;
}

function dedupIds({ dedupIds: ids }: EdgeItems, order: Uint32Array): DedupId[] {
  const found: DedupId[] = [];
  if (ids === null) return found;
  order.forEach((item, row) => {
    const id = ids[item] ?? null;
    if (id !== null) found.push({ row, id: encoder.encode(id) });
  });
  return found;
}

/** Layout: u32 count | per id u32 row, u16 length, the id. */
function writeDedupIds({ view, bytes }: RecordSpace, at: number, ids: readonly DedupId[]): number {
  view.setUint32(at, ids.length, true);
  let p = at + 4;
  for (const { row, id } of ids) {
    view.setUint32(p, row, true);
    view.setUint16(p + 4, id.length, true);
    bytes.set(id, p + 6);
    p += 6 + id.length;
  }
  return p;
}

/** Layout: header | u32 table, partition, seqHigh, seqLow | u64 watermark, 0 without flag 1 | 4 × u32 target, with flag 2. */
export function writeEdgeRangeDeleted(
  space: RecordSpace,
  table: number,
  source: number,
  bound: EdgeBound,
  watermark: number,
): void {
  const length = rangeBytes + (bound.target === null ? 0 : targetBytes);
  space.require(length);
  const { view, position } = space;
  const isMarked = watermark !== Number.POSITIVE_INFINITY;
  const flags = (isMarked ? rangeFlag.watermark : 0) | (bound.target === null ? 0 : rangeFlag.target);
  header(view, position, length, recordType.edgeRangeDeleted, flags);
  view.setUint32(position + 8, table, true);
  view.setUint32(position + 12, source, true);
  view.setUint32(position + 16, bound.high, true);
  view.setUint32(position + 20, bound.low, true);
  writeU64(view, position + 24, isMarked ? watermark : 0);
  if (bound.target !== null) writeTarget(view, position + rangeBytes, bound.target);
  space.position += length;
}

function writeTarget(view: DataView, at: number, target: Uint32Array): void {
  for (let i = 0; i < 4; i++) view.setUint32(at + i * 4, target[i], true);
}

function readTarget(view: DataView, at: number): Uint32Array {
  return Uint32Array.from({ length: 4 }, (_, i) => view.getUint32(at + i * 4, true));
}

/** Layout: header | u32 table | u32 count | u64 stampUs | per edge u32 key length, value length, checksum | keys | values. */
export function writeEdgesPut(
  space: RecordSpace,
  table: number,
  stampUs: number,
  edges: readonly EdgePut[],
  hasher: Hasher,
): void {
  let length = putsFixedBytes + edges.length * putBytes;
  for (const { key, value } of edges) length += key.length + value.length;
  space.require(length);
  const { view, bytes, position: start } = space;
  header(view, start, length, recordType.edgesPut, 0);
  view.setUint32(start + 8, table, true);
  view.setUint32(start + 12, edges.length, true);
  writeU64(view, start + 16, stampUs);
  let row = start + putsFixedBytes;
  let p = row + edges.length * putBytes;
  for (const { key, value } of edges) {
    view.setUint32(row, key.length, true);
    view.setUint32(row + 4, value.length, true);
    hasher.checksum(value, 0, value.length);
    view.setUint32(row + 8, hasher.low, true);
    bytes.set(key, p);
    p += key.length;
    row += putBytes;
  }
  for (const { value } of edges) {
    bytes.set(value, p);
    p += value.length;
  }
  space.position = p;
}

/** Layout: header | u32 table | u32 limit | u32 length of from | from | to, with flag 1. */
export function writeEdgesDeleted(space: RecordSpace, table: number, { from, to }: KeyRange, limit: number): void {
  const length = deletedFixedBytes + from.length + (to?.length ?? 0);
  space.require(length);
  const { view, bytes, position } = space;
  header(view, position, length, recordType.edgesDeleted, to === null ? 0 : deletedFlag.bounded);
  view.setUint32(position + 8, table, true);
  view.setUint32(position + 12, limit, true);
  view.setUint32(position + 16, from.length, true);
  bytes.set(from, position + deletedFixedBytes);
  if (to !== null) bytes.set(to, position + deletedFixedBytes + from.length);
  space.position += length;
}

/**
 * A value once more. Layout of a row's: header | u32 table, partition, seqHigh, seqLow | 4 × u32 target | u32 length
 * | u32 checksum | the value. Of an edge's: header | u32 table | u32 key length | u32 length | u32 checksum | the key
 * | the value.
 */
export function writeEdgeValueMoved(space: RecordSpace, value: StoredEdgeValue, bytes: Uint8Array, at: number): void {
  const fixedBytes = value.kind === 'row' ? movedRowBytes : movedEdgeFixedBytes + value.key.length;
  const length = fixedBytes + value.length;
  space.require(length);
  const { view, position: p } = space;
  header(view, p, length, value.kind === 'row' ? recordType.edgeRowMoved : recordType.edgeMoved, 0);
  view.setUint32(p + 8, value.table, true);
  if (value.kind === 'row') {
    const { high, low, target } = value.bound;
    view.setUint32(p + 12, value.source, true);
    view.setUint32(p + 16, high, true);
    view.setUint32(p + 20, low, true);
    if (target !== null) writeTarget(view, p + 24, target);
    view.setUint32(p + 40, value.length, true);
    view.setUint32(p + 44, value.checksum, true);
  } else {
    view.setUint32(p + 12, value.key.length, true);
    view.setUint32(p + 16, value.length, true);
    view.setUint32(p + 20, value.checksum, true);
    space.bytes.set(value.key, p + movedEdgeFixedBytes);
  }
  space.bytes.set(bytes.subarray(at, at + value.length), p + fixedBytes);
  space.position += length;
}

const words = new Uint32Array(edgeRow.words);
const numbers = new Float64Array(edgeRow.numbers);

/** Hands one record of type 20 to 29 to its handler. */
export function readEdgeRecord(
  type: number,
  bytes: Uint8Array,
  view: DataView,
  at: number,
  length: number,
  handlers: EdgeRecordHandlers,
): void {
  const json = (): unknown => JSON.parse(decoder.decode(bytes.subarray(at + recordHeaderBytes, at + length)));
  const flags = view.getUint16(at + 6, true);
  const table = view.getUint32(at + 8, true);
  switch (type) {
    case recordType.edgeRows:
      readRows(bytes, view, at, handlers);
      return;
    case recordType.edgeRangeDeleted: {
      const bound = {
        high: view.getUint32(at + 16, true),
        low: view.getUint32(at + 20, true),
        target: (flags & rangeFlag.target) === 0 ? null : readTarget(view, at + rangeBytes),
      };
      const watermark = (flags & rangeFlag.watermark) === 0 ? Number.POSITIVE_INFINITY : readU64(view, at + 24);
      handlers.rangeDeleted(table, view.getUint32(at + 12, true), bound, watermark);
      return;
    }
    case recordType.edgeRowMoved: {
      const bound = { high: view.getUint32(at + 16, true), low: view.getUint32(at + 20, true) };
      const target = readTarget(view, at + 24);
      handlers.rowMoved(table, view.getUint32(at + 12, true), { ...bound, target }, at + movedRowBytes);
      return;
    }
    case recordType.edgesPut:
      readPuts(bytes, view, at, handlers);
      return;
    case recordType.edgesDeleted: {
      const fromAt = at + deletedFixedBytes;
      const toAt = fromAt + view.getUint32(at + 16, true);
      const to = (flags & deletedFlag.bounded) === 0 ? null : bytes.slice(toAt, at + length);
      handlers.edgesDeleted(table, { from: bytes.slice(fromAt, toAt), to }, view.getUint32(at + 12, true));
      return;
    }
    case recordType.edgeMoved: {
      const keyAt = at + movedEdgeFixedBytes;
      const address = keyAt + view.getUint32(at + 12, true);
      handlers.edgeMoved(table, {
        key: bytes.subarray(keyAt, address),
        length: view.getUint32(at + 16, true),
        checksum: view.getUint32(at + 20, true),
        address,
      });
      return;
    }
    case recordType.edgeDatabase:
      handlers.database(json() as EdgeDatabaseRecord);
      return;
    case recordType.edgeDatabaseDeleted:
      handlers.databaseDeleted(json() as EdgeDatabaseDeletedRecord);
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

function readRow(view: DataView, row: number): void {
  for (let k = 0; k < edgeRow.words; k++) words[k] = view.getUint32(row + 4 + k * 4, true);
}

function readRows(bytes: Uint8Array, view: DataView, at: number, handlers: EdgeRecordHandlers): void {
  const count = view.getUint32(at + 12, true);
  handlers.rowsBegin(view.getUint32(at + 8, true), readU64(view, at + 16));
  const firstRow = at + rowsFixedBytes;
  let p = firstRow + count * rowBytes;
  for (let row = firstRow; row < firstRow + count * rowBytes; row += rowBytes) {
    readRow(view, row);
    numbers[edgeRow.addressAt] = p;
    p += words[edgeRow.lengthAt];
    handlers.row(view.getUint32(row, true), words, numbers);
  }
  if ((view.getUint16(at + 6, true) & rowsFlag.ids) === 0) return;
  const ids = view.getUint32(p, true);
  p += 4;
  for (let i = 0; i < ids; i++) {
    const row = firstRow + view.getUint32(p, true) * rowBytes;
    const end = p + 6 + view.getUint16(p + 4, true);
    readRow(view, row);
    handlers.dedupId(decoder.decode(bytes.subarray(p + 6, end)), view.getUint32(row, true), words);
    p = end;
  }
}

function readPuts(bytes: Uint8Array, view: DataView, at: number, handlers: EdgeRecordHandlers): void {
  const count = view.getUint32(at + 12, true);
  const table = view.getUint32(at + 8, true);
  const stampUs = readU64(view, at + 16);
  const firstRow = at + putsFixedBytes;
  let key = firstRow + count * putBytes;
  let address = key;
  for (let i = 0; i < count; i++) address += view.getUint32(firstRow + i * putBytes, true);
  for (let i = 0; i < count; i++) {
    const row = firstRow + i * putBytes;
    const keyEnd = key + view.getUint32(row, true);
    const length = view.getUint32(row + 4, true);
    const checksum = view.getUint32(row + 8, true);
    handlers.edgePut(table, stampUs, { key: bytes.subarray(key, keyEnd), length, checksum, address });
    key = keyEnd;
    address += length;
  }
}
