/**
 * The rows of an edge table with a schema of its own, sorted by the bytes of their keys.
 *
 * Sorted runs of up to 256 rows. The keys of a run lie one behind the other in one array, in order, so that a row costs
 * its key and 20 bytes, and nothing the garbage collector walks. Putting a row moves those behind it in its run.
 */
import { grownFloat64, grownUint32 } from '../columns.ts';
import { compareBytes } from './edge-keys.ts';

const runRowsMax = 256;
const runRowsAtFirst = 8;
const keyBytesAtFirst = 256;

/** What is known of a row besides its key. */
export interface StoredEdge {
  /** Log address of the stored value. */
  readonly address: number;
  readonly length: number;
  readonly checksum: number;
}

export interface KeyedRow extends StoredEdge {
  readonly key: Uint8Array;
}

/** Keys from `from` on, and below `to`; null = to the end. */
export interface KeyRange {
  readonly from: Uint8Array;
  readonly to: Uint8Array | null;
}

class KeyedRun {
  keys = new Uint8Array(keyBytesAtFirst);
  /** Where the key of each row ends in `keys`. */
  ends: Uint32Array<ArrayBuffer> = new Uint32Array(runRowsAtFirst);
  /** Length and checksum of the value of each row. */
  words: Uint32Array<ArrayBuffer> = new Uint32Array(runRowsAtFirst * 2);
  addresses: Float64Array<ArrayBuffer> = new Float64Array(runRowsAtFirst);
  count = 0;

  startOf(row: number): number {
    return row === 0 ? 0 : this.ends[row - 1];
  }

  key(row: number): Uint8Array {
    return this.keys.subarray(this.startOf(row), this.ends[row]);
  }

  /** First row whose key is at or above the one given. */
  lowerBound(key: Uint8Array): number {
    let from = 0;
    let to = this.count;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (compareBytes(this.key(middle), key) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  insert(row: number, key: Uint8Array): void {
    if (this.count === this.ends.length) {
      const rows = this.count * 2;
      this.ends = grownUint32(this.ends, rows);
      this.words = grownUint32(this.words, rows * 2);
      this.addresses = grownFloat64(this.addresses, rows);
    }
    const used = this.startOf(this.count);
    if (used + key.length > this.keys.length) {
      const grown = new Uint8Array(Math.max(used + key.length, this.keys.length * 2));
      grown.set(this.keys);
      this.keys = grown;
    }
    const at = this.startOf(row);
    this.keys.copyWithin(at + key.length, at, used);
    this.keys.set(key, at);
    this.ends.copyWithin(row + 1, row, this.count);
    this.words.copyWithin((row + 1) * 2, row * 2, this.count * 2);
    this.addresses.copyWithin(row + 1, row, this.count);
    this.ends[row] = at;
    this.count++;
    for (let i = row; i < this.count; i++) this.ends[i] += key.length;
  }

  set(row: number, { address, length, checksum }: StoredEdge): void {
    this.addresses[row] = address;
    this.words[row * 2] = length;
    this.words[row * 2 + 1] = checksum;
  }

  get(row: number): KeyedRow {
    return {
      key: this.key(row).slice(),
      address: this.addresses[row],
      length: this.words[row * 2],
      checksum: this.words[row * 2 + 1],
    };
  }

  remove(from: number, to: number): void {
    const start = this.startOf(from);
    const bytes = this.startOf(to) - start;
    this.keys.copyWithin(start, start + bytes, this.startOf(this.count));
    this.ends.copyWithin(from, to, this.count);
    this.words.copyWithin(from * 2, to * 2, this.count * 2);
    this.addresses.copyWithin(from, to, this.count);
    this.count -= to - from;
    for (let i = from; i < this.count; i++) this.ends[i] -= bytes;
  }

  /** The upper half of the rows, in a run of its own. */
  split(): KeyedRun {
    const cut = this.count >>> 1;
    const upper = new KeyedRun();
    for (let row = cut; row < this.count; row++) {
      upper.insert(row - cut, this.key(row));
      upper.words.set(this.words.subarray(row * 2, row * 2 + 2), (row - cut) * 2);
      upper.addresses[row - cut] = this.addresses[row];
    }
    this.count = cut;
    return upper;
  }
}

interface Place {
  run: number;
  row: number;
}

export interface KeyedPage {
  readonly rows: readonly KeyedRow[];
  readonly hasNext: boolean;
}

export class KeyedRows {
  #runs: KeyedRun[] = [];
  count = 0;
  /** Bytes of the stored values. */
  valueBytes = 0;

  /** Adds a row, or replaces the one that has this key. */
  put(key: Uint8Array, stored: StoredEdge): void {
    let number = this.#runOf(key);
    let run = this.#runs[number];
    if (run === undefined) {
      run = new KeyedRun();
      this.#runs.push(run);
    }
    let row = run.lowerBound(key);
    if (row < run.count && compareBytes(run.key(row), key) === 0) {
      this.valueBytes -= run.words[row * 2];
    } else {
      if (run.count === runRowsMax) {
        const upper = run.split();
        this.#runs.splice(number + 1, 0, upper);
        if (row > run.count) {
          row -= run.count;
          run = upper;
          number++;
        }
      }
      run.insert(row, key);
      this.count++;
    }
    run.set(row, stored);
    this.valueBytes += stored.length;
  }

  /** The run that holds a key, if any does, or that it belongs into. */
  #runOf(key: Uint8Array): number {
    let from = 0;
    let to = this.#runs.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (compareBytes(this.#runs[middle].key(0), key) <= 0) from = middle + 1;
      else to = middle;
    }
    return Math.max(0, from - 1);
  }

  #lowerBound(key: Uint8Array): Place {
    const run = this.#runOf(key);
    const row = this.#runs[run]?.lowerBound(key) ?? 0;
    return row < (this.#runs[run]?.count ?? 0) ? { run, row } : { run: run + 1, row: 0 };
  }

  #isBefore(place: Place, to: Uint8Array | null): boolean {
    const run = this.#runs[place.run];
    return run !== undefined && (to === null || compareBytes(run.key(place.row), to) < 0);
  }

  #step(place: Place): void {
    if (++place.row < this.#runs[place.run].count) return;
    place.run++;
    place.row = 0;
  }

  /** Up to `limit` rows of a range and `bytesMax` bytes of values, but at least one row. */
  page({ from, to }: KeyRange, limit: number, bytesMax: number): KeyedPage {
    const rows: KeyedRow[] = [];
    let bytes = 0;
    const place = this.#lowerBound(from);
    for (; rows.length < limit && this.#isBefore(place, to); this.#step(place)) {
      const row = this.#runs[place.run].get(place.row);
      bytes += row.length;
      if (bytes > bytesMax && rows.length > 0) break;
      rows.push(row);
    }
    return { rows, hasNext: this.#isBefore(place, to) };
  }

  /** How many rows `remove` would remove. */
  countIn({ from, to }: KeyRange, limit: number): number {
    let count = 0;
    for (const place = this.#lowerBound(from); count < limit && this.#isBefore(place, to); this.#step(place)) count++;
    return count;
  }

  /** Removes the first `limit` rows of a range; returns how many there were. */
  remove({ from, to }: KeyRange, limit: number): number {
    let left = limit;
    const start = this.#lowerBound(from);
    let number = start.run;
    let first = start.row;
    for (let run = this.#runs[number]; left > 0 && run !== undefined; run = this.#runs[number]) {
      let end = to === null ? run.count : run.lowerBound(to);
      end = Math.min(end, first + left);
      if (end <= first) break;
      for (let row = first; row < end; row++) this.valueBytes -= run.words[row * 2];
      left -= end - first;
      const isWhole = end === run.count;
      if (end - first === run.count) this.#runs.splice(number, 1);
      else {
        run.remove(first, end);
        number++;
      }
      first = 0;
      if (!isWhole) break;
    }
    this.count -= limit - left;
    return limit - left;
  }

  /** The row of a key; null when there is none. */
  find(key: Uint8Array): KeyedRow | null {
    const { run, row } = this.#lowerBound(key);
    const found = this.#runs[run];
    return found !== undefined && compareBytes(found.key(row), key) === 0 ? found.get(row) : null;
  }
}
