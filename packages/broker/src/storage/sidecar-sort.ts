/**
 * Sorting of a million rows that are columns of typed arrays: by radix, so that no row becomes an object and no
 * comparison is a call. About 40 ms per million rows and 32-bit column.
 */

const digitBits = 11;
const digitCount = 1 << digitBits;
const digitMask = digitCount - 1;
const digits = 3;

/** A list of row numbers that is sorted by one column after another. Sorting is stable: sort by the last column first. */
export class RowOrder {
  /** Row numbers in their present order. Changes with each sort: read it after the last one. */
  rows: Uint32Array;
  private scratch: Uint32Array;

  /** Rows 0, 1, 2 … count − 1. */
  constructor(count: number) {
    this.rows = new Uint32Array(count);
    this.scratch = new Uint32Array(count);
    for (let i = 0; i < count; i++) this.rows[i] = i;
  }

  /** Sorts by a column of u32. A digit in which all rows agree costs nothing but its count. */
  sortBy(column: Uint32Array): void {
    const count = this.rows.length;
    if (count < 2) return;
    const counts = new Uint32Array(digits * digitCount);
    for (let i = 0; i < count; i++) {
      const key = column[i];
      counts[key & digitMask]++;
      counts[digitCount + ((key >>> digitBits) & digitMask)]++;
      counts[2 * digitCount + (key >>> (2 * digitBits))]++;
    }
    for (let digit = 0; digit < digits; digit++) {
      const shift = digit * digitBits;
      const starts = counts.subarray(digit * digitCount, (digit + 1) * digitCount);
      if (starts[(column[0] >>> shift) & digitMask] === count) continue;
      let sum = 0;
      for (let d = 0; d < digitCount; d++) {
        const size = starts[d];
        starts[d] = sum;
        sum += size;
      }
      const from = this.rows;
      const to = this.scratch;
      for (let i = 0; i < count; i++) {
        const row = from[i];
        to[starts[(column[row] >>> shift) & digitMask]++] = row;
      }
      this.rows = to;
      this.scratch = from;
    }
  }

  /** Sorts by a column of integers in [0, 2^53). */
  sortByWide(column: Float64Array): void {
    const count = this.rows.length;
    const half = new Uint32Array(count);
    for (let i = 0; i < count; i++) half[i] = column[i] >>> 0;
    this.sortBy(half);
    for (let i = 0; i < count; i++) half[i] = Math.floor(column[i] / 0x1_0000_0000);
    this.sortBy(half);
  }
}

/** The keys in ascending order, each once. Sorts `keys` in place; the result is a part of it. */
export function sortedUnique(keys: Uint32Array): Uint32Array {
  keys.sort();
  let kept = 0;
  for (let i = 0; i < keys.length; i++) {
    if (i === 0 || keys[i] !== keys[i - 1]) keys[kept++] = keys[i];
  }
  return keys.subarray(0, kept);
}
