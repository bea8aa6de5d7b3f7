/**
 * When each partition has to be looked at because an append of it may have come of age, or because it has been empty for
 * so long that it may go: derived from the state, never stored.
 *
 * A partition stands in a heap by the moment at which its oldest append comes of age, so that a million partitions in
 * which nothing expires cost nothing. One whose append is old enough, but not yet consumed by every group, leaves the
 * heap and comes back when a cursor in it moves. What is not filed yet (after a start, or when the options of a queue
 * changed) is walked through queue by queue, in slices.
 */
import type { BrokerState } from './broker-state.ts';
import { grownInt32, grownUint8 } from './columns.ts';
import { Deadlines } from './deadlines.ts';
import type { Queue } from './queue.ts';

/** Lanes of deleted queues that one `take` passes over. */
const passedMax = 5000;

export class Expiry {
  readonly #state: BrokerState;
  /** Of the heap: place of each lane, plus 1. */
  deadlineAt = new Int32Array(64);
  /** Lanes that a cursor which moves makes due. */
  #waits = new Uint8Array(64);
  readonly #deadlines: Deadlines;
  /** Queues whose lanes have to be filed, each with the position of the next one. */
  readonly #walks = new Map<Queue, number>();
  /** How long an empty partition stays after its last append, in microseconds; 0 = for ever. */
  readonly #cleanupUs: number;

  constructor(state: BrokerState, cleanupUs: number) {
    this.#state = state;
    this.#cleanupUs = cleanupUs;
    this.#deadlines = new Deadlines(this);
  }

  /** Partitions that stand in the heap. */
  get filed(): number {
    return this.#deadlines.count;
  }

  /** Everything has to be filed, as after a start. */
  rebuild(): void {
    for (const queue of this.#state.queues.values()) this.#walks.set(queue, 0);
  }

  /** Files up to `max` lanes that were not looked at yet; true when more are left. */
  walk(max: number): boolean {
    let left = max;
    for (const [queue, from] of this.#walks) {
      const until = Math.min(queue.laneCount, from + left);
      for (let position = from; position < until; position++) this.file(queue, queue.lanes[position]);
      left -= until - from;
      if (until < queue.laneCount) {
        this.#walks.set(queue, until);
        return true;
      }
      this.#walks.delete(queue);
    }
    return false;
  }

  /** A lane that is due, taken out; −1 when none was met. Its caller files it again. */
  take(nowUs: number): number {
    // Lanes of deleted queues are passed over, so many at a time: their rows are given back elsewhere.
    for (let passed = 0; passed < passedMax; passed++) {
      const lane = this.#deadlines.take(nowUs);
      if (lane < 0 || this.#state.queueByNumber.has(this.#state.partitions.queueNumber[lane])) return lane;
    }
    return -1;
  }

  /** Puts a lane where the state says that it belongs. */
  file(queue: Queue, lane: number): void {
    const { partitions } = this.#state;
    let untilUs = 0;
    if (partitions.isEmpty(lane)) {
      if (this.#cleanupUs > 0) untilUs = partitions.lastStampUs[lane] + this.#cleanupUs;
    } else {
      const { ageUs, completedUs } = queue;
      const afterUs = ageUs === 0 || completedUs === 0 ? ageUs + completedUs : Math.min(ageUs, completedUs);
      if (afterUs > 0) untilUs = partitions.oldestStampUs(lane) + afterUs + 1;
    }
    // Where nothing ever expires, nothing is kept for a lane.
    if (untilUs === 0 && lane >= this.deadlineAt.length) return;
    this.#makeRoom(lane);
    this.#waits[lane] = 0;
    this.#set(lane, untilUs);
  }

  /** An append is old enough but somebody has not consumed it: the lane waits for a cursor, or for the age of the append. */
  waitForGroups(queue: Queue, lane: number): void {
    this.#makeRoom(lane);
    this.#waits[lane] = 1;
    this.#set(lane, queue.ageUs > 0 ? this.#state.partitions.oldestStampUs(lane) + queue.ageUs + 1 : 0);
  }

  /** The lane is looked at again at that moment, whatever the state says. */
  postpone(lane: number, untilUs: number): void {
    this.#makeRoom(lane);
    this.#waits[lane] = 0;
    this.#set(lane, untilUs);
  }

  #set(lane: number, untilUs: number): void {
    if (untilUs > 0) this.#deadlines.set(lane, untilUs);
    else this.#deadlines.clear(lane);
  }

  #makeRoom(lane: number): void {
    if (lane < this.deadlineAt.length) return;
    const capacity = Math.max(lane + 1, this.deadlineAt.length * 2);
    this.deadlineAt = grownInt32(this.deadlineAt, capacity);
    this.#waits = grownUint8(this.#waits, capacity);
  }

  // What the state tells.

  /** Only the first append of an empty partition changes when it is to be looked at. */
  appended(queue: Queue, lane: number): void {
    const { partitions } = this.#state;
    if (partitions.oldestStampUs(lane) !== partitions.lastStampUs[lane]) return;
    if (queue.ageUs > 0 || queue.completedUs > 0 || this.deadlineAt[lane] > 0) this.file(queue, lane);
  }

  cursorMoved(lane: number): void {
    if (this.#waits[lane] !== 1) return;
    this.#waits[lane] = 0;
    this.#deadlines.set(lane, 1);
  }

  /** Its options or its groups are others now. */
  queueChanged(queue: Queue): void {
    this.#walks.set(queue, 0);
  }

  queueRemoved(queue: Queue): void {
    this.#walks.delete(queue);
  }

  /** `positions` in the queue's lanes, ascending, before they go. */
  lanesRemoved(queue: Queue, positions: readonly number[]): void {
    const from = this.#walks.get(queue);
    if (from !== undefined) this.#walks.set(queue, from - positions.filter((position) => position < from).length);
  }

  laneRemoved(lane: number): void {
    if (lane >= this.deadlineAt.length) return;
    this.#waits[lane] = 0;
    this.#deadlines.clear(lane);
  }
}
