/**
 * One sidecar that is in use: its sections' places and its fences in memory, its rows read page by page.
 *
 * A fence is the first row of a page; with the fences in memory each question reads one page. They take 0.14 bytes per
 * block and 0.1 bytes per id.
 */
import { readU64 } from '../codec/format.ts';
import type { BlockLocation, FoundId, LogAddress } from '../ports/mod.ts';
import { isRelocatedPid, originalPid } from './sidecar-columns.ts';
import {
  blockRow,
  idRow,
  page,
  readSidecarHeader,
  type SectionName,
  SidecarDamage,
  type SidecarFacts,
  type SidecarPlan,
  sidecarPlan,
} from './sidecar-format.ts';
import type { SidecarFile, SidecarPage, SidecarPages } from './sidecar-pages.ts';

/** Where an offset lies as seen from one segment. `absent`: the partition has no block in it, or the file was retired. */
export type OffsetPlace = 'here' | 'before' | 'behind' | 'absent';

/** Takes blocks that were found, and blocks that follow them in the same partition and page. */
export interface BlockSink {
  take(pid: number, firstOffset: number, count: number, stampUs: number, address: LogAddress, length: number): void;
}

/** A block as its sidecar lists it. */
export interface ListedBlock extends BlockLocation {
  pid: number;
  /** A copy, made when its first segment was reclaimed. */
  relocated: boolean;
}

/** Pages of blocks that are visited between two pauses: about 0.5 ms. */
const pagesPerVisit = 32;

/** Following blocks of the partition that are handed out with one that was found: a consumer will ask for them next. */
const followersMax = 30;

export class Sidecar {
  readonly facts: SidecarFacts;
  readonly maxStampUs: number;
  private readonly pages: SidecarPages;
  private readonly file: SidecarFile;
  private readonly plan: SidecarPlan;
  private readonly blockFencePids: Float64Array;
  private readonly blockFenceOffsets: Float64Array;
  private readonly idFencePids: Float64Array;
  private readonly idFenceHighs: Uint32Array;
  private readonly idFenceLows: Uint32Array;
  private blocksAreGone = false;

  private constructor(pages: SidecarPages, file: SidecarFile, facts: SidecarFacts, plan: SidecarPlan) {
    this.pages = pages;
    this.file = file;
    this.facts = facts;
    this.plan = plan;
    this.maxStampUs = facts.maxStampUs;
    this.blockFencePids = new Float64Array(plan.blockFences.rows);
    this.blockFenceOffsets = new Float64Array(plan.blockFences.rows);
    this.idFencePids = new Float64Array(plan.idFences.rows);
    this.idFenceHighs = new Uint32Array(plan.idFences.rows);
    this.idFenceLows = new Uint32Array(plan.idFences.rows);
  }

  /**
   * Opens the sidecar of the segment at `base` and reads what stays in memory.
   * Rejects with SidecarDamage, with code ENOENT when there is no file, or with another error of the disk.
   */
  static async open(pages: SidecarPages, base: LogAddress): Promise<Sidecar> {
    const file = pages.file(base);
    try {
      let facts: SidecarFacts | undefined;
      await pages.scan(file, 0, 1, (view) => {
        facts = readSidecarHeader(view, base);
      });
      const plan = sidecarPlan(facts!.counts);
      const size = await pages.size(file);
      if (size !== plan.pages * page.bytes) {
        throw new SidecarDamage(base, `it has ${size} bytes, its header announces ${plan.pages * page.bytes}`);
      }
      if (plan.blockFences.rows !== plan.blocks.pages || plan.idFences.rows !== plan.ids.pages) {
        throw new SidecarDamage(base, 'its sections do not fit each other');
      }
      const sidecar = new Sidecar(pages, file, facts!, plan);
      await sidecar.readFences();
      return sidecar;
    } catch (error) {
      await pages.retire(file);
      throw error;
    }
  }

  get base(): LogAddress {
    return this.facts.base;
  }

  /** Bytes of the fences. */
  get bytes(): number {
    return (
      this.blockFencePids.byteLength +
      this.blockFenceOffsets.byteLength +
      this.idFencePids.byteLength +
      this.idFenceHighs.byteLength +
      this.idFenceLows.byteLength
    );
  }

  /** The keys of its partitions, ascending, each once. Rejects as `SidecarPages.read` does, like all methods below. */
  readPidKeys(): Promise<Uint32Array<ArrayBuffer>> {
    return this.readKeys('pidKeys');
  }

  readIdKeys(): Promise<Uint32Array<ArrayBuffer>> {
    return this.readKeys('idKeys');
  }

  /** Looks for the block of the partition that holds `offset`. Hands it, when it is here, to `sink`. */
  async findBlock(pid: number, offset: number, sink: BlockSink): Promise<OffsetPlace> {
    const fence = lastFence(this.blockFencePids, (i) => this.blockFenceOffsets[i] <= offset, pid);
    if (fence < 0) return this.blockFencePids[0] === pid ? 'before' : 'absent';
    const found = await this.readPage('blocks', fence);
    if (found === undefined || this.blocksAreGone) return 'absent';
    const rows = this.rowsOn('blocks', fence);
    // The last row at or before (pid, offset). The page's first row is one.
    let low = 0;
    let high = rows;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      const at = middle * this.plan.blocks.rowBytes;
      const rowPid = readU64(found.view, at + blockRow.pidAt);
      if (rowPid < pid || (rowPid === pid && readU64(found.view, at + blockRow.firstOffsetAt) <= offset)) low = middle;
      else high = middle;
    }
    const at = low * this.plan.blocks.rowBytes;
    if (readU64(found.view, at + blockRow.pidAt) !== pid) {
      const next =
        low + 1 < rows
          ? readU64(found.view, at + this.plan.blocks.rowBytes + blockRow.pidAt)
          : this.blockFencePids[fence + 1];
      return next === pid ? 'before' : 'absent';
    }
    const firstOffset = readU64(found.view, at + blockRow.firstOffsetAt);
    if (offset >= firstOffset + found.view.getUint32(at + blockRow.countAt, true)) return 'behind';
    this.handOut(found, pid, low, Math.min(rows, low + 1 + followersMax), sink);
    return 'here';
  }

  /** Hands the partition's first block with a stamp ≥ stampUs to `sink`; false when there is none here. */
  async findByTime(pid: number, stampUs: number, sink: BlockSink): Promise<boolean> {
    // The block is on a page between the last one that begins below the pid and the last one that begins with it.
    let low = Math.max(
      0,
      lastFence(this.blockFencePids, () => false, pid),
    );
    const end = lastFence(this.blockFencePids, () => true, pid) + 1;
    let high = end;
    // Narrow to the first page whose last row is not before (pid, stampUs).
    while (low < high) {
      const middle = (low + high) >>> 1;
      const found = await this.readPage('blocks', middle);
      if (found === undefined) return false;
      const last = this.rowsOn('blocks', middle) - 1;
      if (this.isBeforeTime(found, last, pid, stampUs)) low = middle + 1;
      else high = middle;
    }
    if (low === end) return false;
    const found = await this.readPage('blocks', low);
    if (found === undefined || this.blocksAreGone) return false;
    const rows = this.rowsOn('blocks', low);
    let row = 0;
    let rowEnd = rows;
    while (row < rowEnd) {
      const middle = (row + rowEnd) >>> 1;
      if (this.isBeforeTime(found, middle, pid, stampUs)) row = middle + 1;
      else rowEnd = middle;
    }
    if (row === rows || readU64(found.view, row * this.plan.blocks.rowBytes + blockRow.pidAt) !== pid) return false;
    this.handOut(found, pid, row, Math.min(rows, row + 1 + followersMax), sink);
    return true;
  }

  /** The newest record of the partition with this id in this segment. */
  async findId(pid: number, hashHigh: number, hashLow: number): Promise<FoundId | undefined> {
    const fence = lastFence(
      this.idFencePids,
      (i) => this.idFenceHighs[i] < hashHigh || (this.idFenceHighs[i] === hashHigh && this.idFenceLows[i] <= hashLow),
      pid,
    );
    if (fence < 0) return undefined;
    const found = await this.readPage('ids', fence);
    if (found === undefined) return undefined;
    const { rowBytes } = this.plan.ids;
    let low = 0;
    let high = this.rowsOn('ids', fence);
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (compareId(found.view, middle * rowBytes, pid, hashHigh, hashLow) <= 0) low = middle;
      else high = middle;
    }
    const at = low * rowBytes;
    if (compareId(found.view, at, pid, hashHigh, hashLow) !== 0) return undefined;
    const block = found.view.getUint32(at + idRow.blockAt, true);
    const index = found.view.getUint32(at + idRow.indexAt, true);
    const { rowsPerPage } = this.plan.blocks;
    const blocks = await this.readPage('blocks', Math.floor(block / rowsPerPage));
    if (blocks === undefined) return undefined;
    const blockAt = (block % rowsPerPage) * this.plan.blocks.rowBytes;
    return {
      offset: readU64(blocks.view, blockAt + blockRow.firstOffsetAt) + index,
      stampUs: readU64(blocks.view, blockAt + blockRow.stampAt),
      index,
    };
  }

  /** Visits all blocks in the order of the file; `pause` is awaited between some of the pages. */
  async visitBlocks(visit: (listed: ListedBlock) => void, pause: () => Promise<void>): Promise<void> {
    const { firstPage, pages, rows, rowsPerPage, rowBytes } = this.plan.blocks;
    const listed = {
      pid: 0,
      relocated: false,
      address: 0,
      length: 0,
      firstOffset: 0,
      stampUs: 0,
      count: 0,
    };
    for (let from = 0; from < pages; from += pagesPerVisit) {
      if (from > 0) await pause();
      await this.pages.scan(
        this.file,
        firstPage + from,
        Math.min(pagesPerVisit, pages - from),
        (view, start, number) => {
          const row = (number - firstPage) * rowsPerPage;
          const to = Math.min(rows, row + rowsPerPage);
          for (let i = row, at = start; i < to; i++, at += rowBytes) {
            const pid = readU64(view, at + blockRow.pidAt);
            listed.pid = originalPid(pid);
            listed.relocated = isRelocatedPid(pid);
            listed.address = this.base + view.getUint32(at + blockRow.distanceAt, true);
            listed.length = view.getUint32(at + blockRow.lengthAt, true);
            listed.firstOffset = readU64(view, at + blockRow.firstOffsetAt);
            listed.stampUs = readU64(view, at + blockRow.stampAt);
            listed.count = view.getUint32(at + blockRow.countAt, true);
            visit(listed);
          }
        },
      );
    }
  }

  /** From now on no block is found, also not by questions under way. Ids are. */
  dropBlocks(): void {
    this.blocksAreGone = true;
  }

  /** Ends the use of the file; questions under way answer as if it held nothing. */
  retire(): Promise<void> {
    return this.pages.retire(this.file);
  }

  private async readFences(): Promise<void> {
    await this.scanRows('blockFences', (view, at, i) => {
      this.blockFencePids[i] = readU64(view, at);
      this.blockFenceOffsets[i] = readU64(view, at + 8);
    });
    await this.scanRows('idFences', (view, at, i) => {
      this.idFencePids[i] = readU64(view, at);
      this.idFenceHighs[i] = view.getUint32(at + 8, true);
      this.idFenceLows[i] = view.getUint32(at + 12, true);
    });
  }

  private async readKeys(name: 'pidKeys' | 'idKeys'): Promise<Uint32Array<ArrayBuffer>> {
    const keys = new Uint32Array(this.plan[name].rows);
    await this.scanRows(name, (view, at, i) => {
      keys[i] = view.getUint32(at, true);
    });
    return keys;
  }

  private scanRows(name: SectionName, visit: (view: DataView, at: number, row: number) => void): Promise<void> {
    const { firstPage, pages, rows, rowsPerPage, rowBytes } = this.plan[name];
    return this.pages.scan(this.file, firstPage, pages, (view, start, number) => {
      const from = (number - firstPage) * rowsPerPage;
      const to = Math.min(rows, from + rowsPerPage);
      for (let i = from, at = start; i < to; i++, at += rowBytes) visit(view, at, i);
    });
  }

  private readPage(name: 'blocks' | 'ids', index: number): SidecarPage | Promise<SidecarPage | undefined> {
    const number = this.plan[name].firstPage + index;
    return this.pages.cached(this.file, number) ?? this.pages.read(this.file, number);
  }

  /** Rows on page `index` of a section. */
  private rowsOn(name: 'blocks' | 'ids', index: number): number {
    const { rows, rowsPerPage } = this.plan[name];
    return Math.min(rowsPerPage, rows - index * rowsPerPage);
  }

  /** True when the row is of a lower pid, or of the pid and older than stampUs. */
  private isBeforeTime(found: SidecarPage, row: number, pid: number, stampUs: number): boolean {
    const at = row * this.plan.blocks.rowBytes;
    const rowPid = readU64(found.view, at + blockRow.pidAt);
    return rowPid < pid || (rowPid === pid && readU64(found.view, at + blockRow.stampAt) < stampUs);
  }

  private handOut(found: SidecarPage, pid: number, from: number, to: number, sink: BlockSink): void {
    const { view } = found;
    for (let row = from; row < to; row++) {
      const at = row * this.plan.blocks.rowBytes;
      if (readU64(view, at + blockRow.pidAt) !== pid) return;
      sink.take(
        pid,
        readU64(view, at + blockRow.firstOffsetAt),
        view.getUint32(at + blockRow.countAt, true),
        readU64(view, at + blockRow.stampAt),
        this.base + view.getUint32(at + blockRow.distanceAt, true),
        view.getUint32(at + blockRow.lengthAt, true),
      );
    }
  }
}

/**
 * The last fence at or before (pid, rest); −1 when there is none. `restAtMost(i)` tells whether the rest of fence i,
 * whose pid is the one that is asked for, is at or before what is asked for.
 */
function lastFence(fencePids: Float64Array, restAtMost: (i: number) => boolean, pid: number): number {
  let low = 0;
  let high = fencePids.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const fencePid = fencePids[middle];
    if (fencePid < pid || (fencePid === pid && restAtMost(middle))) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function compareId(view: DataView, at: number, pid: number, hashHigh: number, hashLow: number): number {
  const rowPid = readU64(view, at + idRow.pidAt);
  if (rowPid !== pid) return rowPid < pid ? -1 : 1;
  const high = view.getUint32(at + idRow.hashHighAt, true);
  if (high !== hashHigh) return high < hashHigh ? -1 : 1;
  const low = view.getUint32(at + idRow.hashLowAt, true);
  return low === hashLow ? 0 : low < hashLow ? -1 : 1;
}
