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

/** A place between two rows. */
interface Place {
  run: number;
  row: number;
}

export class EdgeRows {
  #runs: Run[] = [];
  count = 0;

  /** Adds a row behind all that have the same value: its target must be greater than theirs. */
  add(words: Uint32Array, numbers: Float64Array): void {
    const high = words[edgeRow.seqHighAt];
    const low = words[edgeRow.seqLowAt];
    let number = this.#runAfter(high, low);
    if (number > 0) number--;
    let run = this.#runs[number];
    if (run === undefined) {
      run = new Run(runRowsAtFirst);
      this.#runs.push(run);
    }
    let at = firstAfter(run, high, low);
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
  }

  /** Number of runs whose first row is at or below the value. */
  #runAfter(high: number, low: number): number {
    let from = 0;
    let to = this.#runs.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      const run = this.#runs[middle];
      if (isAfter(run, run.start, high, low)) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  /** The place of the first row with a greater value. */
  #placeAfter(high: number, low: number): Place {
    const number = this.#runAfter(high, low);
    if (number === 0) return { run: 0, row: this.#runs[0]?.start ?? 0 };
    const run = this.#runs[number - 1];
    const row = firstAfter(run, high, low);
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

  /**
   * A page that never splits rows of one value: it ends before a value whose rows do not all fit, and is longer than
   * `limit` only when all of it has one value. Null when that one value has more than `runMax` rows or `runBytesMax` bytes.
   * Halves as in a row; `after` is exclusive, `until` inclusive, null = unbounded.
   */
  page(
    after: readonly [number, number] | null,
    until: readonly [number, number] | null,
    limit: number,
    runMax: number,
    runBytesMax: number,
  ): EdgePage | null {
    const start: Place =
      after === null ? { run: 0, row: this.#runs[0]?.start ?? 0 } : this.#placeAfter(after[0], after[1]);
    const inRange = (place: Place): boolean =>
      !this.#isEnd(place) && (until === null || !isAfter(this.#runs[place.run], place.row, until[0], until[1]));
    const place = { ...start };
    let count = 0;
    /** Rows before the newest change of value, and bytes. */
    let whole = 0;
    let bytes = 0;
    let previousHigh = -1;
    let previousLow = -1;
    for (; inRange(place); this.#step(place)) {
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
      if (bytes > runBytesMax) {
        if (whole === 0 && count > 0) return null;
        if (whole > 0) break;
      }
      previousHigh = high;
      previousLow = low;
      count++;
    }
    const ended = !inRange(place);
    return this.#copy(start, ended ? count : whole, !ended);
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

  /** True when a row has this value or a smaller one. */
  hasThrough(high: number, low: number): boolean {
    const first = this.#runs[0];
    return first !== undefined && !isAfter(first, first.start, high, low);
  }

  /** Removes the rows up to and including a value that were added at or before `watermark`; returns how many. */
  removeThrough(high: number, low: number, watermark: number): number {
    const before = this.count;
    const place = this.#placeAfter(high, low);
    const kept: Run[] = [];
    for (let i = 0; i < place.run; i++) {
      const run = this.#runs[i];
      const left = this.#keepLater(run, run.end, watermark);
      if (left) kept.push(run);
    }
    const partial = this.#runs[place.run];
    if (partial !== undefined && place.row > partial.start) this.#keepLater(partial, place.row, watermark);
    this.#runs.splice(0, place.run, ...kept);
    return before - this.count;
  }

  /** Of rows [start, end) only those added after the watermark stay, moved up to what follows. True when rows are left. */
  #keepLater(run: Run, end: number, watermark: number): boolean {
    let to = end;
    if (watermark !== Number.POSITIVE_INFINITY) {
      for (let row = end - 1; row >= run.start; row--) {
        if (run.numbers[row * edgeRow.numbers + edgeRow.appendedAt] <= watermark) continue;
        to--;
        if (to !== row) run.move(to, row, row + 1);
      }
    }
    this.count -= to - run.start;
    run.start = to;
    return run.start < run.end;
  }

  /** Visits all rows in order. */
  visit(row: (words: Uint32Array, wordAt: number, numbers: Float64Array, numberAt: number) => void): void {
    for (const run of this.#runs) {
      for (let i = run.start; i < run.end; i++) row(run.words, i * edgeRow.words, run.numbers, i * edgeRow.numbers);
    }
  }
}

function isAfter(run: Run, row: number, high: number, low: number): boolean {
  const w = row * edgeRow.words;
  return run.words[w] > high || (run.words[w] === high && run.words[w + 1] > low);
}

/** First row of the run with a greater value, or its end. */
function firstAfter(run: Run, high: number, low: number): number {
  let from = run.start;
  let to = run.end;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (isAfter(run, middle, high, low)) to = middle;
    else from = middle + 1;
  }
  return from;
}
