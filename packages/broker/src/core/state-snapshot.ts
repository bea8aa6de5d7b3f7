/**
 * The state as bytes: what a snapshot holds, and what the hash of a state is taken over. The order is canonical (queues by
 * number, partitions by pid within their queue, cursors by subscription), so equal states give equal bytes, whatever
 * rows they happen to use. Rows that mean nothing (cursors without a position) are left out.
 *
 * Sections, in this order; each may come in several pieces, and no row is split between two:
 *
 *   meta            JSON object
 *   queues          JSON array of queue records
 *   subscriptions   JSON array of {record, consumed}
 *   partitions      rows: u32 queue | f64 pid, nextOffset, logStart, lastStampUs, createdAtUs, retainedBytes
 *                   | u32 name hash | u16 name length | the name
 *   cursors         rows: f64 pid | u32 subscription | u8 flags (cursor bits, 128 = a claim follows) | f64 committed,
 *                   memoStamp, memoFrom | u32 memoCount | f64 totalConsumed | u32 batchesConsumed
 *                   | claim: f64 leaseStamp, leaseEnd, expiresAtUs | u8 conflated | u32 retryCount | f64 attemptOffset
 *                   | u32 attemptCount | f64 heldUntilUs
 *   dead-letters    JSON array of dead letter records
 *   edge-…   see edges/edge-snapshot.ts
 *   paused          JSON array of {pid, pausedAtUs}, by pid
 *   kept-since      rows, of partitions that lost records and hold some: f64 pid | f64 stamp of the first append kept
 *   reclaimed       JSON array of {base, end}: ranges of the log that were given up, ascending
 *   traces          JSON array of trace records, oldest first
 *   due             rows, of kept records that wait or were cancelled, by (pid, offset): f64 pid, offset, stampUs
 *                   | f64 dueUs, 0 = cancelled
 */
import { assert } from './assert.ts';
import { BrokerState } from './broker-state.ts';
import { cursorBit } from './cursor-table.ts';
import { loadEdges, saveEdges } from './edges/edge-snapshot.ts';
import type { BrokerIdentity } from './ids.ts';
import { Queue, Subscription } from './queue.ts';
import type { LogRange } from './reclaimed.ts';
import {
  CursorRecord,
  type DeadLetterRecord,
  type PartitionPausedRecord,
  type QueueRecord,
  type SubscriptionRecord,
  type TraceRecord,
} from './records.ts';

/** Version of the layout above. */
export const stateFormat = 1;

export interface StatePiece {
  readonly name: string;
  readonly bytes: Uint8Array;
}

const pieceBytes = 1024 * 1024;
/** At most three bytes each, so that a piece stays well below what a snapshot takes as one. */
const jsonPieceCharacters = 1024 * 1024;
const claimFollows = 128;
const partitionFixedBytes = 4 + 6 * 8 + 4 + 2;
const cursorFixedBytes = 8 + 4 + 1 + 3 * 8 + 4 + 8 + 4;
const dueRowBytes = 4 * 8;
const claimBytes = 3 * 8 + 1 + 4 + 8 + 4 + 8;

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

interface Meta {
  readonly identity: BrokerIdentity;
  readonly createdAtUs: number;
  readonly nextPid: number;
  readonly nextQueueNumber: number;
  readonly nextSubscriptionNumber: number;
  readonly lastStampUs: number;
  readonly digest: number;
}

/** Yields the pieces of a state. The state must not change meanwhile; a piece is valid until the next is asked for. */
export function* saveState(state: BrokerState): Generator<StatePiece> {
  const meta: Meta = {
    identity: state.identity,
    createdAtUs: state.createdAtUs,
    nextPid: state.nextPid,
    nextQueueNumber: state.nextQueueNumber,
    nextSubscriptionNumber: state.nextSubscriptionNumber,
    lastStampUs: state.lastStampUs,
    digest: state.digest,
  };
  yield { name: 'meta', bytes: textEncoder.encode(JSON.stringify(meta)) };
  const queues = [...state.queueByNumber.values()].sort((a, b) => a.number - b.number);
  yield* jsonPieces(
    'queues',
    queues.map((queue) => queue.record()),
  );
  const subscriptions = [...state.subscriptions.values()].sort((a, b) => a.number - b.number);
  yield* jsonPieces(
    'subscriptions',
    subscriptions.map((subscription) => ({ record: subscription.record(), consumed: subscription.consumed })),
  );
  yield* partitionPieces(state, queues);
  yield* cursorPieces(state, queues);
  yield* jsonPieces('dead-letters', state.deadLetters.all());
  yield* saveEdges(state.edges);
  yield* jsonPieces('paused', pausedRows(state));
  yield* keptSincePieces(state, queues);
  yield* jsonPieces('reclaimed', state.reclaimed.all());
  yield* jsonPieces('traces', state.traces.all());
  yield* duePieces(state);
}

/** Records whose time has come wait no more, whether or not their rows were given back. */
function* duePieces(state: BrokerState): Generator<StatePiece> {
  const { due, partitions } = state;
  const bytes = new Uint8Array(pieceBytes - (pieceBytes % dueRowBytes));
  const view = new DataView(bytes.buffer);
  let p = 0;
  for (const row of due.all()) {
    const pid = due.pidOf(row);
    const lane = state.laneOf(pid);
    if (lane < 0 || due.offsetOf(row) < partitions.logStart[lane]) continue;
    if (!due.isCancelled(row) && !due.isWaiting(row, state.lastStampUs)) continue;
    if (p === bytes.length) {
      yield { name: 'due', bytes };
      p = 0;
    }
    view.setFloat64(p, pid, true);
    view.setFloat64(p + 8, due.offsetOf(row), true);
    view.setFloat64(p + 16, due.stampOf(row), true);
    view.setFloat64(p + 24, due.isCancelled(row) ? 0 : due.dueUsOf(row), true);
    p += dueRowBytes;
  }
  if (p > 0) yield { name: 'due', bytes: bytes.subarray(0, p) };
}

/** Paused partitions; those of deleted queues mean nothing. */
function pausedRows(state: BrokerState): PartitionPausedRecord[] {
  const rows: PartitionPausedRecord[] = [];
  for (const [pid, pausedAtUs] of state.pausedPartitions) if (state.laneOf(pid) >= 0) rows.push({ pid, pausedAtUs });
  return rows.sort((a, b) => a.pid - b.pid);
}

function* jsonPieces(name: string, rows: Iterable<object>): Generator<StatePiece> {
  let texts: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (texts.length > 0 && characters + text.length > jsonPieceCharacters) {
      yield { name, bytes: textEncoder.encode(`[${texts.join(',')}]`) };
      texts = [];
      characters = 0;
    }
    texts.push(text);
    characters += text.length;
  }
  if (texts.length > 0) yield { name, bytes: textEncoder.encode(`[${texts.join(',')}]`) };
}

function* partitionPieces(state: BrokerState, queues: readonly Queue[]): Generator<StatePiece> {
  const { partitions } = state;
  const bytes = new Uint8Array(pieceBytes);
  const view = new DataView(bytes.buffer);
  let p = 0;
  for (const queue of queues) {
    for (let i = 0; i < queue.laneCount; i++) {
      const lane = queue.lanes[i];
      const name = partitions.nameBytes(lane);
      if (p + partitionFixedBytes + name.length > pieceBytes) {
        yield { name: 'partitions', bytes: bytes.subarray(0, p) };
        p = 0;
      }
      view.setUint32(p, queue.number, true);
      view.setFloat64(p + 4, partitions.pid[lane], true);
      view.setFloat64(p + 12, partitions.nextOffset[lane], true);
      view.setFloat64(p + 20, partitions.logStart[lane], true);
      view.setFloat64(p + 28, partitions.lastStampUs[lane], true);
      view.setFloat64(p + 36, partitions.createdAtUs[lane], true);
      view.setFloat64(p + 44, partitions.retainedBytes[lane], true);
      view.setUint32(p + 52, partitions.nameHash(lane), true);
      view.setUint16(p + 56, name.length, true);
      bytes.set(name, p + partitionFixedBytes);
      p += partitionFixedBytes + name.length;
    }
  }
  if (p > 0) yield { name: 'partitions', bytes: bytes.subarray(0, p) };
}

function* keptSincePieces(state: BrokerState, queues: readonly Queue[]): Generator<StatePiece> {
  const { partitions } = state;
  let values: number[] = [];
  for (const queue of queues) {
    for (let i = 0; i < queue.laneCount; i++) {
      const lane = queue.lanes[i];
      if (partitions.logStart[lane] === 0 || partitions.isEmpty(lane)) continue;
      values.push(partitions.pid[lane], partitions.keptSinceUs[lane]);
      if (values.length * 8 < pieceBytes) continue;
      yield { name: 'kept-since', bytes: new Uint8Array(Float64Array.from(values).buffer) };
      values = [];
    }
  }
  if (values.length > 0) yield { name: 'kept-since', bytes: new Uint8Array(Float64Array.from(values).buffer) };
}

function* cursorPieces(state: BrokerState, queues: readonly Queue[]): Generator<StatePiece> {
  const { partitions, cursors } = state;
  const bytes = new Uint8Array(pieceBytes);
  const view = new DataView(bytes.buffer);
  const rows: number[] = [];
  let p = 0;
  for (const queue of queues) {
    for (let i = 0; i < queue.laneCount; i++) {
      const lane = queue.lanes[i];
      rows.length = 0;
      for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
        // Rows of deleted groups may not have been given back yet.
        if ((cursors.flags[row] & cursorBit.placed) === 0 || state.subscriptionOf(row) === undefined) continue;
        rows.push(row);
      }
      if (rows.length > 1) rows.sort((a, b) => cursors.subscription[a] - cursors.subscription[b]);
      for (const row of rows) {
        if (p + cursorFixedBytes + claimBytes > pieceBytes) {
          yield { name: 'cursors', bytes: bytes.subarray(0, p) };
          p = 0;
        }
        p = writeCursorRow(state, view, p, partitions.pid[lane], row);
      }
    }
  }
  if (p > 0) yield { name: 'cursors', bytes: bytes.subarray(0, p) };
}

function writeCursorRow(state: BrokerState, view: DataView, start: number, pid: number, row: number): number {
  const { cursors } = state;
  const claim = cursors.claim[row];
  let p = start;
  view.setFloat64(p, pid, true);
  view.setUint32(p + 8, cursors.subscription[row], true);
  view.setUint8(p + 12, cursors.flags[row] | (claim >= 0 ? claimFollows : 0));
  view.setFloat64(p + 13, cursors.committed[row], true);
  view.setFloat64(p + 21, cursors.memoStamp[row], true);
  view.setFloat64(p + 29, cursors.memoFrom[row], true);
  view.setUint32(p + 37, cursors.memoCount[row], true);
  view.setFloat64(p + 41, cursors.totalConsumed[row], true);
  view.setUint32(p + 49, cursors.batchesConsumed[row], true);
  p += cursorFixedBytes;
  if (claim < 0) return p;
  view.setFloat64(p, cursors.leaseStamp[claim], true);
  view.setFloat64(p + 8, cursors.leaseEnd[claim], true);
  view.setFloat64(p + 16, cursors.expiresAtUs[claim], true);
  view.setUint8(p + 24, cursors.conflated[claim]);
  view.setUint32(p + 25, cursors.retryCount[claim], true);
  view.setFloat64(p + 29, cursors.attemptOffset[claim], true);
  view.setUint32(p + 37, cursors.attemptCount[claim], true);
  view.setFloat64(p + 41, cursors.heldUntilUs[claim], true);
  return p + claimBytes;
}

/** Builds a state from its pieces, given in order. Throws when they do not make one. */
export class StateLoader {
  readonly state: BrokerState;
  #digest = 0;
  #complete = false;
  readonly #record = new CursorRecord();

  /** @param rows as for BrokerState. */
  constructor(rows?: number) {
    this.state = new BrokerState(rows);
  }

  add(piece: StatePiece): void {
    switch (piece.name) {
      case 'meta':
        this.#meta(JSON.parse(textDecoder.decode(piece.bytes)) as Meta);
        break;
      case 'queues':
        for (const record of JSON.parse(textDecoder.decode(piece.bytes)) as QueueRecord[]) this.#queue(record);
        break;
      case 'subscriptions':
        this.#subscriptions(JSON.parse(textDecoder.decode(piece.bytes)));
        break;
      case 'partitions':
        this.#partitions(piece.bytes);
        break;
      case 'cursors':
        this.#cursors(piece.bytes);
        break;
      case 'dead-letters':
        for (const row of JSON.parse(textDecoder.decode(piece.bytes)) as DeadLetterRecord[]) {
          const queue = this.state.queueByNumber.get(row.queueNumber);
          assert(queue !== undefined, 'a dead letter belongs to a known queue');
          queue.deadLetterCount++;
          this.state.deadLetters.add(row);
        }
        break;
      case 'paused':
        for (const row of JSON.parse(textDecoder.decode(piece.bytes)) as PartitionPausedRecord[]) {
          assert(this.state.laneOf(row.pid) >= 0, 'a paused partition is known');
          this.state.pausedPartitions.set(row.pid, row.pausedAtUs);
        }
        break;
      case 'kept-since':
        this.#keptSince(piece.bytes);
        break;
      case 'due':
        this.#due(piece.bytes);
        break;
      case 'reclaimed':
        for (const range of JSON.parse(textDecoder.decode(piece.bytes)) as LogRange[]) this.state.reclaimed.add(range);
        break;
      case 'traces':
        for (const row of JSON.parse(textDecoder.decode(piece.bytes)) as TraceRecord[]) this.state.traces.restore(row);
        break;
      default:
        if (loadEdges(this.state.edges, piece)) break;
        throw new Error(`a snapshot with a section ${piece.name} was written by a newer release`);
    }
  }

  /** The finished state. */
  finish(): BrokerState {
    assert(this.#complete, 'a snapshot has a meta section');
    this.state.digest = this.#digest;
    return this.state;
  }

  #meta(meta: Meta): void {
    const { state } = this;
    state.identity = meta.identity;
    state.createdAtUs = meta.createdAtUs;
    state.nextPid = meta.nextPid;
    state.nextQueueNumber = meta.nextQueueNumber;
    state.nextSubscriptionNumber = meta.nextSubscriptionNumber;
    state.lastStampUs = meta.lastStampUs;
    this.#digest = meta.digest;
    this.#complete = true;
  }

  #queue(record: QueueRecord): void {
    const queue = new Queue(record);
    this.state.queues.set(queue.name, queue);
    this.state.queueByNumber.set(queue.number, queue);
  }

  #subscriptions(rows: { record: SubscriptionRecord; consumed: number }[]): void {
    for (const { record, consumed } of rows) {
      const queue = this.state.queueByNumber.get(record.queueNumber);
      assert(queue !== undefined, 'a subscription belongs to a known queue');
      const subscription = new Subscription(queue, record);
      subscription.consumed = consumed;
      queue.subscriptions.push(subscription);
      this.state.subscriptions.set(subscription.number, subscription);
    }
  }

  #partitions(bytes: Uint8Array): void {
    const { partitions, queueByNumber } = this.state;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let queue: Queue | undefined;
    for (let p = 0; p < bytes.length; ) {
      const queueNumber = view.getUint32(p, true);
      if (queue?.number !== queueNumber) queue = queueByNumber.get(queueNumber);
      assert(queue !== undefined, 'a partition belongs to a known queue');
      const pid = view.getFloat64(p + 4, true);
      const length = view.getUint16(p + 56, true);
      const nameStart = p + partitionFixedBytes;
      const lane = partitions.add(
        pid,
        queueNumber,
        view.getFloat64(p + 36, true),
        view.getUint32(p + 52, true),
        bytes,
        nameStart,
        nameStart + length,
      );
      partitions.nextOffset[lane] = view.getFloat64(p + 12, true);
      partitions.logStart[lane] = view.getFloat64(p + 20, true);
      partitions.lastStampUs[lane] = view.getFloat64(p + 28, true);
      partitions.retainedBytes[lane] = view.getFloat64(p + 44, true);
      queue.addLane(lane);
      queue.lastWriteUs = Math.max(queue.lastWriteUs, partitions.lastStampUs[lane]);
      queue.retainedRecords += partitions.nextOffset[lane] - partitions.logStart[lane];
      if (partitions.nextOffset[lane] > partitions.logStart[lane]) queue.filledLanes++;
      queue.retainedBytes += partitions.retainedBytes[lane];
      p = nameStart + length;
    }
  }

  #keptSince(bytes: Uint8Array): void {
    const { partitions } = this.state;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let p = 0; p < bytes.length; p += 16) {
      const lane = partitions.findPid(view.getFloat64(p, true));
      assert(lane >= 0, 'a partition that lost records is known');
      partitions.keptSinceUs[lane] = view.getFloat64(p + 8, true);
    }
  }

  #due(bytes: Uint8Array): void {
    const { due, partitions } = this.state;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let p = 0; p < bytes.length; p += dueRowBytes) {
      const pid = view.getFloat64(p, true);
      const offset = view.getFloat64(p + 8, true);
      const dueUs = view.getFloat64(p + 24, true);
      assert(partitions.findPid(pid) >= 0, 'a record that waits is in a known partition');
      due.add(pid, offset, dueUs, view.getFloat64(p + 16, true), 0);
      if (dueUs === 0) due.cancel(due.find(pid, offset));
    }
  }

  #cursors(bytes: Uint8Array): void {
    const { partitions, cursors, subscriptions } = this.state;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const record = this.#record;
    for (let p = 0; p < bytes.length; ) {
      const lane = partitions.findPid(view.getFloat64(p, true));
      assert(lane >= 0, 'a cursor belongs to a known partition');
      const subscription = subscriptions.get(view.getUint32(p + 8, true));
      assert(subscription !== undefined, 'a cursor belongs to a known subscription');
      const flags = view.getUint8(p + 12);
      const row = this.state.addCursor(lane, subscription);
      const batches = view.getUint32(p + 49, true);
      p = readCursorRow(view, p, record);
      cursors.write(row, record);
      cursors.flags[row] = flags & ~claimFollows;
      cursors.totalConsumed[row] = record.consumed;
      cursors.batchesConsumed[row] = batches;
      const gone = partitions.logStart[lane] - 1;
      subscription.placedPending += partitions.nextOffset[lane] - 1 - Math.max(record.committed, gone);
      subscription.placedRecords += partitions.nextOffset[lane] - partitions.logStart[lane];
      subscription.placedCursors++;
      if (partitions.nextOffset[lane] > partitions.logStart[lane]) subscription.placedFilled++;
      if (Math.max(record.committed, gone) < partitions.nextOffset[lane] - 1) subscription.placedBehind++;
    }
  }
}

function readCursorRow(view: DataView, start: number, record: CursorRecord): number {
  let p = start;
  const hasClaim = (view.getUint8(p + 12) & claimFollows) !== 0;
  record.committed = view.getFloat64(p + 13, true);
  record.memoStamp = view.getFloat64(p + 21, true);
  record.memoFrom = view.getFloat64(p + 29, true);
  record.memoCount = view.getUint32(p + 37, true);
  record.consumed = view.getFloat64(p + 41, true);
  record.batchDone = false;
  p += cursorFixedBytes;
  if (!hasClaim) {
    record.leaseStamp = 0;
    record.retryCount = 0;
    record.attemptCount = 0;
    record.attemptOffset = -1;
    record.heldUntilUs = 0;
    return p;
  }
  record.leaseStamp = view.getFloat64(p, true);
  record.leaseEnd = view.getFloat64(p + 8, true);
  record.expiresAtUs = view.getFloat64(p + 16, true);
  record.conflated = view.getUint8(p + 24) !== 0;
  record.retryCount = view.getUint32(p + 25, true);
  record.attemptOffset = view.getFloat64(p + 29, true);
  record.attemptCount = view.getUint32(p + 37, true);
  record.heldUntilUs = view.getFloat64(p + 41, true);
  return p + claimBytes;
}
