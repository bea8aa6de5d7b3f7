/**
 * The items of one ack call, grouped into targets: one per (partition, lease id), in the order in which they first appear.
 * Columns that are filled anew for each call, so that a call with many partitions makes no garbage.
 */
import type { AckItems } from './commands.ts';
import { type AckOutcome, ackError } from './outcomes.ts';

/** Some items of a call: their numbers are order[begin … begin + count), in input order. */
export interface ItemNumbers {
  readonly order: Int32Array;
  readonly begin: number;
  readonly count: number;
}

export class AckTargets {
  count = 0;
  /** Two targets name the same partition, under different lease ids or with and without one. */
  sharePartitions = false;
  pids = new Float64Array(64);
  /** As in AckItems: 0 = no lease named. */
  leaseStamps = new Float64Array(64);
  #order = new Int32Array(64);
  /** Items of target t lie at [starts[t], starts[t + 1]) of the order. */
  #starts = new Int32Array(64);
  readonly #numbers = { order: this.#order, begin: 0, count: 0 };
  #filled = new Int32Array(64);
  #targetOf = new Int32Array(64);
  /** Hash table over pids: 1 + the newest target in the slot; `#nextInSlot` links to the ones before. */
  #slots = new Int32Array(128);
  #nextInSlot = new Int32Array(64);

  /** Items without a usable partition id get their error and belong to no target. */
  split(items: AckItems, outcome: AckOutcome): void {
    const { count, pids, leaseStamps } = items;
    this.#makeRoom(count);
    let slotCount = 4;
    while (slotCount < count * 2) slotCount *= 2;
    this.#slots.fill(0, 0, slotCount);
    this.count = 0;
    this.sharePartitions = false;
    const starts = this.#starts;
    const order = this.#order;
    const targetOf = this.#targetOf;
    let target = -1;
    for (let item = 0; item < count; item++) {
      const pid = pids[item];
      if (pid < 0) {
        outcome.errors[item] = ackError.notAPartitionId;
        targetOf[item] = -1;
        continue;
      }
      if (target < 0 || this.pids[target] !== pid || this.leaseStamps[target] !== leaseStamps[item]) {
        target = this.#find(pid, leaseStamps[item], slotCount - 1);
      }
      targetOf[item] = target;
      starts[target]++;
    }
    const filled = this.#filled;
    let at = 0;
    for (let t = 0; t < this.count; t++) {
      const size = starts[t];
      starts[t] = at;
      filled[t] = at;
      at += size;
    }
    starts[this.count] = at;
    for (let item = 0; item < count; item++) {
      if (targetOf[item] >= 0) order[filled[targetOf[item]]++] = item;
    }
  }

  /** The items of a target: the same object each time. */
  itemsOf(target: number): ItemNumbers {
    const numbers = this.#numbers;
    numbers.order = this.#order;
    numbers.begin = this.#starts[target];
    numbers.count = this.#starts[target + 1] - numbers.begin;
    return numbers;
  }

  #makeRoom(items: number): void {
    if (items < this.pids.length) return;
    let capacity = this.pids.length;
    while (capacity <= items) capacity *= 2;
    this.pids = new Float64Array(capacity);
    this.leaseStamps = new Float64Array(capacity);
    this.#order = new Int32Array(capacity);
    this.#starts = new Int32Array(capacity);
    this.#filled = new Int32Array(capacity);
    this.#targetOf = new Int32Array(capacity);
    this.#slots = new Int32Array(capacity * 2);
    this.#nextInSlot = new Int32Array(capacity);
  }

  /** The target of a (pid, lease id); made when there is none. */
  #find(pid: number, leaseStamp: number, mask: number): number {
    const slot = pid & mask;
    let isShared = false;
    for (let target = this.#slots[slot] - 1; target >= 0; target = this.#nextInSlot[target] - 1) {
      if (this.pids[target] !== pid) continue;
      if (this.leaseStamps[target] === leaseStamp) return target;
      isShared = true;
    }
    if (isShared) this.sharePartitions = true;
    const target = this.count++;
    this.pids[target] = pid;
    this.leaseStamps[target] = leaseStamp;
    this.#starts[target] = 0;
    this.#nextInSlot[target] = this.#slots[slot];
    this.#slots[slot] = target + 1;
    return target;
  }
}
