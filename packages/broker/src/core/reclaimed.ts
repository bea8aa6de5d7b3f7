/**
 * Which parts of the log were given up: ranges of addresses, each one or more whole segments. Their files may be missing;
 * a file that is missing anywhere else is damage.
 */
import { assert } from './assert.ts';

/** One range of log addresses; `end` is behind its last byte. */
export interface LogRange {
  readonly base: number;
  readonly end: number;
}

export class ReclaimedRanges {
  /** Ascending; neighbours are joined. */
  #ranges: LogRange[] = [];

  all(): readonly LogRange[] {
    return this.#ranges;
  }

  /** Adds a range that does not overlap any that is there. */
  add({ base, end }: LogRange): void {
    assert(base < end, 'a reclaimed range is not empty');
    const index = this.#ranges.findIndex((range) => range.base >= base);
    const at = index < 0 ? this.#ranges.length : index;
    const before = this.#ranges[at - 1];
    const after = this.#ranges[at];
    assert(before === undefined || before.end <= base, 'a segment is reclaimed once');
    assert(after === undefined || after.base >= end, 'a segment is reclaimed once');
    const joinsBefore = before !== undefined && before.end === base;
    const joinsAfter = after !== undefined && after.base === end;
    this.#ranges.splice(joinsBefore ? at - 1 : at, (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), {
      base: joinsBefore ? before.base : base,
      end: joinsAfter ? after.end : end,
    });
  }

  /** True when the byte at `address` was given up. */
  holds(address: number): boolean {
    return this.#ranges.some((range) => range.base <= address && address < range.end);
  }

  /** The range that holds the byte before `address`; undefined when none does. */
  before(address: number): LogRange | undefined {
    return this.#ranges.find((range) => range.base < address && address <= range.end);
  }
}
