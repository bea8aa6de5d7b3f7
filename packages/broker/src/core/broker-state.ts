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
import { EdgeState } from './edges/edge-state.ts';
import type { BrokerIdentity } from './ids.ts';
import { PartitionTable } from './partition-table.ts';
import { Queue, Subscription } from './queue.ts';
import type {
  CursorRecord,
  DeadLetterRecord,
  GenesisRecord,
  QueueDeletedRecord,
  QueueRecord,
  RecordHandlers,
  SubscriptionRecord,
} from './records.ts';

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
  partitionRemoved(lane: number): void;
  queueRemoved(queue: Queue): void;
}

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
  nextPid = 1;
  nextQueueNumber = 1;
  nextSubscriptionNumber = 1;
  /** Newest stamp given to anything: the next one is greater. */
  lastStampUs = 0;
  /** 32-bit digest of every effect applied so far: two states that applied the same log agree on it. */
  digest = 0;
  observer: StateObserver | null = null;

  /** Deleted queues whose rows were not given back yet. */
  readonly #deleted: Queue[] = [];

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
      if (existing.set(record)) this.observer?.holdsChanged(existing);
    } else {
      assert(!this.queues.has(record.name), 'a queue name is taken once');
      const queue = new Queue(record);
      this.queues.set(queue.name, queue);
      this.queueByNumber.set(queue.number, queue);
      this.nextQueueNumber = Math.max(this.nextQueueNumber, queue.number + 1);
    }
    this.#seen(record.createdAtUs);
    this.#mix(record.number);
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

  /** True while rows of deleted queues are still to be given back. */
  get hasGarbage(): boolean {
    return this.#deleted.length > 0;
  }

  /**
   * Gives back the rows of up to `max` partitions of deleted queues. Nobody can see them any more, and the state means
   * the same with or without them; but a queue can have millions, and its deletion must not hold up the others.
   */
  collectGarbage(max: number): void {
    let left = max;
    for (let queue = this.#deleted[0]; queue !== undefined && left > 0; queue = this.#deleted[0]) {
      while (queue.laneCount > 0 && left-- > 0) this.#removeLane(queue.lanes[--queue.laneCount]);
      if (queue.laneCount === 0) this.#deleted.shift();
    }
  }

  #removeLane(lane: number): void {
    for (let row = this.partitions.firstCursor[lane]; row >= 0; ) {
      const next = this.cursors.nextOfLane[row];
      this.observer?.cursorRemoved(row);
      this.cursors.remove(row);
      row = next;
    }
    this.observer?.partitionRemoved(lane);
    this.partitions.remove(lane);
  }

  /** The lane of a partition that exists, or −1. */
  laneOf(pid: number): number {
    const lane = this.partitions.findPid(pid);
    return lane >= 0 && this.queueByNumber.has(this.partitions.queueNumber[lane]) ? lane : -1;
  }

  /** The subscription of a cursor row; undefined when its queue was deleted. */
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
    partitions.nextOffset[lane] = firstOffset + count;
    partitions.lastStampUs[lane] = stampUs;
    partitions.retainedBytes[lane] += length;
    const queue = this.queueByNumber.get(partitions.queueNumber[lane]) as Queue;
    queue.retainedRecords += count;
    queue.retainedBytes += length;
    for (const subscription of queue.subscriptions) {
      let row = cursors.find(partitions.firstCursor[lane], subscription.number);
      const placed = row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0;
      if (placed) {
        subscription.placedPending += count;
        subscription.placedRecords += count;
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
      existing.set(record);
      this.observer?.subscriptionAdded(existing);
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
    if ((cursors.flags[row] & cursorBit.placed) !== 0) {
      subscription.placedPending -= record.committed - cursors.committed[row];
    } else {
      subscription.placedPending += next - 1 - record.committed;
      subscription.placedRecords += next - partitions.logStart[lane];
    }
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
