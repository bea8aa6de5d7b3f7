/**
 * Who has something to get, and since when: derived from the state, never stored. After a restart it is built again.
 *
 * Each cursor row is in one of these conditions:
 *
 *   idle ──append──▶ ready ──claim──▶ leased ──ack, expiry──▶ ready or idle
 *                     ▲ │                 │
 *                     │ └─block not in memory─▶ loading ──loaded──▶ ready
 *                     ├──hold ends── held ◀──failed with retry delay, delayedProcessing, windowBuffer, next record not due
 *                     └──resumed──── paused ◀──its partition was paused
 *
 * The pause of a whole queue or group changes no condition: its rows go on being filed, and nobody takes them.
 *
 * Ready rows of a subscription stand in a FIFO ring, so a pop costs what it claims. Each entry carries the ticket its row
 * had when it was filed; a row gets a new ticket whenever it is filed again, so an entry that was left behind (a pinned
 * pop took the row out of the middle) is known by its old ticket and passed over, once.
 *
 * A group in mode `all` (or from a past time) that registers on a queue with a million partitions must not cost a
 * million steps: its backlog is walked lazily, partition by partition in creation order, as pops ask for work
 * (`backfillAt`). Partitions behind that mark have a row when they need one; those before it are left to the walk.
 */

import type { BrokerState, StateObserver } from './broker-state.ts';
import { type CursorTable, cursorBit } from './cursor-table.ts';
import { Deadlines } from './deadlines.ts';
import { Expiry } from './expiry.ts';
import { hasLimits, hasRoom, RateWaits } from './group-limits.ts';
import type { PartitionTable } from './partition-table.ts';
import type { Queue, Subscription } from './queue.ts';

/** Values of `CursorTable.readiness`. */
export const readiness = { idle: 0, ready: 1, leased: 2, held: 3, loading: 4, paused: 5 } as const;

/** Partitions looked at for one `take`: bounds the work of a turn. */
const backfillStepsMax = 20_000;

/** Rows taken out of a ring in vain for one `take`. */
const staleRowsMax = 20_000;

/** What `take` answers besides a row. */
export const taken = { none: -1, unfinished: -2 } as const;

/** FIFO of cursor rows of one subscription. */
class ReadyRing {
  #rows = new Int32Array(8);
  #tickets = new Uint32Array(8);
  #head = 0;
  #count = 0;
  readonly #isCurrent: (row: number, ticket: number) => boolean;
  /** Entries that were put at the head and are still there, at most. */
  #returned = 0;
  /** Index of the next partition that the walk over the backlog looks at. */
  backfillAt = 0;

  constructor(isCurrent: (row: number, ticket: number) => boolean) {
    this.#isCurrent = isCurrent;
  }

  get count(): number {
    return this.#count;
  }

  push(row: number, ticket: number): void {
    if (this.#count === this.#rows.length) this.#makeRoom();
    this.#put((this.#head + this.#count++) & (this.#rows.length - 1), row, ticket);
  }

  unshift(row: number, ticket: number): void {
    if (this.#count === this.#rows.length) this.#makeRoom();
    this.#head = (this.#head - 1) & (this.#rows.length - 1);
    this.#put(this.#head, row, ticket);
    this.#count++;
    this.#returned++;
  }

  /** True while rows that were given back may stand at the head: they were ready before anything else. */
  get hasReturned(): boolean {
    return this.#returned > 0;
  }

  #put(at: number, row: number, ticket: number): void {
    this.#rows[at] = row;
    this.#tickets[at] = ticket;
  }

  /** The oldest row that is still filed; −1 when there is none. */
  shift(): number {
    while (this.#count > 0) {
      const row = this.#rows[this.#head];
      const ticket = this.#tickets[this.#head];
      this.#head = (this.#head + 1) & (this.#rows.length - 1);
      this.#count--;
      if (this.#returned > 0) this.#returned--;
      if (this.#isCurrent(row, ticket)) return row;
    }
    if (this.#rows.length > keptRingRows) this.#resize(8);
    return -1;
  }

  /** Throws out entries that were left behind, and doubles when that does not give room enough. */
  #makeRoom(): void {
    let kept = 0;
    for (let i = 0; i < this.#count; i++) {
      const from = (this.#head + i) & (this.#rows.length - 1);
      if (!this.#isCurrent(this.#rows[from], this.#tickets[from])) continue;
      this.#put((this.#head + kept) & (this.#rows.length - 1), this.#rows[from], this.#tickets[from]);
      kept++;
    }
    this.#count = kept;
    this.#returned = Math.min(this.#returned, kept);
    if (kept * 2 > this.#rows.length) this.#resize(this.#rows.length * 2);
  }

  #resize(capacity: number): void {
    const rows = new Int32Array(capacity);
    const tickets = new Uint32Array(capacity);
    for (let i = 0; i < this.#count; i++) {
      const from = (this.#head + i) & (this.#rows.length - 1);
      rows[i] = this.#rows[from];
      tickets[i] = this.#tickets[from];
    }
    this.#rows = rows;
    this.#tickets = tickets;
    this.#head = 0;
  }
}

/** An empty ring larger than this gives its memory back. */
const keptRingRows = 65_536;

/** What the schedule asks about blocks; answers only what is known in memory. */
export interface BlockPlaces {
  /** Stamp of the block that holds `offset`; 0 when it is not known without the disk. */
  stampOf(lane: number, pid: number, offset: number): number;
  blockAppended(queue: Queue, lane: number, bytes: Uint8Array, view: DataView, at: number): void;
  /** A copy of a block that was stored before. */
  blockRelocated(lane: number, bytes: Uint8Array, view: DataView, at: number): void;
  partitionRemoved(lane: number): void;
}

/** Who waits for work; told about each row that becomes ready and each partition that is written. */
export interface ReadyListener {
  rowReady(subscription: Subscription, row: number): void;
  /** A partition got an append: pinned pops of groups without a cursor there may be waiting. */
  laneAppended(queue: Queue, lane: number): void;
  /** The subscription may have a backlog to walk. */
  subscriptionReady(subscription: Subscription): void;
  queueRemoved(queue: Queue): void;
  /** Up to about `rows` partitions have become ready at one go, and nobody was told of them one by one. */
  manyReady(subscription: Subscription, rows: number): void;
  /** The group is gone from the queue. */
  subscriptionRemoved(subscription: Subscription): void;
  /** The group may have more of its queue again: a pop that waits for that is woken. */
  roomAgain(subscription: Subscription): void;
}

export class Schedule implements StateObserver {
  readonly #state: BrokerState;
  readonly #cursors: CursorTable;
  readonly #partitions: PartitionTable;
  readonly #places: BlockPlaces;
  readonly #listener: ReadyListener;
  readonly deadlines: Deadlines;
  /** Partitions by the moment at which something of them may have to go. */
  readonly expiry: Expiry;
  readonly #rings = new Map<number, ReadyRing>();
  /** Broker time of the command that is being applied. */
  nowUs = 0;
  leasedCount = 0;
  readonly rateWaits = new RateWaits();

  /** @param cleanupUs how long an empty partition stays; 0 = for ever. */
  constructor(state: BrokerState, places: BlockPlaces, listener: ReadyListener, cleanupUs = 0) {
    this.#state = state;
    this.#cursors = state.cursors;
    this.#partitions = state.partitions;
    this.#places = places;
    this.#listener = listener;
    this.deadlines = new Deadlines(state.cursors);
    this.expiry = new Expiry(state, cleanupUs);
  }

  /** Builds everything from the state, as after a restart. */
  rebuild(nowUs: number): void {
    this.nowUs = nowUs;
    for (let row = 0; row < this.#cursors.rowLimit; row++) {
      this.evaluate(row);
    }
    this.expiry.rebuild();
  }

  #ring(subscription: number): ReadyRing {
    let ring = this.#rings.get(subscription);
    if (ring === undefined) {
      ring = new ReadyRing((row, ticket) => this.#isFiled(row, ticket));
      this.#rings.set(subscription, ring);
    }
    return ring;
  }

  #isFiled(row: number, ticket: number): boolean {
    return this.#cursors.ticket[row] === ticket && this.#cursors.readiness[row] === readiness.ready;
  }

  /** Rows ready to be taken, at most (some may be passed over). */
  readyCount(subscription: Subscription): number {
    return this.#ring(subscription.number).count + this.#backlog(subscription);
  }

  #backlog(subscription: Subscription): number {
    if (!subscription.registered) return 0;
    return subscription.queue.laneCount - this.#ring(subscription.number).backfillAt;
  }

  /**
   * The next row the group can claim, taken out of the ring; `taken.none`, or `taken.unfinished` when the walk over the
   * backlog has to go on in another turn. The caller claims the row, or gives it back.
   */
  take(subscription: Subscription): number {
    subscription.lastPopUs = this.nowUs;
    if (subscription.isPaused) return taken.none;
    const ring = this.#ring(subscription.number);
    // What was read from disk for this group comes before the rest of its backlog: else the walk would go on to other
    // partitions that have to be read, and nothing be delivered before its end.
    if (ring.hasReturned) {
      const row = this.#takeFiled(subscription, ring);
      if (row !== taken.none) return row;
    }
    if (this.#backlog(subscription) > 0) {
      const row = this.#backfill(subscription, ring);
      if (row !== taken.none) return row;
    }
    return this.#takeFiled(subscription, ring);
  }

  #takeFiled(subscription: Subscription, ring: ReadyRing): number {
    for (let steps = 0; steps < staleRowsMax; steps++) {
      const row = ring.shift();
      if (row < 0) return taken.none;
      this.takeOut(row);
      // Where the group starts may have been moved since the row was filed.
      if (this.#isPlaced(row) || this.#hasBegun(subscription, this.#cursors.lane[row])) return row;
    }
    return taken.unfinished;
  }

  #isPlaced(row: number): boolean {
    return (this.#cursors.flags[row] & cursorBit.placed) !== 0;
  }

  /** Takes a ready row out of its ring for a caller that claims it or gives it back. */
  takeOut(row: number): void {
    this.#cursors.readiness[row] = readiness.idle;
  }

  #backfill(subscription: Subscription, ring: ReadyRing): number {
    const { lanes, laneCount } = subscription.queue;
    for (let steps = 0; ring.backfillAt < laneCount; steps++) {
      if (steps === backfillStepsMax) return taken.unfinished;
      const lane = lanes[ring.backfillAt++];
      let row = this.#cursors.find(this.#partitions.firstCursor[lane], subscription.number);
      if (row >= 0 && (this.#isPlaced(row) || this.#cursors.readiness[row] !== readiness.idle)) continue;
      if (!this.#mayHaveBacklog(subscription, lane)) continue;
      if (row < 0) row = this.#state.addCursor(lane, subscription);
      this.evaluate(row, 'taken');
      if (this.#cursors.readiness[row] === readiness.ready) {
        this.takeOut(row);
        return row;
      }
    }
    return taken.none;
  }

  #mayHaveBacklog(subscription: Subscription, lane: number): boolean {
    const partitions = this.#partitions;
    return partitions.nextOffset[lane] > partitions.logStart[lane] && this.#hasBegun(subscription, lane);
  }

  /**
   * True when the lane holds an append that the registration starts with, or before. A group that is not registered starts
   * as each of its pops says.
   */
  #hasBegun(subscription: Subscription, lane: number): boolean {
    if (!subscription.registered || subscription.mode === 'all') return true;
    return this.#partitions.lastStampUs[lane] >= subscription.sinceUs;
  }

  /** True when the row could be claimed now. */
  isReady(row: number): boolean {
    return this.#cursors.readiness[row] === readiness.ready;
  }

  /** The row waits for its blocks to be read from disk; nobody else gets it meanwhile. */
  setLoading(row: number): void {
    this.#cursors.readiness[row] = readiness.loading;
  }

  /** A row that was taken or loading becomes what the state says; a ready one goes to the head, as the oldest. */
  giveBack(row: number): void {
    if (this.#state.subscriptionOf(row) === undefined) return;
    // What became of it while it was loading may be a lease of somebody else.
    if (this.#cursors.readiness[row] !== readiness.leased) this.#cursors.readiness[row] = readiness.idle;
    this.evaluate(row, 'head');
  }

  /** A row that was taken is held back until then: its block, which may not be known here, said so. */
  hold(row: number, untilUs: number): void {
    this.#cursors.readiness[row] = readiness.held;
    this.deadlines.set(row, untilUs);
  }

  /**
   * Finds out what the row is now, from the state and the time, and files it there. A ready one goes to the tail of its
   * ring, to the head, or nowhere because the caller takes it. A row without a group stays as it is: its group was deleted,
   * and it is waiting to be given back.
   */
  evaluate(row: number, where: 'tail' | 'head' | 'taken' = 'tail'): void {
    const cursors = this.#cursors;
    const partitions = this.#partitions;
    const subscription = this.#state.subscriptionOf(row);
    if (subscription === undefined) return;
    const before = cursors.readiness[row];
    const claim = cursors.claim[row];
    const lane = cursors.lane[row];
    const queue = subscription.queue;
    let condition: number = readiness.ready;
    let untilUs = 0;
    const placed = (cursors.flags[row] & cursorBit.placed) !== 0;
    const wanted = placed ? Math.max(cursors.committed[row] + 1, partitions.logStart[lane]) : partitions.logStart[lane];
    if (claim >= 0 && cursors.leaseStamp[claim] !== 0 && cursors.expiresAtUs[claim] >= this.nowUs) {
      condition = readiness.leased;
      untilUs = cursors.expiresAtUs[claim] + 1;
    } else if (wanted >= partitions.nextOffset[lane] || (!placed && !this.#hasBegun(subscription, lane))) {
      condition = readiness.idle;
    } else if (claim >= 0 && cursors.heldUntilUs[claim] > this.nowUs) {
      condition = readiness.held;
      untilUs = cursors.heldUntilUs[claim];
    } else if (queue.holds) {
      untilUs = this.#holdUntil(queue, lane, wanted);
      if (untilUs > this.nowUs) condition = readiness.held;
      else untilUs = 0;
    }
    if (condition === readiness.ready && this.#state.due.size > 0) {
      untilUs = this.#dueAt(subscription, lane, wanted, placed);
      if (untilUs > 0) condition = readiness.held;
    }
    const { pausedPartitions } = this.#state;
    if (condition === readiness.ready && pausedPartitions.size > 0 && pausedPartitions.has(partitions.pid[lane])) {
      condition = readiness.paused;
    }
    // A loading row is somebody's: it is filed when that somebody gives it back.
    if (before === readiness.loading && condition === readiness.ready) return;
    if (before === readiness.leased) this.#countLeased(subscription, -1);
    if (condition === readiness.leased) this.#countLeased(subscription, 1);
    if (untilUs > 0) this.deadlines.set(row, untilUs);
    else if (cursors.deadlineAt[row] !== 0) this.deadlines.clear(row);
    cursors.readiness[row] = condition;
    if (before === readiness.leased && condition !== readiness.leased && queue.leasedMax > 0) {
      this.#listener.roomAgain(subscription);
    }
    if (condition !== readiness.ready || where === 'taken') return;
    // One that is ready already keeps its place.
    if (before === readiness.ready && where === 'tail') return;
    const ticket = ++cursors.ticket[row];
    const ring = this.#ring(subscription.number);
    if (where === 'head') ring.unshift(row, ticket);
    else ring.push(row, ticket);
    if (!subscription.isPaused) this.#listener.rowReady(subscription, row);
  }

  #countLeased(subscription: Subscription, change: 1 | -1): void {
    this.leasedCount += change;
    subscription.leasedPartitions += change;
  }

  /** When the record at `offset` may be delivered, as far as delayedProcessing and windowBuffer are concerned. */
  #holdUntil(queue: Queue, lane: number, offset: number): number {
    const newest = this.#partitions.lastStampUs[lane];
    let untilUs = queue.windowUs > 0 ? newest + queue.windowUs : 0;
    if (queue.delayUs > 0 && newest + queue.delayUs > this.nowUs) {
      const stampUs = this.#places.stampOf(lane, this.#partitions.pid[lane], offset);
      // A block that is known only on disk is looked at when it is claimed.
      if (stampUs > 0) untilUs = Math.max(untilUs, stampUs + queue.delayUs);
    }
    return untilUs;
  }

  /** Until when the record at `offset`, the group's next one, waits for its time; 0 = it does not, or is not known. */
  #dueAt(subscription: Subscription, lane: number, offset: number, placed: boolean): number {
    // Where such a group begins is found by its claim, which then places it.
    if (!placed && !(subscription.registered && subscription.mode === 'all')) return 0;
    const { due } = this.#state;
    const row = due.find(this.#partitions.pid[lane], offset);
    if (row < 0 || !due.isWaiting(row, this.nowUs)) return 0;
    const { lifetimeUs } = subscription.queue;
    const untilUs = lifetimeUs > 0 ? Math.min(due.dueUsOf(row), due.stampOf(row) + lifetimeUs + 1) : due.dueUsOf(row);
    return untilUs > this.nowUs ? untilUs : 0;
  }

  /** Lets deadlines up to `nowUs` pass; at most `max` of them. True when more are due. */
  advance(nowUs: number, max: number): boolean {
    this.nowUs = nowUs;
    if (this.rateWaits.nextUs <= nowUs) this.rateWaits.advance(nowUs, (each) => this.#listener.roomAgain(each));
    for (let i = 0; i < max; i++) {
      const row = this.deadlines.take(nowUs);
      if (row < 0) return false;
      this.evaluate(row);
    }
    return this.deadlines.nextUs <= nowUs;
  }

  /** When time alone changes something next; Infinity = never. */
  get nextUs(): number {
    return Math.min(this.deadlines.nextUs, this.rateWaits.nextUs);
  }

  /** False when the group has as much of its queue as the queue's options let it; told again when there is room. */
  hasRoom(subscription: Subscription, leases: boolean, nowUs: number): boolean {
    if (!hasLimits(subscription) || hasRoom(subscription, leases, nowUs)) return true;
    this.rateWaits.note(subscription, nowUs);
    return false;
  }

  // What the state tells.

  partitionAdded(queue: Queue, _lane: number): void {
    // A group that has walked its whole backlog has nothing to look for in a partition that is still empty.
    for (const subscription of queue.subscriptions) {
      const ring = this.#ring(subscription.number);
      if (ring.backfillAt === queue.laneCount - 1) ring.backfillAt = queue.laneCount;
    }
  }

  blockAppended(queue: Queue, lane: number, bytes: Uint8Array, view: DataView, at: number): void {
    this.#places.blockAppended(queue, lane, bytes, view, at);
    this.expiry.appended(queue, lane);
    const first = this.#partitions.firstCursor[lane];
    for (const subscription of queue.subscriptions) {
      const row = this.#cursors.find(first, subscription.number);
      if (row >= 0) {
        // A backlog that is only longer now changes nothing, unless the quiet time starts again.
        const condition = this.#cursors.readiness[row];
        if (condition === readiness.idle || queue.windowUs > 0) this.evaluate(row);
      } else if (
        subscription.registered &&
        this.#isWalked(subscription, lane) &&
        this.#mayHaveBacklog(subscription, lane)
      ) {
        this.evaluate(this.#state.addCursor(lane, subscription));
      } else if (subscription.registered && !subscription.isPaused) {
        this.#listener.subscriptionReady(subscription);
      }
    }
    this.#listener.laneAppended(queue, lane);
  }

  /** True when the walk over the backlog has passed the lane. */
  #isWalked(subscription: Subscription, lane: number): boolean {
    const { lanes, laneCount } = subscription.queue;
    const at = this.#ring(subscription.number).backfillAt;
    return at >= laneCount || this.#partitions.pid[lane] < this.#partitions.pid[lanes[at]];
  }

  subscriptionAdded(subscription: Subscription): void {
    if (!subscription.registered) return;
    // A group that begins now has no backlog; one whose pop came before its queue was made again begins with that pop.
    const beginsNow = subscription.mode === 'new' && subscription.sinceUs >= this.nowUs;
    this.#ring(subscription.number).backfillAt = beginsNow ? subscription.queue.laneCount : 0;
    if (!beginsNow) this.subscriptionResumed(subscription);
  }

  subscriptionRemoved(subscription: Subscription): void {
    this.#rings.delete(subscription.number);
    this.rateWaits.forget(subscription);
    // What it had not consumed may go now.
    this.expiry.queueChanged(subscription.queue);
    this.#listener.subscriptionRemoved(subscription);
  }

  subscriptionResumed(subscription: Subscription): void {
    if (!subscription.isPaused) this.#listener.manyReady(subscription, this.readyCount(subscription));
  }

  pauseChanged(lane: number): void {
    for (let row = this.#partitions.firstCursor[lane]; row >= 0; row = this.#cursors.nextOfLane[row]) {
      this.evaluate(row);
    }
  }

  dueChanged(lane: number): void {
    this.pauseChanged(lane);
  }

  cursorAdded(_row: number): void {
    // It is evaluated by whoever made it, once its position is known.
  }

  cursorChanged(row: number): void {
    this.expiry.cursorMoved(this.#cursors.lane[row]);
    this.evaluate(row);
  }

  cursorRemoved(row: number): void {
    if (this.#cursors.readiness[row] === readiness.leased) {
      this.leasedCount--;
      const subscription = this.#state.subscriptionOf(row);
      if (subscription !== undefined) {
        subscription.leasedPartitions--;
        this.#listener.roomAgain(subscription);
      }
    }
    this.deadlines.clear(row);
    this.#cursors.readiness[row] = readiness.idle;
    this.expiry.cursorMoved(this.#cursors.lane[row]);
  }

  holdsChanged(queue: Queue): void {
    // Shorter or longer: every row that could be concerned is looked at.
    for (const subscription of queue.subscriptions) {
      for (let i = 0; i < queue.laneCount; i++) {
        const row = this.#cursors.find(this.#partitions.firstCursor[queue.lanes[i]], subscription.number);
        if (row >= 0) this.evaluate(row);
      }
    }
  }

  logStartMoved(queue: Queue, lane: number): void {
    this.expiry.file(queue, lane);
    // A group that stood in what went goes on with what is kept, or has nothing left to get.
    for (let row = this.#partitions.firstCursor[lane]; row >= 0; row = this.#cursors.nextOfLane[row]) {
      const condition = this.#cursors.readiness[row];
      if (condition === readiness.ready || condition === readiness.held) this.evaluate(row);
    }
  }

  expiryChanged(queue: Queue): void {
    this.expiry.queueChanged(queue);
  }

  lanesRemoved(queue: Queue, positions: readonly number[]): void {
    this.expiry.lanesRemoved(queue, positions);
    for (const subscription of queue.subscriptions) {
      const ring = this.#ring(subscription.number);
      const { backfillAt } = ring;
      ring.backfillAt = backfillAt - positions.filter((position) => position < backfillAt).length;
    }
  }

  blockRelocated(lane: number, bytes: Uint8Array, view: DataView, at: number): void {
    this.#places.blockRelocated(lane, bytes, view, at);
  }

  limitsChanged(queue: Queue): void {
    for (const subscription of queue.subscriptions) this.#listener.roomAgain(subscription);
  }

  partitionRemoved(lane: number): void {
    this.expiry.laneRemoved(lane);
    this.#places.partitionRemoved(lane);
  }

  queueRemoved(queue: Queue): void {
    this.expiry.queueRemoved(queue);
    for (const subscription of queue.subscriptions) {
      this.#rings.delete(subscription.number);
      this.rateWaits.forget(subscription);
    }
    this.#listener.queueRemoved(queue);
  }
}
