/**
 * The blocks of the newest segments, in memory: 48 bytes each.
 *
 * Rows are numbered in log order and stand in pages of 4,096 rows, so that growing never copies and old rows leave from
 * the front, page by page. A row is written as six neighbouring 8-byte cells, not as six columns: a look-up touches one
 * place in memory instead of six.
 *
 *   f64 pid | f64 firstOffset | f64 stampUs | f64 address
 *   | u32 length (27 bits) and rank (5 bits) | u32 ordinal | u32 previous | u32 jump
 *
 * `previous` is the distance to the row of the same lane before this one; 0 = there is none in memory.
 * `jump` is the distance to a row further back in the lane. The jumps form a skew binary list: a row whose rank is r
 * jumps over 2^r − 1 rows of its lane, and the row before a jump's end always has a jump of its own, so that any row of
 * a lane of n rows is reached in O(log n) steps. 0 = it leads out of the rows that were in memory when it was made.
 * `ordinal` numbers records through all blocks, modulo 2^32: the count of a block is the next row's ordinal minus its own.
 *
 * Row numbers are kept modulo 2^32 and compared with the range of live rows. That a number is stale, or of another
 * partition that had the lane before, shows by the pid: a pid has one lane and a lane's newest row is always known, so a
 * live row with the pid that is asked for is the lane's own.
 */

import { assertStorage } from './index-assert.ts';

const rowsPerPageBits = 12;
const rowsPerPage = 1 << rowsPerPageBits;
const rowMask = rowsPerPage - 1;
/** 8-byte cells per row. */
const cells = 6;
export const rowBytes = cells * 8;
/** 4-byte cells per row, and those used as such. */
const words = 12;
const lengthWord = 8;
const ordinalWord = 9;
const previousWord = 10;
const jumpWord = 11;

const lengthBits = 27;
const lengthMask = (1 << lengthBits) - 1;

const lanesPerPageBits = 16;
const lanesPerPage = 1 << lanesPerPageBits;
const laneMask = lanesPerPage - 1;

/**
 * Pages kept for reuse after their rows have left: 12 MiB, for as many rows as a segment of 64 MiB has when its blocks are
 * small. V8 does not count shared memory, so that pages that are thrown away stay for long.
 */
const sparePagesMax = 64;

/** Longest block record in bytes, exclusive: what 27 bits hold. An append is at most 96 MiB. */
export const blockBytesMax = 1 << lengthBits;

/** Shared, so that a sidecar can be made of it elsewhere. */
interface Page {
  readonly f64: Float64Array<SharedArrayBuffer>;
  readonly u32: Uint32Array<SharedArrayBuffer>;
}

export class BlockRows {
  private pages: Page[] = [];
  private spare: Page[] = [];
  private lanes: Int32Array[] = [];
  /** Number of the first row of `pages[0]`, exact and modulo 2^32. Indexes below are relative to it. */
  private origin: number;
  private originLow: number;
  /** Rows before this index have left. */
  private firstLive = 0;
  private count = 0;
  private nextOrdinal: number;

  /** @param firstRow number of the first row and record; rows near 2^32 must do as well as those near 0. */
  constructor(firstRow = 0) {
    this.origin = firstRow;
    this.originLow = firstRow | 0;
    this.nextOrdinal = firstRow >>> 0;
  }

  /** Rows [0, rows) of pages that another thread fills, to be read by index. @param endOrdinal that of the record behind them. */
  static over(pages: readonly SharedArrayBuffer[], rows: number, endOrdinal: number): BlockRows {
    const blocks = new BlockRows();
    blocks.pages = pages.map(pageOn);
    blocks.count = rows;
    blocks.nextOrdinal = endOrdinal;
    return blocks;
  }

  /** The pages that hold rows [fromRow, toRow) by number, and how many rows of the first come before them. */
  sharedPages(fromRow: number, toRow: number): { pages: SharedArrayBuffer[]; before: number } {
    const first = this.indexOf(fromRow) >>> rowsPerPageBits;
    const end = (this.indexOf(toRow) + rowMask) >>> rowsPerPageBits;
    const pages = this.pages.slice(first, end).map(({ f64 }) => f64.buffer);
    return { pages, before: this.indexOf(fromRow) & rowMask };
  }

  /** Number that the next row gets. Never reused. */
  get nextRow(): number {
    return this.origin + this.count;
  }

  /** Rows in memory. */
  get liveRows(): number {
    return this.count - this.firstLive;
  }

  /** Ordinal of the next record, modulo 2^32. */
  get ordinal(): number {
    return this.nextOrdinal;
  }

  /** Bytes of the pages of rows, spare ones included. */
  get bytes(): number {
    return (this.pages.length + this.spare.length) * rowsPerPage * rowBytes;
  }

  get laneBytes(): number {
    return this.lanes.length * lanesPerPage * 4;
  }

  /** Adds the newest block of a lane. `recordCount` ≥ 1. Its number is what `nextRow` was before. */
  add(
    lane: number,
    pid: number,
    firstOffset: number,
    stampUs: number,
    address: number,
    length: number,
    recordCount: number,
  ): void {
    assertStorage(length < blockBytesMax, 'a block is longer than the index can hold');
    const index = this.count;
    const pageNumber = index >>> rowsPerPageBits;
    if (pageNumber === this.pages.length) this.pages.push(this.spare.pop() ?? emptyPage());
    const page = this.pages[pageNumber];
    const f = (index & rowMask) * cells;
    const w = (index & rowMask) * words;

    const previous = this.lastOf(lane, pid);
    let rank = 1;
    let previousDistance = 0;
    let jumpDistance = 0;
    if (previous >= 0) {
      previousDistance = index - previous;
      const u32 = this.pages[previous >>> rowsPerPageBits].u32;
      const p = (previous & rowMask) * words;
      const over = u32[p + jumpWord];
      const target = over === 0 ? -1 : previous - over;
      const previousRank = u32[p + lengthWord] >>> lengthBits;
      jumpDistance = previousDistance;
      if (target >= this.firstLive) {
        const targetWords = this.pages[target >>> rowsPerPageBits].u32;
        const t = (target & rowMask) * words;
        if (targetWords[t + lengthWord] >>> lengthBits === previousRank) {
          rank = previousRank + 1;
          const further = targetWords[t + jumpWord];
          jumpDistance = further === 0 ? 0 : previousDistance + over + further;
        }
      }
    }
    page.f64[f] = pid;
    page.f64[f + 1] = firstOffset;
    page.f64[f + 2] = stampUs;
    page.f64[f + 3] = address;
    page.u32[w + lengthWord] = (length | (rank << lengthBits)) >>> 0;
    page.u32[w + ordinalWord] = this.nextOrdinal;
    page.u32[w + previousWord] = previousDistance;
    page.u32[w + jumpWord] = jumpDistance;

    this.setLast(lane, index);
    this.nextOrdinal = (this.nextOrdinal + recordCount) >>> 0;
    this.count++;
  }

  /** The lane's rows are of no interest any more. */
  forgetLane(lane: number): void {
    const page = lane >>> lanesPerPageBits;
    // The number before the first live row: no look-up accepts it.
    if (page < this.lanes.length) this.lanes[page][lane & laneMask] = (this.originLow + this.firstLive - 1) | 0;
  }

  /** All rows below number `row` leave. */
  releaseBefore(row: number): void {
    const firstLive = row - this.origin;
    assertStorage(firstLive >= this.firstLive && firstLive <= this.count, 'rows leave in order');
    this.firstLive = firstLive;
    const pageCount = firstLive >>> rowsPerPageBits;
    if (pageCount === 0) return;
    for (const page of this.pages.splice(0, pageCount)) {
      if (this.spare.length < sparePagesMax) this.spare.push(page);
    }
    const rows = pageCount * rowsPerPage;
    this.origin += rows;
    this.originLow = (this.originLow + rows) | 0;
    this.firstLive -= rows;
    this.count -= rows;
  }

  /** Index of the lane's newest row in memory; −1 when it has none. Indexes hold until the next `releaseBefore`. */
  lastOf(lane: number, pid: number): number {
    const lanePage = lane >>> lanesPerPageBits;
    if (lanePage >= this.lanes.length) return -1;
    const index = (this.lanes[lanePage][lane & laneMask] - this.originLow) >>> 0;
    if (index < this.firstLive || index >= this.count) return -1;
    return this.pages[index >>> rowsPerPageBits].f64[(index & rowMask) * cells] === pid ? index : -1;
  }

  /** Index of the lane's last block that begins at or before `offset`; −1 when none in memory does. */
  findByOffset(lane: number, pid: number, offset: number): number {
    let index = this.lastOf(lane, pid);
    while (index >= 0 && this.firstOffsetAt(index) > offset) {
      const jump = this.jumpOf(index);
      index = jump >= 0 && this.firstOffsetAt(jump) > offset ? jump : this.previousOf(index);
    }
    return index;
  }

  /** Index of the lane's first block in memory with a stamp ≥ stampUs; −1 when none has. */
  findByTime(lane: number, pid: number, stampUs: number): number {
    const last = this.lastOf(lane, pid);
    if (last < 0 || this.stampAt(last) < stampUs) return -1;
    // Stamps of a lane rise, so that the row behind the last one that is too old is the one. There is no link forward:
    // walk with the same jumps, but stop one step before.
    let index = last;
    for (;;) {
      const previous = this.previousOf(index);
      if (previous < 0 || this.stampAt(previous) < stampUs) return index;
      const jump = this.jumpOf(index);
      index = jump >= 0 && this.stampAt(jump) >= stampUs ? jump : previous;
    }
  }

  /** Index of the row with number `row`. */
  indexOf(row: number): number {
    return row - this.origin;
  }

  /**
   * Index of the block, among rows [fromRow, toRow) by number, that holds the record `distance` records behind the first
   * record of fromRow. Blocks of a segment tend to be alike: begins where the block would be if they were, and doubles
   * its steps from there.
   */
  findByOrdinal(fromRow: number, toRow: number, distance: number): number {
    const start = fromRow - this.origin;
    const end = toRow - this.origin;
    const first = this.ordinalAt(start);
    const last = (this.ordinalAt(end - 1) - first) >>> 0;
    const guess = start + Math.floor((Math.min(distance, last) / (last + 1)) * (end - start));
    let low = guess;
    let high = guess + 1;
    for (let step = 1; low > start && (this.ordinalAt(low) - first) >>> 0 > distance; step *= 2) {
      high = low;
      low = Math.max(start, low - step);
    }
    for (let step = 1; high < end && (this.ordinalAt(high) - first) >>> 0 <= distance; step *= 2) {
      low = high;
      high = Math.min(end, high + step);
    }
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if ((this.ordinalAt(middle) - first) >>> 0 <= distance) low = middle;
      else high = middle;
    }
    return low;
  }

  pidAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].f64[(index & rowMask) * cells];
  }

  firstOffsetAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].f64[(index & rowMask) * cells + 1];
  }

  stampAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].f64[(index & rowMask) * cells + 2];
  }

  addressAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].f64[(index & rowMask) * cells + 3];
  }

  lengthAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].u32[(index & rowMask) * words + lengthWord] & lengthMask;
  }

  ordinalAt(index: number): number {
    return this.pages[index >>> rowsPerPageBits].u32[(index & rowMask) * words + ordinalWord];
  }

  /** Records in the block. */
  countAt(index: number): number {
    const next = index + 1 === this.count ? this.nextOrdinal : this.ordinalAt(index + 1);
    return (next - this.ordinalAt(index)) >>> 0;
  }

  private previousOf(index: number): number {
    const distance = this.pages[index >>> rowsPerPageBits].u32[(index & rowMask) * words + previousWord];
    const previous = index - distance;
    return distance === 0 || previous < this.firstLive ? -1 : previous;
  }

  private jumpOf(index: number): number {
    const distance = this.pages[index >>> rowsPerPageBits].u32[(index & rowMask) * words + jumpWord];
    const target = index - distance;
    return distance === 0 || target < this.firstLive ? -1 : target;
  }

  private setLast(lane: number, index: number): void {
    const page = lane >>> lanesPerPageBits;
    while (page >= this.lanes.length) this.lanes.push(new Int32Array(lanesPerPage));
    this.lanes[page][lane & laneMask] = (this.originLow + index) | 0;
  }
}

function emptyPage(): Page {
  return pageOn(new SharedArrayBuffer(rowsPerPage * rowBytes));
}

function pageOn(buffer: SharedArrayBuffer): Page {
  return { f64: new Float64Array(buffer), u32: new Uint32Array(buffer) };
}
