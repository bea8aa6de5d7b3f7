/**
 * Parts of the log that are no longer in tail memory, read back from their segments and kept for a while.
 *
 * What is read is an extent: the bytes asked for, widened to whole pages (counted from the segment's first byte) and cut
 * at the segment's ends. Each page remembers the extent that reaches furthest from it; since an extent covers each of its
 * pages from the page's first byte, that one answers every request that starts in the page and could be answered.
 * The least recently used extents go first, but none that was asked for in this turn or the one before. The memory of those
 * of one page, which nearly all are, is used again: a consumer that is far behind reads hundreds of MB per second.
 */
import type { Disk, DiskFile, LogAddress, ResidentBytes } from '../ports/mod.ts';
import { LogDamage } from './log-damage.ts';
import type { LogOptions } from './log-options.ts';
import { type SegmentRange, segmentPath } from './segment-format.ts';

interface Extent {
  readonly start: LogAddress;
  readonly end: LogAddress;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Address of its first page, and of the page behind its last. */
  readonly firstPage: LogAddress;
  readonly pagesEnd: LogAddress;
  usedInTurn: number;
}

/** Of the memory for what was read, this part at most is kept empty, to be used again. */
const spareShare = 8;

/** Memory of one page that is not used. */
interface Spare {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

interface Pending {
  readonly end: LogAddress;
  readonly done: Promise<void>;
}

export class ColdReads {
  readonly #files: OpenSegments;
  readonly #pageBytes: number;
  /** For extents. */
  readonly #budgetBytes: number;
  /** By the address of a page: the extent that reaches furthest from it. */
  readonly #pages = new Map<LogAddress, Extent>();
  /** Least recently used first. */
  readonly #extents = new Set<Extent>();
  readonly #spares: Spare[] = [];
  readonly #sparesMax: number;
  /** By the address of the first page. */
  readonly #pending = new Map<LogAddress, Pending>();
  readonly #found: ResidentBytes;
  /** Of all extents. */
  #heldBytes = 0;
  #turn = 0;
  /** Since the log was opened. */
  reads = 0;
  bytesRead = 0;

  constructor(disk: Disk, options: Pick<LogOptions, 'coldBytes' | 'coldPageBytes' | 'openSegmentsMax'>) {
    this.#files = new OpenSegments(disk, options.openSegmentsMax);
    this.#pageBytes = options.coldPageBytes;
    this.#sparesMax = Math.floor(options.coldBytes / spareShare / options.coldPageBytes);
    this.#budgetBytes = options.coldBytes - this.#sparesMax * options.coldPageBytes;
    const none = new Uint8Array(0);
    this.#found = { bytes: none, view: new DataView(none.buffer), at: 0 };
  }

  get heldBytes(): number {
    return this.#heldBytes + this.#spares.length * this.#pageBytes;
  }

  /** True while more than the budget is held: call `turnBegan` again. */
  get isOverBudget(): boolean {
    return this.#heldBytes > this.#budgetBytes;
  }

  /** Bytes [address, address + length) of the segment if they were read before. The result is used again. */
  resident(segment: SegmentRange, address: LogAddress, length: number): ResidentBytes | undefined {
    const extent = this.#pages.get(this.#pageOf(segment, address));
    if (extent === undefined || address + length > extent.end) return undefined;
    this.#use(extent);
    const found = this.#found;
    found.bytes = extent.bytes;
    found.view = extent.view;
    found.at = address - extent.start;
    return found;
  }

  /**
   * Reads [address, address + length), which must lie in the segment. Requests that a read already on its way answers
   * wait for that one. Rejects with LogDamage when the file is too short.
   */
  async load(segment: SegmentRange, address: LogAddress, length: number): Promise<void> {
    const page = this.#pageOf(segment, address);
    while (this.resident(segment, address, length) === undefined) {
      const pending = this.#pending.get(page);
      if (pending !== undefined) {
        await pending.done;
        if (address + length <= pending.end && this.resident(segment, address, length) !== undefined) return;
        continue;
      }
      const pages = Math.ceil((address + length - page) / this.#pageBytes);
      const pagesEnd = page + pages * this.#pageBytes;
      const end = Math.min(pagesEnd, segment.end);
      const done = this.#read(segment, page, pagesEnd, end);
      this.#pending.set(page, { end, done });
      try {
        await done;
      } finally {
        this.#pending.delete(page);
      }
    }
  }

  /** Lets go what is over the budget and was not asked for in this turn or the one before. */
  turnBegan(turn: number): void {
    this.#turn = turn;
    for (const extent of this.#extents) {
      if (!this.isOverBudget || extent.usedInTurn > turn - 2) return;
      this.#drop(extent);
      // What was found in it was promised for the turn.
      if (extent.bytes.length === this.#pageBytes && this.#spares.length < this.#sparesMax) this.#spares.push(extent);
    }
  }

  /** The segment is to be removed: lets go of what was read of it and of its file. */
  async forget(segment: SegmentRange): Promise<void> {
    for (const extent of this.#extents) {
      if (extent.start >= segment.base && extent.start < segment.end) this.#drop(extent);
    }
    await this.#files.forget(segment.base);
  }

  close(): Promise<void> {
    return this.#files.close();
  }

  #pageOf(segment: SegmentRange, address: LogAddress): LogAddress {
    const position = address - segment.base;
    return segment.base + position - (position % this.#pageBytes);
  }

  #use(extent: Extent): void {
    if (extent.usedInTurn === this.#turn) return;
    extent.usedInTurn = this.#turn;
    this.#extents.delete(extent);
    this.#extents.add(extent);
  }

  /** Fills `target` with the bytes at `address`, which must lie in the segment; nothing is kept. */
  async readInto(segment: SegmentRange, address: LogAddress, target: Uint8Array): Promise<void> {
    const count = await this.#files.read(segment.base, target, address - segment.base);
    this.reads++;
    this.bytesRead += count;
    if (count < target.length) {
      throw new LogDamage(
        segmentPath(segment.base),
        address + count,
        `the file ends here, ${target.length - count} bytes before what is needed`,
      );
    }
  }

  async #read(segment: SegmentRange, firstPage: LogAddress, pagesEnd: LogAddress, end: LogAddress): Promise<void> {
    const { bytes, view } = this.#memoryFor(end - firstPage);
    await this.readInto(segment, firstPage, bytes);
    this.#add({ start: firstPage, end, bytes, view, firstPage, pagesEnd, usedInTurn: this.#turn });
  }

  #memoryFor(length: number): Spare {
    const spare = length === this.#pageBytes ? this.#spares.pop() : undefined;
    if (spare !== undefined) return spare;
    const bytes = new Uint8Array(length);
    return { bytes, view: new DataView(bytes.buffer) };
  }

  #add(extent: Extent): void {
    this.#extents.add(extent);
    this.#heldBytes += extent.bytes.length;
    for (let page = extent.firstPage; page < extent.pagesEnd; page += this.#pageBytes) {
      const other = this.#pages.get(page);
      if (other === undefined || other.end < extent.end) this.#pages.set(page, extent);
    }
  }

  #drop(extent: Extent): void {
    this.#extents.delete(extent);
    this.#heldBytes -= extent.bytes.length;
    for (let page = extent.firstPage; page < extent.pagesEnd; page += this.#pageBytes) {
      if (this.#pages.get(page) === extent) this.#pages.delete(page);
    }
  }
}

interface OpenSegment {
  readonly file: Promise<DiskFile>;
  readers: number;
}

/** A bounded number of segments held open for reading. */
class OpenSegments {
  readonly #disk: Disk;
  readonly #max: number;
  /** Least recently used first. */
  readonly #open = new Map<LogAddress, OpenSegment>();

  constructor(disk: Disk, max: number) {
    this.#disk = disk;
    this.#max = max;
  }

  async read(base: LogAddress, target: Uint8Array, position: number): Promise<number> {
    const held = this.#open.get(base) ?? { file: this.#disk.open(segmentPath(base), 'read'), readers: 0 };
    this.#open.delete(base);
    this.#open.set(base, held);
    held.readers++;
    try {
      const file = await held.file;
      return await file.read(target, position);
    } catch (error) {
      // The next reader opens the file anew.
      if (this.#open.get(base) === held) this.#open.delete(base);
      throw error;
    } finally {
      held.readers--;
      if (held.readers === 0 && this.#open.get(base) !== held) await closeQuietly(held);
      await this.#closeSurplus();
    }
  }

  /** Closes the file of a segment; one that is being read is closed by its last reader. */
  async forget(base: LogAddress): Promise<void> {
    const held = this.#open.get(base);
    if (held === undefined) return;
    this.#open.delete(base);
    if (held.readers === 0) await closeQuietly(held);
  }

  async close(): Promise<void> {
    const all = [...this.#open.values()];
    this.#open.clear();
    // Those that are being read are closed by their last reader.
    for (const held of all) if (held.readers === 0) await closeQuietly(held);
  }

  async #closeSurplus(): Promise<void> {
    for (const [base, held] of this.#open) {
      if (this.#open.size <= this.#max) return;
      if (held.readers > 0) continue;
      this.#open.delete(base);
      await closeQuietly(held);
    }
  }
}

/** A file that was only read has nothing to lose when closing fails, and whoever failed to open it was told. */
async function closeQuietly(held: OpenSegment): Promise<void> {
  const file = await held.file.catch(() => null);
  if (file !== null) await file.close().catch(() => undefined);
}
