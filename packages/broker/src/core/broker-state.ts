/**
 * Everything the broker knows, and `apply`: the handlers of RecordHandlers below are the only code that changes it.
 * They run live, at recovery, in the snapshot builder and on a standby, and must give the same state everywhere: no
 * time, no chance, no order that depends on how rows happen to be numbered.
 *
 * An observer hears what changed, so that what is derived (readiness, the record index) can follow.
 */
import { assert } from './assert.ts';
import { rowsAtFirst } from './columns.ts';
import { CursorTable, cursorBit } from './cursor-table.ts';
import { DeadLetters } from './dead-letters.ts';
import { DueTable } from './due-table.ts';
import { EdgeState } from './edges/edge-state.ts';
import type { BrokerIdentity } from './ids.ts';
import { PartitionTable } from './partition-table.ts';
import { Queue, Subscription } from './queue.ts';
import { type LogRange, ReclaimedRanges } from './reclaimed.ts';
import type {
  CursorRecord,
  DeadLetterRecord,
  DeadLetterRemovedRecord,
  GenesisRecord,
  LogStartRecord,
  PartitionPausedRecord,
  QueueDeletedRecord,
  QueueRecord,
  RecordHandlers,
  SubscriptionDeletedRecord,
  SubscriptionRecord,
  TraceRecord,
} from './records.ts';
import { Traces } from './traces.ts';

export interface StateObserver {
  partitionAdded(queue: Queue, lane: number): void;
  /** `bytes[at …]` is the block record; valid during the call. */
  blockAppended(queue: Queue, lane: number, bytes: Uint8Array, view: DataView, at: number): void;
  subscriptionAdded(subscription: Subscription): void;
  cursorAdded(row: number): void;
  cursorChanged(row: number): void;
  cursorRemoved(row: number): void;
  /** What holds its partitions back (delay, quiet time) is different now. */
  holdsChanged(queue: Queue): void;
  /** Its oldest appends went. */
  logStartMoved(queue: Queue, lane: number): void;
  /** Which of its appends may go, and when, is different now. */
  expiryChanged(queue: Queue): void;
  /** Partitions leave their queue, which goes on; positions in `queue.lanes`, ascending. Called before they go. */
  lanesRemoved(queue: Queue, positions: readonly number[]): void;
  /** `bytes[at …]` is the copy of a block that was stored before. */
  blockRelocated(lane: number, bytes: Uint8Array, view: DataView, at: number): void;
  /** How much of the queue its groups may have at a time is different now. */
  limitsChanged(queue: Queue): void;
  partitionRemoved(lane: number): void;
  queueRemoved(queue: Queue): void;
  /** Its cursors are still there, but mean nothing any more. */
  subscriptionRemoved(subscription: Subscription): void;
  /** What was held back by the pause of the group or of its queue may be delivered. */
  subscriptionResumed(subscription: Subscription): void;
  /** The partition was paused, or goes on. */
  pauseChanged(lane: number): void;
  /** A record of it that waits for its time has another one, or was cancelled. */
  dueChanged(lane: number): void;
}

/** Cursor rows that are looked at in the time that it takes to give back one partition. */
const sweptRowsPerPartition = 4;

const noIdentity: BrokerIdentity = { saltHigh: 0, saltLow: 0, seedHigh: 0, seedLow: 0 };

export class BrokerState implements RecordHandlers {
  identity: BrokerIdentity = noIdentity;
  createdAtUs = 0;
  readonly partitions: PartitionTable;
  readonly cursors: CursorTable;
  readonly queues = new Map<string, Queue>();
  readonly queueByNumber = new Map<number, Queue>();
  readonly subscriptions = new Map<number, Subscription>();
  readonly deadLetters = new DeadLetters();
  readonly edges = new EdgeState(
    (value) => this.#mix(value),
    (stampUs) => this.#seen(stampUs),
  );
  /** Parts of the log that were given up. */
  readonly reclaimed = new ReclaimedRanges();
  readonly traces = new Traces();
  /** Records that wait for their time, and cancelled ones. */
  readonly due = new DueTable();
  nextPid = 1;
  nextQueueNumber = 1;
  nextSubscriptionNumber = 1;
  /** Newest stamp given to anything: the next one is greater. */
  lastStampUs = 0;
  /** 32-bit digest of every effect applied so far: two states that applied the same log agree on it. */
  digest = 0;
  observer: StateObserver | null = null;

  /** Since when nothing of these partitions is delivered, by pid; may hold pids of deleted queues for a while. */
  readonly pausedPartitions = new Map<number, number>();

  /** Deleted queues whose rows were not given back yet. */
  readonly #deleted: Queue[] = [];
  /** Cursor row where the search for rows of deleted subscriptions goes on; −1 = there are none. */
  #sweepAt = -1;
  /** Another subscription was deleted while the search was under way. */
  #sweepsAgain = false;

  /** @param rows partitions, and as many cursors, that there is room for before the tables have to grow. */
  constructor(rows: number = rowsAtFirst) {
    this.partitions = new PartitionTable(rows);
    this.cursors = new CursorTable(rows);
  }

  get exists(): boolean {
    return this.createdAtUs !== 0;
  }

  /** Folds an effect (a number the handler computed, not one it read) into the digest. */
  #mix(value: number): void {
    this.digest =
      (Math.imul(this.digest ^ (value | 0), 0x9e3779b1) + (value > 0xffff_ffff ? value / 0x1_0000_0000 : 0)) | 0;
  }

  #seen(stampUs: number): void {
    if (stampUs > this.lastStampUs) this.lastStampUs = stampUs;
  }

  genesis(record: GenesisRecord): void {
    assert(!this.exists, 'a log begins once');
    this.identity = {
      saltHigh: record.saltHigh,
      saltLow: record.saltLow,
      seedHigh: record.seedHigh,
      seedLow: record.seedLow,
    };
    this.createdAtUs = record.createdAtUs;
    this.#seen(record.createdAtUs);
  }

  queue(record: QueueRecord): void {
    const existing = this.queueByNumber.get(record.number);
    if (existing !== undefined) {
      const wasPaused = existing.pausedAtUs !== 0;
      const { leasedMax, perSecondMax } = existing;
      const changed = existing.set(record);
      if (changed.holds) this.observer?.holdsChanged(existing);
      if (changed.expiry) this.observer?.expiryChanged(existing);
      if (existing.leasedMax !== leasedMax || existing.perSecondMax !== perSecondMax) {
        this.observer?.limitsChanged(existing);
      }
      if (wasPaused && existing.pausedAtUs === 0) {
        for (const subscription of existing.subscriptions) this.observer?.subscriptionResumed(subscription);
      }
    } else {
      assert(!this.queues.has(record.name), 'a queue name is taken once');
      const queue = new Queue(record);
      this.queues.set(queue.name, queue);
      this.queueByNumber.set(queue.number, queue);
      this.nextQueueNumber = Math.max(this.nextQueueNumber, queue.number + 1);
    }
    this.#seen(record.createdAtUs);
    this.#mix(record.number);
    this.#mixPause(record.pausedAtUs);
  }

  /** Entries from before there were pauses have to give the digests that they gave then. */
  #mixPause(pausedAtUs: number | undefined): void {
    if (pausedAtUs === undefined) return;
    this.#seen(pausedAtUs);
    this.#mix(pausedAtUs);
  }

  queueDeleted(record: QueueDeletedRecord): void {
    const queue = this.queueByNumber.get(record.number);
    assert(queue !== undefined, 'only a known queue is deleted');
    this.queues.delete(queue.name);
    this.queueByNumber.delete(queue.number);
    for (const subscription of queue.subscriptions) this.subscriptions.delete(subscription.number);
    if (queue.deadLetterCount > 0) this.deadLetters.removeQueue(queue.number);
    this.#deleted.push(queue);
    this.observer?.queueRemoved(queue);
    this.#mix(record.number);
    this.#mix(queue.laneCount);
  }

  /** True while rows of deleted queues and groups, and of records whose time has come, are still to be given back. */
  get hasGarbage(): boolean {
    return (
      this.#deleted.length > 0 ||
      this.#sweepAt >= 0 ||
      this.deadLetters.hasGarbage ||
      this.due.hasGarbage(this.lastStampUs)
    );
  }

  /**
   * Gives back the rows of up to `max` partitions of deleted queues, and looks through some cursor rows for those of
   * deleted groups. Nobody can see them any more, and the state means the same with or without them; but there can be
   * millions, and a deletion must not hold up the others.
   */
  collectGarbage(max: number): void {
    if (this.#sweepAt >= 0) this.#sweep(max * sweptRowsPerPartition);
    this.deadLetters.collectGarbage(max);
    this.due.collectGarbage(this.lastStampUs, max);
    let left = max;
    for (let queue = this.#deleted[0]; queue !== undefined && left > 0; queue = this.#deleted[0]) {
      while (queue.laneCount > 0 && left-- > 0) this.#removeLane(queue.lanes[--queue.laneCount]);
      if (queue.laneCount === 0) this.#deleted.shift();
    }
  }

  /** Gives back rows of deleted subscriptions among the next `max` cursor rows. */
  #sweep(max: number): void {
    const { cursors, subscriptions } = this;
    const end = Math.min(cursors.rowLimit, this.#sweepAt + max);
    for (let row = this.#sweepAt; row < end; row++) {
      const subscription = cursors.subscription[row];
      if (subscription >= 0 && !subscriptions.has(subscription)) this.#removeCursor(row);
    }
    this.#sweepAt = end;
    if (end < cursors.rowLimit) return;
    this.#sweepAt = this.#sweepsAgain ? 0 : -1;
    this.#sweepsAgain = false;
  }

  #removeCursor(row: number): void {
    const { cursors } = this;
    const { firstCursor } = this.partitions;
    const lane = cursors.lane[row];
    if (firstCursor[lane] === row) firstCursor[lane] = cursors.nextOfLane[row];
    else {
      let before = firstCursor[lane];
      while (before >= 0 && cursors.nextOfLane[before] !== row) before = cursors.nextOfLane[before];
      assert(before >= 0, 'a cursor is in the list of its partition');
      cursors.nextOfLane[before] = cursors.nextOfLane[row];
    }
    this.observer?.cursorRemoved(row);
    cursors.remove(row);
  }

  #removeLane(lane: number): void {
    for (let row = this.partitions.firstCursor[lane]; row >= 0; ) {
      const next = this.cursors.nextOfLane[row];
      const subscription = this.subscriptions.get(this.cursors.subscription[row]);
      if (subscription !== undefined && (this.cursors.flags[row] & cursorBit.placed) !== 0)
        subscription.placedCursors--;
      this.observer?.cursorRemoved(row);
      this.cursors.remove(row);
      row = next;
    }
    this.observer?.partitionRemoved(lane);
    if (this.due.size > 0) this.due.forgetBelow(this.partitions.pid[lane], Number.POSITIVE_INFINITY);
    if (this.pausedPartitions.size > 0) this.pausedPartitions.delete(this.partitions.pid[lane]);
    this.partitions.remove(lane);
  }

  /** The lane of a partition that exists, or −1. */
  laneOf(pid: number): number {
    const lane = this.partitions.findPid(pid);
    return lane >= 0 && this.queueByNumber.has(this.partitions.queueNumber[lane]) ? lane : -1;
  }

  /** True while the partition exists, under this lane, and the record at the offset was not removed. */
  isKept(lane: number, pid: number, offset: number): boolean {
    return this.laneOf(pid) === lane && offset >= this.partitions.logStart[lane];
  }

  /** The subscription of a cursor row; undefined when it was deleted, with its queue or alone. */
  subscriptionOf(row: number): Subscription | undefined {
    return this.subscriptions.get(this.cursors.subscription[row]);
  }

  partition(
    pid: number,
    queueNumber: number,
    createdAtUs: number,
    nameHash: number,
    bytes: Uint8Array,
    nameStart: number,
    nameEnd: number,
  ): void {
    const queue = this.queueByNumber.get(queueNumber);
    assert(queue !== undefined, 'a partition is added to a known queue');
    assert(pid >= this.nextPid, 'a pid is given once');
    const lane = this.partitions.add(pid, queueNumber, createdAtUs, nameHash, bytes, nameStart, nameEnd);
    queue.addLane(lane);
    this.nextPid = pid + 1;
    this.#seen(createdAtUs);
    this.#mix(pid);
    this.observer?.partitionAdded(queue, lane);
  }

  block(
    pid: number,
    firstOffset: number,
    stampUs: number,
    count: number,
    length: number,
    bytes: Uint8Array,
    view: DataView,
    at: number,
  ): void {
    const { partitions, cursors } = this;
    const lane = partitions.findPid(pid);
    assert(lane >= 0, 'a block belongs to a known partition');
    assert(firstOffset === partitions.nextOffset[lane], 'offsets are consecutive');
    const previousStampUs = partitions.lastStampUs[lane];
    assert(stampUs > previousStampUs, 'stamps of a partition rise');
    // The first append that is kept, after all before it went.
    if (partitions.logStart[lane] === firstOffset && firstOffset > 0) partitions.keptSinceUs[lane] = stampUs;
    partitions.nextOffset[lane] = firstOffset + count;
    partitions.lastStampUs[lane] = stampUs;
    partitions.retainedBytes[lane] += length;
    const queue = this.queueByNumber.get(partitions.queueNumber[lane]) as Queue;
    const wasEmpty = firstOffset === partitions.logStart[lane];
    if (wasEmpty) queue.filledLanes++;
    if (stampUs > queue.lastWriteUs) queue.lastWriteUs = stampUs;
    queue.retainedRecords += count;
    queue.retainedBytes += length;
    for (const subscription of queue.subscriptions) {
      let row = cursors.find(partitions.firstCursor[lane], subscription.number);
      const placed = row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0;
      if (placed) {
        subscription.placedPending += count;
        subscription.placedRecords += count;
        if (wasEmpty) subscription.placedFilled++;
        // What was removed is behind it as well as what was settled.
        if (Math.max(cursors.committed[row], partitions.logStart[lane] - 1) === firstOffset - 1) {
          subscription.placedBehind++;
        }
      } else if (
        subscription.registered &&
        subscription.mode !== 'all' &&
        previousStampUs < subscription.sinceUs &&
        subscription.sinceUs <= stampUs
      ) {
        // The first append the group is to see: its position is known now, and never needs to be searched for.
        if (row < 0) row = this.addCursor(lane, subscription);
        cursors.flags[row] |= cursorBit.placed;
        cursors.committed[row] = firstOffset - 1;
        subscription.placedPending += count;
        subscription.placedRecords += partitions.nextOffset[lane] - partitions.logStart[lane];
        subscription.placedCursors++;
        subscription.placedFilled++;
        subscription.placedBehind++;
        this.#mix(firstOffset);
      }
    }
    this.#seen(stampUs);
    this.#mix(firstOffset + count);
    this.observer?.blockAppended(queue, lane, bytes, view, at);
  }

  subscription(record: SubscriptionRecord): void {
    const existing = this.subscriptions.get(record.number);
    if (existing !== undefined) {
      const wasPaused = existing.isPaused;
      if (existing.set(record)) this.observer?.subscriptionAdded(existing);
      if (wasPaused && !existing.isPaused) this.observer?.subscriptionResumed(existing);
    } else {
      const queue = this.queueByNumber.get(record.queueNumber);
      assert(queue !== undefined, 'a group subscribes to a known queue');
      const subscription = new Subscription(queue, record);
      queue.subscriptions.push(subscription);
      this.subscriptions.set(subscription.number, subscription);
      this.nextSubscriptionNumber = Math.max(this.nextSubscriptionNumber, record.number + 1);
      this.observer?.subscriptionAdded(subscription);
    }
    this.#seen(record.createdAtUs);
    this.#mix(record.number);
    this.#mixPause(record.pausedAtUs);
  }

  subscriptionDeleted(record: SubscriptionDeletedRecord): void {
    const subscription = this.subscriptions.get(record.number);
    assert(subscription !== undefined, 'only a known subscription is deleted');
    const { queue } = subscription;
    queue.subscriptions.splice(queue.subscriptions.indexOf(subscription), 1);
    this.subscriptions.delete(record.number);
    if (this.#sweepAt > 0) this.#sweepsAgain = true;
    else this.#sweepAt = 0;
    this.observer?.subscriptionRemoved(subscription);
    this.#mix(record.number);
    this.#mix(subscription.placedCursors);
  }

  partitionPaused(record: PartitionPausedRecord): void {
    const lane = this.laneOf(record.pid);
    assert(lane >= 0, 'a known partition is paused');
    if (record.pausedAtUs > 0) this.pausedPartitions.set(record.pid, record.pausedAtUs);
    else this.pausedPartitions.delete(record.pid);
    this.#seen(record.pausedAtUs);
    this.#mix(record.pid);
    this.#mix(record.pausedAtUs);
    this.observer?.pauseChanged(lane);
  }

  cursor(record: CursorRecord): void {
    const { partitions, cursors } = this;
    const lane = this.laneOf(record.pid);
    assert(lane >= 0, 'a cursor belongs to a known partition');
    const subscription = this.subscriptions.get(record.subscription);
    assert(subscription !== undefined, 'a cursor belongs to a known subscription');
    let row = cursors.find(partitions.firstCursor[lane], record.subscription);
    if (row < 0) row = this.addCursor(lane, subscription);
    const next = partitions.nextOffset[lane];
    assert(record.committed < next, 'a position does not pass the last record');
    assert(record.leaseStamp === 0 || record.leaseEnd < next, 'a lease does not pass the last record');
    // What is gone is not pending: a position below the start of the log counts as one just before it.
    const gone = partitions.logStart[lane] - 1;
    const position = Math.max(record.committed, gone);
    if ((cursors.flags[row] & cursorBit.placed) !== 0) {
      subscription.placedPending -= position - Math.max(cursors.committed[row], gone);
      if (Math.max(cursors.committed[row], gone) < next - 1) subscription.placedBehind--;
    } else {
      subscription.placedPending += next - 1 - position;
      subscription.placedRecords += next - 1 - gone;
      subscription.placedCursors++;
      if (next > partitions.logStart[lane]) subscription.placedFilled++;
    }
    if (position < next - 1) subscription.placedBehind++;
    subscription.consumed += record.consumed;
    cursors.write(row, record);
    this.#seen(record.leaseStamp);
    this.#mix(record.committed + 1);
    this.#mix(record.retryCount);
    this.#mix(record.leaseStamp);
    this.observer?.cursorChanged(row);
  }

  deadLetter(record: DeadLetterRecord): void {
    const queue = this.queueByNumber.get(record.queueNumber);
    assert(queue !== undefined, 'a dead letter belongs to a known queue');
    queue.deadLetterCount++;
    this.deadLetters.add(record);
    this.#seen(record.stampUs);
    this.#mix(record.offset);
  }

  logStart({ pid, logStart, records, bytes, keptSinceUs }: LogStartRecord): void {
    const { partitions, cursors } = this;
    const lane = this.laneOf(pid);
    assert(lane >= 0, 'only a known partition loses records');
    const before = partitions.logStart[lane];
    assert(logStart - before === records && records > 0, 'the start of a partition moves over what goes');
    assert(logStart <= partitions.nextOffset[lane], 'the start of a partition does not pass its end');
    assert(bytes <= partitions.retainedBytes[lane], 'no more goes than is there');
    const queue = this.queueOfLane(lane);
    partitions.logStart[lane] = logStart;
    partitions.keptSinceUs[lane] = keptSinceUs;
    partitions.retainedBytes[lane] -= bytes;
    queue.retainedRecords -= records;
    queue.retainedBytes -= bytes;
    const last = partitions.nextOffset[lane] - 1;
    const isEmptied = logStart > last;
    if (isEmptied) queue.filledLanes--;
    for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
      if ((cursors.flags[row] & cursorBit.placed) === 0) continue;
      const subscription = this.subscriptions.get(cursors.subscription[row]);
      // Rows of deleted groups are given back later.
      if (subscription === undefined) continue;
      const position = Math.max(cursors.committed[row], before - 1);
      const missed = Math.max(0, logStart - 1 - position);
      if (isEmptied) subscription.placedFilled--;
      if (position < last && isEmptied) subscription.placedBehind--;
      subscription.placedRecords -= records;
      subscription.placedPending -= missed;
      subscription.missed += missed;
    }
    if (this.due.size > 0) this.due.forgetBelow(pid, logStart);
    this.#mix(logStart);
    this.#mix(queue.retainedRecords);
    this.observer?.logStartMoved(queue, lane);
  }

  partitionsDeleted(queueNumber: number, pids: readonly number[]): void {
    const queue = this.queueByNumber.get(queueNumber);
    assert(queue !== undefined, 'partitions of a known queue are deleted');
    const positions = pids.map((pid) => this.#positionOf(queue, pid));
    const lanes = positions.map((position) => queue.lanes[position]);
    for (const lane of lanes) assert(this.partitions.isEmpty(lane), 'a partition that is deleted is empty');
    this.observer?.lanesRemoved(queue, positions);
    queue.removeLanes(positions);
    for (const lane of lanes) {
      this.#mix(this.partitions.nextOffset[lane]);
      this.#removeLane(lane);
    }
    this.#mix(queue.laneCount);
  }

  /** Where in `queue.lanes` the partition stands. */
  #positionOf(queue: Queue, pid: number): number {
    const position = this.laneIndexAfter(queue, pid - 1);
    const isThere = position < queue.laneCount && this.partitions.pid[queue.lanes[position]] === pid;
    assert(isThere, 'a known partition is deleted');
    return position;
  }

  /**
   * Index in `queue.lanes` of the first partition with a pid above `pid`. Partitions stand in the order of their pids, so a
   * walk that remembers the last pid finds its place again whatever was removed meanwhile.
   */
  laneIndexAfter(queue: Queue, pid: number): number {
    let low = 0;
    let high = queue.laneCount;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.partitions.pid[queue.lanes[middle]] <= pid) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  relocatedBlock(
    pid: number,
    firstOffset: number,
    _fromAddress: number,
    bytes: Uint8Array,
    view: DataView,
    at: number,
  ): void {
    const lane = this.laneOf(pid);
    assert(lane >= 0 && firstOffset < this.partitions.nextOffset[lane], 'a block that was stored is relocated');
    this.#mix(firstOffset);
    this.observer?.blockRelocated(lane, bytes, view, at);
  }

  segmentReclaimed(range: LogRange): void {
    this.reclaimed.add(range);
    this.#mix(range.end);
  }

  trace(record: TraceRecord): void {
    this.traces.add(record);
    this.#seen(record.stampUs);
    this.#mix(record.stampUs);
    this.#mix(this.traces.count);
  }

  deadLetterRemoved(record: DeadLetterRemovedRecord): void {
    const row = this.deadLetters.remove(record.stampUs, record.index);
    assert(row !== undefined && row.pid === record.pid, 'only a known dead letter is removed');
    const queue = this.queueByNumber.get(row.queueNumber);
    assert(queue !== undefined, 'a dead letter belongs to a known queue');
    queue.deadLetterCount--;
    this.#mix(row.offset);
    this.#mix(this.deadLetters.count);
  }

  dueRecord(pid: number, offset: number, dueUs: number, stampUs: number): void {
    assert(dueUs > stampUs, 'a record waits for a time after its own');
    this.due.add(pid, offset, dueUs, stampUs, this.lastStampUs);
    this.#mix(offset);
    this.#mix(dueUs);
  }

  dueChanged(pid: number, offset: number, dueUs: number): void {
    const lane = this.laneOf(pid);
    const row = this.due.find(pid, offset);
    assert(lane >= 0 && row >= 0 && !this.due.isCancelled(row), 'only a record that waits gets another time');
    if (dueUs > 0) this.due.move(row, dueUs);
    else this.due.cancel(row);
    this.#mix(offset);
    this.#mix(dueUs);
    this.observer?.dueChanged(lane);
  }

  /** A cursor row whose position is not known yet. Not a change of state by itself: it means the same as no row. */
  addCursor(lane: number, subscription: Subscription): number {
    const row = this.cursors.add(lane, subscription.number, this.partitions.firstCursor[lane]);
    this.partitions.firstCursor[lane] = row;
    this.observer?.cursorAdded(row);
    return row;
  }

  queueOfLane(lane: number): Queue {
    return this.queueByNumber.get(this.partitions.queueNumber[lane]) as Queue;
  }
}
