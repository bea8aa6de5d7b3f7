/**
 * Records that must not be delivered yet, and records that were cancelled before they could be: by their place in the
 * log of their partition, and the waiting ones by their time as well. All other records have no row here, so that
 * partitions without due messages cost nothing.
 *
 * A row means something while its record is kept and it is cancelled or its time has not come. Rows that mean nothing
 * any more are given back bit by bit, whenever somebody has time: a state means the same with and without them.
 */
import { grownFloat64, grownUint8, RowAllocator } from './columns.ts';
import { OrderedRows } from './ordered-rows.ts';

/** Row of the key that is looked for. */
const probe = 0;

const rowsAtFirst = 64;

/** Waiting rows whose time has come that leave when one is added, so that a replay does not collect them all. */
const passedRowsPerAdd = 2;

const kind = { free: 0, waiting: 1, cancelled: 2 } as const;

export class DueTable {
  #pid = new Float64Array(rowsAtFirst);
  #offset = new Float64Array(rowsAtFirst);
  #dueUs = new Float64Array(rowsAtFirst);
  #stampUs = new Float64Array(rowsAtFirst);
  #kind = new Uint8Array(rowsAtFirst);
  readonly #rows = new RowAllocator();
  readonly #byPlace = new OrderedRows((a, b) => this.#pid[a] - this.#pid[b] || this.#offset[a] - this.#offset[b]);
  readonly #byTime = new OrderedRows(
    (a, b) => this.#dueUs[a] - this.#dueUs[b] || this.#pid[a] - this.#pid[b] || this.#offset[a] - this.#offset[b],
  );
  /** Partitions that have lost all records below an offset, and may still have rows for them. */
  readonly #forgotten: { readonly pid: number; readonly below: number }[] = [];

  constructor() {
    this.#rows.take();
  }

  /** Rows of both kinds. */
  get size(): number {
    return this.#byPlace.size;
  }

  /** Records whose time has not come, and some whose time came a moment ago. */
  get waiting(): number {
    return this.#byTime.size;
  }

  get cancelled(): number {
    return this.#byPlace.size - this.#byTime.size;
  }

  /** The earliest time of a waiting record; Infinity when there is none. */
  get firstDueUs(): number {
    const row = this.#byTime.first;
    return row < 0 ? Number.POSITIVE_INFINITY : this.#dueUs[row];
  }

  /** A record that waits for `dueUs`. `passedUs`: what was due then needs no row any more. */
  add(pid: number, offset: number, dueUs: number, stampUs: number, passedUs: number): void {
    this.dropPassed(passedUs, passedRowsPerAdd);
    const row = this.#rows.take();
    if (row >= this.#pid.length) this.#grow(this.#pid.length * 2);
    this.#pid[row] = pid;
    this.#offset[row] = offset;
    this.#dueUs[row] = dueUs;
    this.#stampUs[row] = stampUs;
    this.#kind[row] = kind.waiting;
    this.#byPlace.add(row);
    this.#byTime.add(row);
  }

  /** The row of a record, or −1. */
  find(pid: number, offset: number): number {
    const row = this.next(pid, offset);
    return row >= 0 && this.#offset[row] === offset ? row : -1;
  }

  /** The row of the first record of the partition at or behind `offset` that has one, or −1. */
  next(pid: number, offset: number): number {
    this.#pid[probe] = pid;
    this.#offset[probe] = offset;
    const row = this.#byPlace.atOrAfter(probe);
    return row >= 0 && this.#pid[row] === pid ? row : -1;
  }

  /**
   * Offset of the first record of the partition at or behind `offset` that waits, or Infinity. One that has outlived the
   * queue's lifetime (its stamp is before `expiredBeforeUs`) holds up nobody.
   */
  firstWaiting(pid: number, offset: number, nowUs: number, expiredBeforeUs: number): number {
    let found = Number.POSITIVE_INFINITY;
    this.#pid[probe] = pid;
    this.#offset[probe] = offset;
    this.#byPlace.forEachFrom(probe, (row) => {
      if (this.#pid[row] !== pid) return false;
      if (!this.isWaiting(row, nowUs) || this.#stampUs[row] < expiredBeforeUs) return true;
      found = this.#offset[row];
      return false;
    });
    return found;
  }

  /** The last offset from `offset` down to `from` that was not cancelled; `from` − 1 when all were. */
  lastKept(pid: number, from: number, offset: number): number {
    let kept = offset;
    this.#pid[probe] = pid;
    this.#offset[probe] = offset;
    this.#byPlace.forEachBackFrom(probe, (row) => {
      if (kept < from || this.#pid[row] !== pid || this.#offset[row] !== kept || !this.isCancelled(row)) return false;
      kept--;
      return true;
    });
    return Math.max(kept, from - 1);
  }

  /** How many records of the partition from `from` to `to`, both included, are cancelled. */
  cancelledIn(pid: number, from: number, to: number): number {
    let count = 0;
    this.#pid[probe] = pid;
    this.#offset[probe] = from;
    this.#byPlace.forEachFrom(probe, (row) => {
      if (this.#pid[row] !== pid || this.#offset[row] > to) return false;
      if (this.isCancelled(row)) count++;
      return true;
    });
    return count;
  }

  pidOf(row: number): number {
    return this.#pid[row];
  }

  offsetOf(row: number): number {
    return this.#offset[row];
  }

  dueUsOf(row: number): number {
    return this.#dueUs[row];
  }

  stampOf(row: number): number {
    return this.#stampUs[row];
  }

  isCancelled(row: number): boolean {
    return this.#kind[row] === kind.cancelled;
  }

  /** True while the record's time has not come. */
  isWaiting(row: number, nowUs: number): boolean {
    return this.#kind[row] === kind.waiting && this.#dueUs[row] > nowUs;
  }

  move(row: number, dueUs: number): void {
    this.#byTime.remove(row);
    this.#dueUs[row] = dueUs;
    this.#byTime.add(row);
  }

  cancel(row: number): void {
    this.#byTime.remove(row);
    this.#dueUs[row] = 0;
    this.#kind[row] = kind.cancelled;
  }

  /** All records of the partition below `offset` are gone. */
  forgetBelow(pid: number, offset: number): void {
    const row = this.next(pid, 0);
    if (row >= 0 && this.#offset[row] < offset) this.#forgotten.push({ pid, below: offset });
  }

  /** True when rows can be given back: `passedUs` as for `add`. */
  hasGarbage(passedUs: number): boolean {
    return this.#forgotten.length > 0 || this.firstDueUs <= passedUs;
  }

  /** Gives back up to `max` rows that mean nothing any more. */
  collectGarbage(passedUs: number, max: number): void {
    let left = max - this.dropPassed(passedUs, max);
    for (let last = this.#forgotten.at(-1); last !== undefined && left > 0; last = this.#forgotten.at(-1)) {
      const row = this.next(last.pid, 0);
      if (row >= 0 && this.#offset[row] < last.below) {
        this.#remove(row);
        left--;
      } else this.#forgotten.pop();
    }
  }

  /** Gives back rows of records that were due at `passedUs`, `max` at most; returns how many. */
  dropPassed(passedUs: number, max: number): number {
    let dropped = 0;
    while (dropped < max && this.firstDueUs <= passedUs) {
      this.#remove(this.#byTime.first);
      dropped++;
    }
    return dropped;
  }

  /** Visits waiting rows by (time, pid, offset), from the first that does not come before that key. */
  forEachByTime(dueUs: number, pid: number, offset: number, visit: (row: number) => boolean): void {
    this.#dueUs[probe] = dueUs;
    this.#pid[probe] = pid;
    this.#offset[probe] = offset;
    this.#byTime.forEachFrom(probe, visit);
  }

  /** All rows by (pid, offset). The table must not change meanwhile. */
  all(): Generator<number> {
    return this.#byPlace.all();
  }

  #remove(row: number): void {
    if (this.#kind[row] === kind.waiting) this.#byTime.remove(row);
    this.#byPlace.remove(row);
    this.#kind[row] = kind.free;
    this.#rows.give(row);
  }

  #grow(capacity: number): void {
    this.#pid = grownFloat64(this.#pid, capacity);
    this.#offset = grownFloat64(this.#offset, capacity);
    this.#dueUs = grownFloat64(this.#dueUs, capacity);
    this.#stampUs = grownFloat64(this.#stampUs, capacity);
    this.#kind = grownUint8(this.#kind, capacity);
  }
}
