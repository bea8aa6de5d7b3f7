/**
 * Records to bytes and back. the `write…` functions append to the draft of a log entry; `readRecords` hands every record of an
 * entry to its handler. Layouts: format.ts and docs/formats.md. An unknown type or version stops the process with a
 * clear error: what it means for the state cannot be guessed.
 */
import {
  CursorRecord,
  type DeadLetterRecord,
  type GenesisRecord,
  type PushItems,
  pushHash,
  pushSlice,
  type QueueDeletedRecord,
  type QueueRecord,
  type RecordHandlers,
  type SubscriptionRecord,
} from '../core/mod.ts';
import { readEdgeRecord } from './edge-records.ts';
import { block, readU64, recordFlag, recordHeaderBytes, recordType, writeU64 } from './format.ts';
import type { Hasher } from './hasher.ts';

/** The part of a log draft the writer needs; see ports/log.ts. */
export interface RecordSpace {
  bytes: Uint8Array;
  view: DataView;
  position: number;
  require(length: number): void;
}

const recordVersion = 1;

/** Bits of a cursor record's flags: which optional groups follow, in this order. */
const cursorFlag = { lease: 1, conflated: 2, attempt: 4, memo: 8, held: 16, consumed: 32, batchDone: 64 } as const;
const cursorFixedBytes = recordHeaderBytes + 8 + 4 + 8;
const cursorBytesMax = cursorFixedBytes + 24 + 16 + 20 + 8 + 4;
const partitionFixedBytes = recordHeaderBytes + 8 + 4 + 8 + 4;

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function header(view: DataView, at: number, length: number, type: number, flags: number): void {
  view.setUint32(at, length, true);
  view.setUint8(at + 4, type);
  view.setUint8(at + 5, recordVersion);
  view.setUint16(at + 6, flags, true);
}

export function writeJsonRecord(space: RecordSpace, type: number, value: object): void {
  const text = textEncoder.encode(JSON.stringify(value));
  const length = recordHeaderBytes + text.length;
  space.require(length);
  header(space.view, space.position, length, type, 0);
  space.bytes.set(text, space.position + recordHeaderBytes);
  space.position += length;
}

export function writeGenesis(space: RecordSpace, record: GenesisRecord): void {
  writeJsonRecord(space, recordType.genesis, record);
}

export function writeQueue(space: RecordSpace, record: QueueRecord): void {
  writeJsonRecord(space, recordType.queue, record);
}

export function writeQueueDeleted(space: RecordSpace, record: QueueDeletedRecord): void {
  writeJsonRecord(space, recordType.queueDeleted, record);
}

export function writeSubscription(space: RecordSpace, record: SubscriptionRecord): void {
  writeJsonRecord(space, recordType.subscription, record);
}

export function writeDeadLetter(space: RecordSpace, record: DeadLetterRecord): void {
  writeJsonRecord(space, recordType.deadLetter, record);
}

/** Layout: header | u64 pid | u32 queue number | u64 createdAtUs | u32 hash of the name | the name's bytes. */
export function writePartition(
  space: RecordSpace,
  pid: number,
  queueNumber: number,
  createdAtUs: number,
  nameHash: number,
  bytes: Uint8Array,
  nameStart: number,
  nameEnd: number,
): void {
  const length = partitionFixedBytes + nameEnd - nameStart;
  space.require(length);
  const view = space.view;
  let p = space.position;
  header(view, p, length, recordType.partition, 0);
  writeU64(view, p + 8, pid);
  view.setUint32(p + 16, queueNumber, true);
  writeU64(view, p + 20, createdAtUs);
  view.setUint32(p + 28, nameHash, true);
  p += partitionFixedBytes;
  const target = space.bytes;
  for (let i = nameStart; i < nameEnd; i++) target[p++] = bytes[i];
  space.position = p;
}

/** Layout: header | u64 pid | u32 subscription | u64 committed + 1 | the groups that the flags name. */
export function writeCursor(space: RecordSpace, record: CursorRecord): void {
  space.require(cursorBytesMax);
  const view = space.view;
  const start = space.position;
  let flags = 0;
  writeU64(view, start + 8, record.pid);
  view.setUint32(start + 16, record.subscription, true);
  writeU64(view, start + 20, record.committed + 1);
  let p = start + cursorFixedBytes;
  if (record.leaseStamp !== 0) {
    flags |= cursorFlag.lease | (record.conflated ? cursorFlag.conflated : 0);
    writeU64(view, p, record.leaseStamp);
    writeU64(view, p + 8, record.leaseEnd);
    writeU64(view, p + 16, record.expiresAtUs);
    p += 24;
  }
  if (record.retryCount !== 0 || record.attemptCount !== 0) {
    flags |= cursorFlag.attempt;
    view.setUint32(p, record.retryCount, true);
    view.setUint32(p + 4, record.attemptCount, true);
    writeU64(view, p + 8, record.attemptOffset + 1);
    p += 16;
  }
  if (record.memoStamp !== 0) {
    flags |= cursorFlag.memo;
    writeU64(view, p, record.memoStamp);
    writeU64(view, p + 8, record.memoFrom);
    view.setUint32(p + 16, record.memoCount, true);
    p += 20;
  }
  if (record.heldUntilUs !== 0) {
    flags |= cursorFlag.held;
    writeU64(view, p, record.heldUntilUs);
    p += 8;
  }
  if (record.consumed !== 0) {
    flags |= cursorFlag.consumed;
    view.setUint32(p, record.consumed, true);
    p += 4;
  }
  if (record.batchDone) flags |= cursorFlag.batchDone;
  header(view, start, p - start, recordType.cursor, flags);
  space.position = p;
}

const cursorRead = new CursorRecord();

function readCursor(view: DataView, start: number): CursorRecord {
  const r = cursorRead;
  const flags = view.getUint16(start + 6, true);
  r.pid = readU64(view, start + 8);
  r.subscription = view.getUint32(start + 16, true);
  r.committed = readU64(view, start + 20) - 1;
  let p = start + cursorFixedBytes;
  if ((flags & cursorFlag.lease) !== 0) {
    r.leaseStamp = readU64(view, p);
    r.leaseEnd = readU64(view, p + 8);
    r.expiresAtUs = readU64(view, p + 16);
    p += 24;
  } else {
    r.leaseStamp = 0;
    r.leaseEnd = 0;
    r.expiresAtUs = 0;
  }
  r.conflated = (flags & cursorFlag.conflated) !== 0;
  if ((flags & cursorFlag.attempt) !== 0) {
    r.retryCount = view.getUint32(p, true);
    r.attemptCount = view.getUint32(p + 4, true);
    r.attemptOffset = readU64(view, p + 8) - 1;
    p += 16;
  } else {
    r.retryCount = 0;
    r.attemptCount = 0;
    r.attemptOffset = -1;
  }
  if ((flags & cursorFlag.memo) !== 0) {
    r.memoStamp = readU64(view, p);
    r.memoFrom = readU64(view, p + 8);
    r.memoCount = view.getUint32(p + 16, true);
    p += 20;
  } else {
    r.memoStamp = 0;
    r.memoFrom = 0;
    r.memoCount = 0;
  }
  if ((flags & cursorFlag.held) !== 0) {
    r.heldUntilUs = readU64(view, p);
    p += 8;
  } else r.heldUntilUs = 0;
  r.consumed = (flags & cursorFlag.consumed) !== 0 ? view.getUint32(p, true) : 0;
  r.batchDone = (flags & cursorFlag.batchDone) !== 0;
  return r;
}

/** Bytes up to which a byte loop beats the call that copies memory. */
const shortCopyBytes = 40;

/**
 * Appends items `numbers[from, from + count)` of a push as one block and returns nothing; the block begins where
 * `space.position` stood after its `require`, that is `space.position − length` afterwards.
 */
export function writeBlock(
  space: RecordSpace,
  pid: number,
  firstOffset: number,
  stampUs: number,
  items: PushItems,
  numbers: Int32Array,
  from: number,
  count: number,
  encrypted: boolean,
  hasher: Hasher,
): void {
  const { bytes: source, slices, hashes } = items;
  let dataBytes = 0;
  for (let i = from; i < from + count; i++) {
    const s = numbers[i] * pushSlice.stride;
    const idStart = slices[s + pushSlice.idStart];
    dataBytes += 1 + slices[s + pushSlice.payloadEnd] - slices[s + pushSlice.payloadStart];
    if (idStart >= 0) dataBytes += 2 + slices[s + pushSlice.idEnd] - idStart;
  }
  const length = block.headerBytes + count * block.rowBytes + dataBytes;
  space.require(length);
  const { bytes: target, view } = space;
  const start = space.position;
  header(view, start, length, recordType.block, 0);
  writeU64(view, start + block.pidAt, pid);
  writeU64(view, start + block.firstOffsetAt, firstOffset);
  writeU64(view, start + block.stampAt, stampUs);
  view.setUint32(start + block.countAt, count, true);
  let row = start + block.tableAt;
  const dataAt = row + count * block.rowBytes;
  let p = dataAt;
  const baseFlags = encrypted ? recordFlag.encrypted : 0;
  for (let i = from; i < from + count; i++) {
    const number = numbers[i];
    const s = number * pushSlice.stride;
    const idStart = slices[s + pushSlice.idStart];
    if (idStart >= 0) {
      target[p++] = baseFlags | recordFlag.transactionId;
      const idEnd = slices[s + pushSlice.idEnd];
      view.setUint16(p, idEnd - idStart, true);
      p += 2;
      if (idEnd - idStart <= shortCopyBytes) {
        for (let q = idStart; q < idEnd; q++) target[p++] = source[q];
      } else {
        target.set(source.subarray(idStart, idEnd), p);
        p += idEnd - idStart;
      }
      view.setUint32(row + 4, hashes[number * pushHash.stride + pushHash.idHigh], true);
      view.setUint32(row + 8, hashes[number * pushHash.stride + pushHash.idLow], true);
    } else {
      target[p++] = baseFlags;
      view.setUint32(row + 4, 0, true);
      view.setUint32(row + 8, 0, true);
    }
    const payloadStart = slices[s + pushSlice.payloadStart];
    const payloadEnd = slices[s + pushSlice.payloadEnd];
    if (payloadEnd - payloadStart <= shortCopyBytes) {
      for (let q = payloadStart; q < payloadEnd; q++) target[p++] = source[q];
    } else {
      target.set(source.subarray(payloadStart, payloadEnd), p);
      p += payloadEnd - payloadStart;
    }
    view.setUint32(row, p - dataAt, true);
    row += block.rowBytes;
  }
  hasher.checksum(target, start + block.tableAt, p);
  view.setUint32(start + block.checksumAt, hasher.low, true);
  space.position = p;
}

/**
 * True when a block that was read back is the one that was written there: its checksum holds, its lengths agree, and it
 * is the block of the partition and offset that was looked for.
 */
export function isWholeBlock(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  length: number,
  pid: number,
  firstOffset: number,
  stampUs: number,
  hasher: Hasher,
): boolean {
  if (view.getUint32(at, true) !== length || view.getUint8(at + 4) !== recordType.block) return false;
  if (readU64(view, at + block.pidAt) !== pid) return false;
  if (readU64(view, at + block.firstOffsetAt) !== firstOffset) return false;
  if (readU64(view, at + block.stampAt) !== stampUs) return false;
  const dataAt = block.tableAt + view.getUint32(at + block.countAt, true) * block.rowBytes;
  if (dataAt > length || dataAt === block.tableAt) return false;
  if (dataAt + view.getUint32(at + dataAt - block.rowBytes, true) !== length) return false;
  hasher.checksum(bytes, at + block.tableAt, at + length);
  return hasher.low === view.getUint32(at + block.checksumAt, true);
}

/** Number of records in a block. */
export function blockCount(view: DataView, at: number): number {
  return view.getUint32(at + block.countAt, true);
}

/**
 * Hands each record in `bytes[from, to)` to its handler, in order; returns how many there were. Handlers get byte
 * ranges and reused objects that are valid only during the call.
 * Throws when a record cannot be understood.
 */
export function readRecords(
  bytes: Uint8Array,
  view: DataView,
  from: number,
  to: number,
  handlers: RecordHandlers,
): number {
  let at = from;
  let count = 0;
  while (at < to) {
    const length = view.getUint32(at, true);
    const type = view.getUint8(at + 4);
    const version = view.getUint8(at + 5);
    if (version !== recordVersion) {
      throw new Error(`the log holds a record of type ${type} in version ${version}, which this release cannot read`);
    }
    if (length < recordHeaderBytes || at + length > to) throw new Error(`record of ${length} bytes leaves its entry`);
    switch (type) {
      case recordType.block:
        handlers.block(
          readU64(view, at + block.pidAt),
          readU64(view, at + block.firstOffsetAt),
          readU64(view, at + block.stampAt),
          view.getUint32(at + block.countAt, true),
          length,
          bytes,
          view,
          at,
        );
        break;
      case recordType.cursor:
        handlers.cursor(readCursor(view, at));
        break;
      case recordType.partition:
        handlers.partition(
          readU64(view, at + 8),
          view.getUint32(at + 16, true),
          readU64(view, at + 20),
          view.getUint32(at + 28, true),
          bytes,
          at + partitionFixedBytes,
          at + length,
        );
        break;
      case recordType.closed:
        break;
      default:
        if (type >= recordType.edgeDatabase && type <= recordType.edgeRangeDeleted) {
          if (handlers.edges !== null) readEdgeRecord(type, bytes, view, at, length, handlers.edges);
          break;
        }
        readJson(type, bytes, at + recordHeaderBytes, at + length, handlers);
    }
    at += length;
    count++;
  }
  return count;
}

function readJson(type: number, bytes: Uint8Array, from: number, to: number, handlers: RecordHandlers): void {
  const value: unknown = JSON.parse(textDecoder.decode(bytes.subarray(from, to)));
  switch (type) {
    case recordType.genesis:
      handlers.genesis(value as GenesisRecord);
      break;
    case recordType.queue:
      handlers.queue(value as QueueRecord);
      break;
    case recordType.queueDeleted:
      handlers.queueDeleted(value as QueueDeletedRecord);
      break;
    case recordType.subscription:
      handlers.subscription(value as SubscriptionRecord);
      break;
    case recordType.deadLetter:
      handlers.deadLetter(value as DeadLetterRecord);
      break;
    default:
      throw new Error(`the log holds a record of unknown type ${type}: it was written by a newer release`);
  }
}
