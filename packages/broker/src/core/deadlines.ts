/**
 * Rows of a table by deadline: a 4-ary heap in typed arrays. Each row has at most one deadline; its place is kept in a
 * column of the table (place + 1, 0 = none), so that moving or removing one is O(log n) and nothing goes stale.
 */
import { assert } from './assert.ts';
import { grownFloat64, grownInt32 } from './columns.ts';

/** The table; its column is replaced when the table grows. */
export interface DeadlineColumn {
  readonly deadlineAt: Int32Array;
}

export class Deadlines {
  #at = new Float64Array(64);
  #row = new Int32Array(64);
  #count = 0;
  readonly #table: DeadlineColumn;

  constructor(table: DeadlineColumn) {
    this.#table = table;
  }

  get count(): number {
    return this.#count;
  }

  /** Earliest deadline; Infinity when there is none. */
  get nextUs(): number {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : this.#at[0];
  }

  /** Sets or moves the deadline of a row. */
  set(row: number, atUs: number): void {
    let place = this.#table.deadlineAt[row] - 1;
    if (place < 0) {
      if (this.#count === this.#at.length) {
        this.#at = grownFloat64(this.#at, this.#count * 2);
        this.#row = grownInt32(this.#row, this.#count * 2);
      }
      place = this.#count++;
    }
    this.#put(place, row, atUs);
    this.#settle(place);
  }

  clear(row: number): void {
    const place = this.#table.deadlineAt[row] - 1;
    if (place < 0) return;
    this.#table.deadlineAt[row] = 0;
    const last = --this.#count;
    if (place === last) return;
    this.#put(place, this.#row[last], this.#at[last]);
    this.#settle(place);
  }

  /** Removes and returns a row whose deadline is at or before `nowUs`; −1 when there is none. */
  take(nowUs: number): number {
    if (this.#count === 0 || this.#at[0] > nowUs) return -1;
    const row = this.#row[0];
    this.clear(row);
    return row;
  }

  /** The row at a place from 0 to `count` − 1, in no useful order; −1 when nothing is there any more. */
  rowAt(place: number): number {
    return place < this.#count ? this.#row[place] : -1;
  }

  #put(place: number, row: number, atUs: number): void {
    this.#at[place] = atUs;
    this.#row[place] = row;
    this.#table.deadlineAt[row] = place + 1;
  }

  #settle(start: number): void {
    let place = start;
    const atUs = this.#at[place];
    const row = this.#row[place];
    while (place > 0) {
      const parent = (place - 1) >> 2;
      if (this.#at[parent] <= atUs) break;
      this.#put(place, this.#row[parent], this.#at[parent]);
      place = parent;
    }
    for (;;) {
      let least = -1;
      let leastAt = atUs;
      const first = place * 4 + 1;
      for (let child = first; child < first + 4 && child < this.#count; child++) {
        if (this.#at[child] < leastAt) {
          least = child;
          leastAt = this.#at[child];
        }
      }
      if (least < 0) break;
      this.#put(place, this.#row[least], leastAt);
      place = least;
    }
    assert(place < this.#count, 'a deadline stays inside the heap');
    this.#put(place, row, atUs);
  }
}
