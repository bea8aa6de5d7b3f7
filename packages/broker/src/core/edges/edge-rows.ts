/**
 * The index rows of one source of an edge table, sorted by (index value, target).
 *
 * Sorted runs of up to 512 rows in typed arrays: nothing per row for the garbage collector. An insert moves rows of one
 * run; removing everything up to a value drops whole runs and leaves nothing behind, so that a source that was emptied a
 * million times is read like a new one.
 *
 *   row = 8 words   0 high half of the value (sign bit flipped, so that halves compare as unsigned numbers) | 1 low half
 *                   | 2 … 5 target, 128 bits | 6 bytes of the stored value | 7 checksum of the stored value
 *       + 2 numbers 0 log address of the stored value | 1 how many rows the table had taken in when it was added
 */
import { grownFloat64, grownUint32 } from '../columns.ts';

export const edgeRow = {
  words: 8,
  numbers: 2,
  seqHighAt: 0,
  seqLowAt: 1,
  targetAt: 2,
  lengthAt: 6,
  checksumAt: 7,
  addressAt: 0,
  appendedAt: 1,
} as const;

const runRowsMax = 512;
const runRowsAtFirst = 8;

class Run {
  words: Uint32Array<ArrayBuffer>;
  numbers: Float64Array<ArrayBuffer>;
  /** Rows [start, end) are in use. */
  start = 0;
  end = 0;

  constructor(rows: number) {
    this.words = new Uint32Array(rows * edgeRow.words);
    this.numbers = new Float64Array(rows * edgeRow.numbers);
  }

  get capacity(): number {
    return this.numbers.length / edgeRow.numbers;
  }

  grow(): void {
    const rows = Math.min(runRowsMax, this.capacity * 2);
    this.words = grownUint32(this.words, rows * edgeRow.words);
    this.numbers = grownFloat64(this.numbers, rows * edgeRow.numbers);
  }

  move(to: number, from: number, end: number): void {
    this.words.copyWithin(to * edgeRow.words, from * edgeRow.words, end * edgeRow.words);
    this.numbers.copyWithin(to * edgeRow.numbers, from * edgeRow.numbers, end * edgeRow.numbers);
  }

  take(other: Run, from: number, end: number): void {
    const { words, numbers } = edgeRow;
    this.words.set(other.words.subarray(from * words, end * words), this.end * words);
    this.numbers.set(other.numbers.subarray(from * numbers, end * numbers), this.end * numbers);
    this.end += end - from;
  }
}

/** Rows that were copied out of a source, in order; the caller's own. */
export interface EdgePage {
  readonly count: number;
  readonly words: Uint32Array;
  readonly numbers: Float64Array;
  readonly hasNext: boolean;
}

/** A bound in the order of rows; without a target it stands for all rows of its value. */
export interface EdgeBound {
  readonly high: number;
  readonly low: number;
  /** 4 words. */
  readonly target: Uint32Array | null;
}

export interface EdgeRange {
  /** Exclusive; null = from the beginning. */
  readonly after: EdgeBound | null;
  /** Inclusive; null = to the end. */
  readonly until: EdgeBound | null;
}

/** A place between two rows. */
interface Place {
  run: number;
  row: number;
}

export class EdgeRows {
  #runs: Run[] = [];
  count = 0;
  /** Bytes of the stored values. */
  valueBytes = 0;

  /** Adds a row behind all that have the same value: its target must be greater than theirs. */
  add(words: Uint32Array, numbers: Float64Array): void {
    const high = words[edgeRow.seqHighAt];
    const low = words[edgeRow.seqLowAt];
    let number = this.#runAfter(high, low, null);
    if (number > 0) number--;
    let run = this.#runs[number];
    if (run === undefined) {
      run = new Run(runRowsAtFirst);
      this.#runs.push(run);
    }
    let at = firstAfter(run, high, low, null);
    if (run.end === run.capacity) {
      if (run.start > 0) {
        run.move(0, run.start, run.end);
        at -= run.start;
        run.end -= run.start;
        run.start = 0;
      } else if (run.capacity < runRowsMax) run.grow();
      else {
        // Values that rise leave full runs behind; all others split theirs in the middle.
        const isLast = at === run.end && number === this.#runs.length - 1;
        const cut = isLast ? run.end : run.end >>> 1;
        const next = new Run(isLast ? runRowsAtFirst : runRowsMax);
        next.take(run, cut, run.end);
        run.end = cut;
        this.#runs.splice(number + 1, 0, next);
        if (isLast || at > cut) {
          at -= cut;
          run = next;
        }
      }
    }
    run.move(at + 1, at, run.end);
    run.words.set(words, at * edgeRow.words);
    run.numbers.set(numbers, at * edgeRow.numbers);
    run.end++;
    this.count++;
    this.valueBytes += words[edgeRow.lengthAt];
  }

  /** Number of runs whose first row is at or below the bound. */
  #runAfter(high: number, low: number, target: Uint32Array | null): number {
    let from = 0;
    let to = this.#runs.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      const run = this.#runs[middle];
      if (isAfter(run, run.start, high, low, target)) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  /** The place of the first row behind the bound; null = the first row. */
  #placeAfter(bound: EdgeBound | null): Place {
    if (bound === null) return { run: 0, row: this.#runs[0]?.start ?? 0 };
    const { high, low, target } = bound;
    const number = this.#runAfter(high, low, target);
    if (number === 0) return { run: 0, row: this.#runs[0]?.start ?? 0 };
    const run = this.#runs[number - 1];
    const row = firstAfter(run, high, low, target);
    if (row < run.end) return { run: number - 1, row };
    return { run: number, row: this.#runs[number]?.start ?? 0 };
  }

  #isEnd(place: Place): boolean {
    return place.run >= this.#runs.length;
  }

  #step(place: Place): void {
    if (++place.row < this.#runs[place.run].end) return;
    place.run++;
    place.row = this.#runs[place.run]?.start ?? 0;
  }

  #isIn(place: Place, { until }: EdgeRange): boolean {
    if (this.#isEnd(place)) return false;
    return until === null || !isAfter(this.#runs[place.run], place.row, until.high, until.low, until.target);
  }

  /**
   * A page that never splits rows of one value: it ends before a value whose rows do not all fit, and is longer than
   * `limit` only when all of it has one value. Null when that one value has more than `runMax` rows or `bytesMax` bytes.
   */
  page(range: EdgeRange, limit: number, runMax: number, bytesMax: number): EdgePage | null {
    const start = this.#placeAfter(range.after);
    const place = { ...start };
    let count = 0;
    /** Rows before the newest change of value, and bytes. */
    let whole = 0;
    let bytes = 0;
    let previousHigh = -1;
    let previousLow = -1;
    for (; this.#isIn(place, range); this.#step(place)) {
      const run = this.#runs[place.run];
      const w = place.row * edgeRow.words;
      const high = run.words[w];
      const low = run.words[w + 1];
      if (count > 0 && (high !== previousHigh || low !== previousLow)) {
        whole = count;
        if (count >= limit) break;
      }
      if (count >= limit && whole > 0) break;
      if (count >= runMax && whole === 0) return null;
      bytes += run.words[w + edgeRow.lengthAt];
      // The first value is delivered whole; what follows it only as long as there is room.
      if (bytes > bytesMax) {
        if (whole === 0 && count > 0) return null;
        if (whole > 0) break;
      }
      previousHigh = high;
      previousLow = low;
      count++;
    }
    const ended = !this.#isIn(place, range);
    return this.#copy(start, ended ? count : whole, !ended);
  }

  /** A page of up to `limit` rows, whatever their values, and `bytesMax` bytes, but at least one row. */
  compoundPage(range: EdgeRange, limit: number, bytesMax: number): EdgePage {
    const start = this.#placeAfter(range.after);
    const place = { ...start };
    let count = 0;
    let bytes = 0;
    for (; count < limit && this.#isIn(place, range); this.#step(place)) {
      bytes += this.#runs[place.run].words[place.row * edgeRow.words + edgeRow.lengthAt];
      if (bytes > bytesMax && count > 0) break;
      count++;
    }
    return this.#copy(start, count, this.#isIn(place, range));
  }

  /** The first row in a range, copied; null when there is none. */
  first(range: EdgeRange): EdgePage | null {
    const place = this.#placeAfter(range.after);
    return this.#isIn(place, range) ? this.#copy(place, 1, false) : null;
  }

  /** The last row, copied; null when there is none. */
  last(): EdgePage | null {
    const run = this.#runs.length - 1;
    return run < 0 ? null : this.#copy({ run, row: this.#runs[run].end - 1 }, 1, false);
  }

  #copy(start: Place, count: number, hasNext: boolean): EdgePage {
    const words = new Uint32Array(count * edgeRow.words);
    const numbers = new Float64Array(count * edgeRow.numbers);
    const place = { ...start };
    let done = 0;
    while (done < count) {
      const run = this.#runs[place.run];
      const end = Math.min(run.end, place.row + count - done);
      words.set(run.words.subarray(place.row * edgeRow.words, end * edgeRow.words), done * edgeRow.words);
      numbers.set(run.numbers.subarray(place.row * edgeRow.numbers, end * edgeRow.numbers), done * edgeRow.numbers);
      done += end - place.row;
      place.run++;
      place.row = this.#runs[place.run]?.start ?? 0;
    }
    return { count, words, numbers, hasNext };
  }

  /** Removes the rows up to and including a bound that were added at or before `watermark`; returns how many. */
  removeThrough(bound: EdgeBound, watermark: number): number {
    const before = this.count;
    const place = this.#placeAfter(bound);
    const kept: Run[] = [];
    for (let i = 0; i < place.run; i++) {
      const run = this.#runs[i];
      if (!this.#keepLater(run, run.end, watermark)) continue;
      // What is left of many runs is put together, or each would go on taking the memory of a full one.
      const last = kept[kept.length - 1];
      if (last !== undefined && last.end + run.end - run.start <= last.capacity) last.take(run, run.start, run.end);
      else {
        run.move(0, run.start, run.end);
        run.end -= run.start;
        run.start = 0;
        kept.push(run);
      }
    }
    const partial = this.#runs[place.run];
    if (partial !== undefined && place.row > partial.start) this.#keepLater(partial, place.row, watermark);
    this.#runs.splice(0, place.run, ...kept);
    return before - this.count;
  }

  /** How many rows `removeThrough` would remove. */
  countThrough(bound: EdgeBound, watermark: number): number {
    const place = this.#placeAfter(bound);
    let count = 0;
    for (let i = 0; i <= place.run && i < this.#runs.length; i++) {
      const run = this.#runs[i];
      const end = i < place.run ? run.end : place.row;
      if (watermark === Number.POSITIVE_INFINITY) count += end - run.start;
      else for (let row = run.start; row < end; row++) if (appendedOf(run, row) <= watermark) count++;
    }
    return count;
  }

  /** Of rows [start, end) only those added after the watermark stay, moved up to what follows. True when rows are left. */
  #keepLater(run: Run, end: number, watermark: number): boolean {
    for (let row = run.start; row < end; row++) this.valueBytes -= run.words[row * edgeRow.words + edgeRow.lengthAt];
    let to = end;
    if (watermark !== Number.POSITIVE_INFINITY) {
      for (let row = end - 1; row >= run.start; row--) {
        if (appendedOf(run, row) <= watermark) continue;
        to--;
        if (to !== row) run.move(to, row, row + 1);
      }
    }
    for (let row = to; row < end; row++) this.valueBytes += run.words[row * edgeRow.words + edgeRow.lengthAt];
    this.count -= to - run.start;
    run.start = to;
    return run.start < run.end;
  }

  /** Visits up to `limit` rows behind a bound, in order; returns the bound behind the last of them, null at the end. */
  visit(
    after: EdgeBound | null,
    limit: number,
    row: (words: Uint32Array, wordAt: number, numbers: Float64Array, numberAt: number) => void,
  ): EdgeBound | null {
    const place = this.#placeAfter(after);
    for (let left = limit; !this.#isEnd(place); this.#step(place)) {
      const run = this.#runs[place.run];
      const w = place.row * edgeRow.words;
      row(run.words, w, run.numbers, place.row * edgeRow.numbers);
      if (--left > 0) continue;
      const target = run.words.slice(w + edgeRow.targetAt, w + edgeRow.targetAt + 4);
      return { high: run.words[w], low: run.words[w + 1], target };
    }
    return null;
  }

  /** Log address of the value of a row; -1 when there is no such row. */
  addressOf(bound: EdgeBound): number {
    const place = this.#find(bound);
    return place === null ? -1 : this.#runs[place.run].numbers[place.row * edgeRow.numbers + edgeRow.addressAt];
  }

  /** The value of a row lies elsewhere from now on; false when there is no such row. */
  moveValue(bound: EdgeBound, address: number): boolean {
    const place = this.#find(bound);
    if (place === null) return false;
    this.#runs[place.run].numbers[place.row * edgeRow.numbers + edgeRow.addressAt] = address;
    return true;
  }

  /** The place of a row; null when there is no such row. */
  #find({ high, low, target }: EdgeBound): Place | null {
    const number = this.#runAfter(high, low, target) - 1;
    if (number < 0 || target === null) return null;
    const run = this.#runs[number];
    const row = firstAfter(run, high, low, target) - 1;
    const w = row * edgeRow.words;
    if (row < run.start || run.words[w] !== high || run.words[w + 1] !== low) return null;
    return compareTarget(run, row, target) === 0 ? { run: number, row } : null;
  }
}

function appendedOf(run: Run, row: number): number {
  return run.numbers[row * edgeRow.numbers + edgeRow.appendedAt];
}

function compareTarget(run: Run, row: number, target: Uint32Array): number {
  const w = row * edgeRow.words + edgeRow.targetAt;
  for (let i = 0; i < 4; i++) if (run.words[w + i] !== target[i]) return run.words[w + i] < target[i] ? -1 : 1;
  return 0;
}

function isAfter(run: Run, row: number, high: number, low: number, target: Uint32Array | null): boolean {
  const w = row * edgeRow.words;
  if (run.words[w] !== high) return run.words[w] > high;
  if (run.words[w + 1] !== low) return run.words[w + 1] > low;
  return target !== null && compareTarget(run, row, target) > 0;
}

/** First row of the run behind the bound, or its end. */
function firstAfter(run: Run, high: number, low: number, target: Uint32Array | null): number {
  let from = run.start;
  let to = run.end;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (isAfter(run, middle, high, low, target)) to = middle;
    else from = middle + 1;
  }
  return from;
}
