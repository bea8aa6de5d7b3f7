/**
 * Records to bytes and back. the `write…` functions append to the draft of a log entry; `readRecords` hands every record of an
 * entry to its handler. Layouts: format.ts and docs/formats.md. An unknown type or version stops the process with a
 * clear error: what it means for the state cannot be guessed.
 */
import {
  CursorRecord,
  type DeadLetterRecord,
  type DeadLetterRemovedRecord,
  type GenesisRecord,
  type LogRange,
  type LogStartRecord,
  type PartitionPausedRecord,
  type PushItems,
  pushHash,
  pushSlice,
  type QueueDeletedRecord,
  type QueueRecord,
  type RecordHandlers,
  type SubscriptionDeletedRecord,
  type SubscriptionRecord,
  type TraceRecord,
} from '../core/mod.ts';
import { BlockReader } from './block-reader.ts';
import { readEdgeRecord } from './edge-records.ts';
import { block, blockFlag, readU64, recordFlag, recordHeaderBytes, recordType, relocated, writeU64 } from './format.ts';
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
const deadLetterRemovedBytes = recordHeaderBytes + 8 + 8 + 4;
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

export function writeSubscriptionDeleted(space: RecordSpace, record: SubscriptionDeletedRecord): void {
  writeJsonRecord(space, recordType.subscriptionDeleted, record);
}

export function writePartitionPaused(space: RecordSpace, record: PartitionPausedRecord): void {
  writeJsonRecord(space, recordType.partitionPaused, record);
}

export function writeSegmentReclaimed(space: RecordSpace, range: LogRange): void {
  writeJsonRecord(space, recordType.segmentReclaimed, range);
}

const dueChangedBytes = recordHeaderBytes + 3 * 8;

/** Layout: header | u64 pid | u64 offset | u64 dueUs, 0 = cancelled. */
export function writeDueChanged(space: RecordSpace, pid: number, offset: number, dueUs: number): void {
  space.require(dueChangedBytes);
  const { view, position: p } = space;
  header(view, p, dueChangedBytes, recordType.dueChanged, 0);
  writeU64(view, p + 8, pid);
  writeU64(view, p + 16, offset);
  writeU64(view, p + 24, dueUs);
  space.position = p + dueChangedBytes;
}

const logStartBytes = recordHeaderBytes + 5 * 8;

/** Layout: header | u64 pid | u64 logStart | u64 records | u64 bytes | u64 keptSinceUs. */
export function writeLogStart(space: RecordSpace, record: LogStartRecord): void {
  space.require(logStartBytes);
  const { view, position: p } = space;
  header(view, p, logStartBytes, recordType.logStart, 0);
  writeU64(view, p + 8, record.pid);
  writeU64(view, p + 16, record.logStart);
  writeU64(view, p + 24, record.records);
  writeU64(view, p + 32, record.bytes);
  writeU64(view, p + 40, record.keptSinceUs);
  space.position = p + logStartBytes;
}

/** One object for one record after the other. */
const logStartRead = { pid: 0, logStart: 0, records: 0, bytes: 0, keptSinceUs: 0 };

function readLogStart(view: DataView, at: number): LogStartRecord {
  logStartRead.pid = readU64(view, at + 8);
  logStartRead.logStart = readU64(view, at + 16);
  logStartRead.records = readU64(view, at + 24);
  logStartRead.bytes = readU64(view, at + 32);
  logStartRead.keptSinceUs = readU64(view, at + 40);
  return logStartRead;
}

const partitionsDeletedFixedBytes = recordHeaderBytes + 4;

/** Layout: header | u32 queue number | u64 pid of each partition, ascending. */
export function writePartitionsDeleted(space: RecordSpace, queueNumber: number, pids: readonly number[]): void {
  const length = partitionsDeletedFixedBytes + pids.length * 8;
  space.require(length);
  const { view } = space;
  let p = space.position;
  header(view, p, length, recordType.partitionDeleted, 0);
  view.setUint32(p + recordHeaderBytes, queueNumber, true);
  p += partitionsDeletedFixedBytes;
  for (const pid of pids) {
    writeU64(view, p, pid);
    p += 8;
  }
  space.position = p;
}

function readPartitionsDeleted(view: DataView, at: number, end: number, handlers: RecordHandlers): void {
  const pids: number[] = [];
  for (let p = at + partitionsDeletedFixedBytes; p < end; p += 8) pids.push(readU64(view, p));
  handlers.partitionsDeleted(view.getUint32(at + recordHeaderBytes, true), pids);
}

/** Layout: header | u64 address the block was read from | the block record as it was stored. */
export function writeRelocatedBlock(
  space: RecordSpace,
  fromAddress: number,
  bytes: Uint8Array,
  at: number,
  blockLength: number,
): void {
  const length = relocated.blockAt + blockLength;
  space.require(length);
  const p = space.position;
  header(space.view, p, length, recordType.relocatedBlock, 0);
  writeU64(space.view, p + relocated.fromAddressAt, fromAddress);
  space.bytes.set(bytes.subarray(at, at + blockLength), p + relocated.blockAt);
  space.position = p + length;
}

export function writeTrace(space: RecordSpace, record: TraceRecord): void {
  writeJsonRecord(space, recordType.trace, record);
}

/** Layout: header | u64 pid | u64 stampUs | u32 index. */
export function writeDeadLetterRemoved(space: RecordSpace, record: DeadLetterRemovedRecord): void {
  space.require(deadLetterRemovedBytes);
  const { view, position } = space;
  header(view, position, deadLetterRemovedBytes, recordType.deadLetterRemoved, 0);
  writeU64(view, position + 8, record.pid);
  writeU64(view, position + 16, record.stampUs);
  view.setUint32(position + 24, record.index, true);
  space.position += deadLetterRemovedBytes;
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
  const due = items.due ?? null;
  let dueCount = 0;
  let dataBytes = 0;
  for (let i = from; i < from + count; i++) {
    const s = numbers[i] * pushSlice.stride;
    const idStart = slices[s + pushSlice.idStart];
    dataBytes += 1 + slices[s + pushSlice.payloadEnd] - slices[s + pushSlice.payloadStart];
    if (idStart >= 0) dataBytes += 2 + slices[s + pushSlice.idEnd] - idStart;
    const headersBytes = slices[s + pushSlice.headersEnd] - slices[s + pushSlice.headersStart];
    if (headersBytes > 0) dataBytes += 2 + headersBytes;
    if (due !== null && due[numbers[i]] > 0) dueCount++;
  }
  dataBytes += dueCount * 8;
  const length = block.headerBytes + count * block.rowBytes + dataBytes;
  space.require(length);
  const { bytes: target, view } = space;
  const start = space.position;
  header(view, start, length, recordType.block, dueCount > 0 ? blockFlag.hasDue : 0);
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
    const dataStart = p;
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
    if (due !== null && due[number] > 0) {
      target[dataStart] |= recordFlag.dueAt;
      writeU64(view, p, due[number]);
      p += 8;
    }
    const headersStart = slices[s + pushSlice.headersStart];
    const headersEnd = slices[s + pushSlice.headersEnd];
    if (headersEnd > headersStart) {
      target[dataStart] |= recordFlag.headers;
      view.setUint16(p, headersEnd - headersStart, true);
      target.set(source.subarray(headersStart, headersEnd), p + 2);
      p += 2 + headersEnd - headersStart;
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
        // Before the block: whoever hears of it already knows what of it has to wait.
        if ((view.getUint16(at + 6, true) & blockFlag.hasDue) !== 0) readDue(bytes, view, at, handlers);
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
      case recordType.dueChanged:
        handlers.dueChanged(readU64(view, at + 8), readU64(view, at + 16), readU64(view, at + 24));
        break;
      case recordType.logStart:
        handlers.logStart(readLogStart(view, at));
        break;
      case recordType.relocatedBlock: {
        const blockAt = at + relocated.blockAt;
        handlers.relocatedBlock(
          readU64(view, blockAt + block.pidAt),
          readU64(view, blockAt + block.firstOffsetAt),
          readU64(view, at + relocated.fromAddressAt),
          bytes,
          view,
          blockAt,
        );
        break;
      }
      case recordType.partitionDeleted:
        readPartitionsDeleted(view, at, at + length, handlers);
        break;
      case recordType.deadLetterRemoved:
        handlers.deadLetterRemoved({
          pid: readU64(view, at + 8),
          stampUs: readU64(view, at + 16),
          index: view.getUint32(at + 24, true),
        });
        break;
      case recordType.closed:
        break;
      default:
        if (type >= recordType.edgeDatabase && type <= recordType.edgeMoved) {
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

const dueReader = new BlockReader();

function readDue(bytes: Uint8Array, view: DataView, at: number, handlers: RecordHandlers): void {
  const reader = dueReader.open(bytes, view, at);
  for (let index = 0; index < reader.count; index++) {
    const { dueUs } = reader.select(index);
    if (dueUs > 0) handlers.dueRecord(reader.pid, reader.firstOffset + index, dueUs, reader.stampUs);
  }
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
    case recordType.subscriptionDeleted:
      handlers.subscriptionDeleted(value as SubscriptionDeletedRecord);
      break;
    case recordType.partitionPaused:
      handlers.partitionPaused(value as PartitionPausedRecord);
      break;
    case recordType.segmentReclaimed:
      handlers.segmentReclaimed(value as LogRange);
      break;
    case recordType.trace:
      handlers.trace(value as TraceRecord);
      break;
    default:
      throw new Error(`the log holds a record of unknown type ${type}: it was written by a newer release`);
  }
}
