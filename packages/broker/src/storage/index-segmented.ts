/**
 * The record index of a log of segments: finds blocks by (partition, offset) and records by the fingerprint of their
 * transactionId.
 *
 * The segment that is written, and the newest of those that are sealed, are indexed in memory: 48 bytes per block and 18
 * per id. When the sidecar file of a sealed segment is ready, `adopt` reads the keys of its partitions and ids into two
 * directories (3 bytes per key), and its rows may leave; once they have, a look-up that the directories do not rule out
 * reads a page or two. Rows stay as long as there is room for them (`keptRowBytes`), so that consumers that keep up, and
 * acks of what was delivered a moment ago, never wait for a page.
 *
 * The order of calls: `beginSegment` before the first block of a segment; `addBlock` in log order; `adopt` for sealed
 * segments, best in their order, because rows leave memory in log order. Questions may be asked at any time. Nothing
 * here is written but the removal of sidecar files; all of it can be built again from the segments.
 *
 * A damaged sidecar shows as SidecarDamage: from `adopt` as a result; a loading question that meets one has it repaired
 * (built and adopted again) and goes on, or rejects when nobody repairs.
 */
import { block, readU64 } from '../codec/format.ts';
import type { BlockLocation, Disk, FoundId, LogAddress, RecordIndex, Scheduler, SegmentRows } from '../ports/mod.ts';
import { FilterDirectory } from './filter-directory.ts';
import { idKeyHigh, idKeyLow, pidKey } from './filter-keys.ts';
import { assertStorage } from './index-assert.ts';
import { BlockRows, rowBytes } from './index-blocks.ts';
import { IdTable, type RecordPids } from './index-ids.ts';
import { Remembered } from './index-remembered.ts';
import type { Checksum } from './log-checksum.ts';
import { originalPid, relocatedPid } from './sidecar-columns.ts';
import { removeSidecar } from './sidecar-copy.ts';
import { SidecarDamage } from './sidecar-format.ts';
import { SidecarPages } from './sidecar-pages.ts';
import { type BlockSink, type ListedBlock, Sidecar } from './sidecar-reader.ts';

/** What the index needs from its surroundings. */
export interface IndexHost {
  readonly disk: Disk;
  readonly checksum: Checksum;
  readonly scheduler: Scheduler;
  /** Builds the sidecar again and adopts it; what it rejects with, the question that met the damage rejects with. */
  readonly repair?: (damage: SidecarDamage) => Promise<void>;
}

/** Repairs one question waits for. A sidecar that is damaged again right away lies on a disk that cannot keep it. */
const repairsPerQuestion = 3;

/** Limits of the index. Each has a default. */
export interface IndexOptions {
  /** Memory for rows of sealed segments whose sidecars are in use, in bytes. Default 16 MiB. */
  readonly keptRowBytes?: number;
  /** Memory for pages of sidecars, in bytes. Default 16 MiB, at least 4 KiB. */
  readonly indexCacheBytes?: number;
  /** Block places that stay known after they were loaded. Default 131,072, at least 128; 40 bytes each and some per partition. */
  readonly rememberedBlocksMax?: number;
  /** Sidecar files held open. Default 128, at least 1; exceeded only while more than this are read at the same moment. */
  readonly openSidecarsMax?: number;
}

const optionTable = {
  keptRowBytes: { default: 16 * 1024 * 1024, min: 0 },
  indexCacheBytes: { default: 16 * 1024 * 1024, min: 4096 },
  rememberedBlocksMax: { default: 131_072, min: 128 },
  openSidecarsMax: { default: 128, min: 1 },
} as const;

/** Sealed segments whose rows are kept: some questions are put to each of them. */
const keptSegmentsMax = 8;

/** Partitions whose last sidecar is known; then all are forgotten. */
const hintsMax = 4096;

function indexOptions(given: IndexOptions): Required<IndexOptions> {
  const result: Record<string, number> = {};
  for (const [name, bounds] of Object.entries(optionTable)) {
    const value = given[name as keyof IndexOptions] ?? bounds.default;
    if (!Number.isSafeInteger(value) || value < bounds.min) {
      throw new RangeError(`${name} is ${value}; it must be an integer of at least ${bounds.min}`);
    }
    result[name] = value;
  }
  return result as unknown as Required<IndexOptions>;
}

/** What of a sidecar is used: after a segment was reclaimed its ids are still remembered. */
export type SidecarPart = 'all' | 'ids';

export type Adoption =
  | { readonly ok: true; readonly blocks: number; readonly ids: number }
  | { readonly ok: false; readonly reason: 'missing' }
  | { readonly ok: false; readonly reason: 'damaged'; readonly damage: SidecarDamage };

export interface IndexStats {
  /** Segments, blocks and ids indexed in memory. */
  readonly segmentsInMemory: number;
  readonly blocksInMemory: number;
  readonly idsInMemory: number;
  /** Bytes of block rows and of id tables, spare ones included, and of the lanes' newest rows. */
  readonly blockBytes: number;
  readonly idBytes: number;
  readonly laneBytes: number;
  /** Sidecars in use, and the bytes of their directories and fences. */
  readonly sidecars: number;
  readonly sidecarBytes: number;
  readonly cachedBytes: number;
  readonly openFiles: number;
  readonly rememberedBlocks: number;
}

/** A segment that is indexed in memory. */
class MemorySegment implements RecordPids {
  readonly base: LogAddress;
  readonly ids: IdTable;
  readonly firstRow: number;
  readonly firstOrdinal: number;
  /** Number of the row behind its last block. */
  endRow: number;
  maxStampUs = Number.NEGATIVE_INFINITY;
  /** Bytes of its blocks, copies included. */
  blockBytes = 0;
  /** Blocks of partitions that are deleted by now are among its rows as well. */
  readonly isWhole: boolean;
  /** Copies of older blocks in it. */
  readonly relocated = new Remembered(Number.POSITIVE_INFINITY);
  /** Its sidecar is in use: its rows may leave. */
  adopted: boolean;
  private readonly rows: BlockRows;

  constructor(
    base: LogAddress,
    rows: BlockRows,
    isWhole: boolean,
    adopted: boolean,
    before: MemorySegment | undefined,
    unusedIds: IdTable | undefined,
  ) {
    this.base = base;
    this.rows = rows;
    this.isWhole = isWhole;
    this.adopted = adopted;
    this.firstRow = rows.nextRow;
    this.endRow = rows.nextRow;
    this.firstOrdinal = rows.ordinal;
    this.ids = new IdTable(this, before?.ids, unusedIds);
  }

  /** Memory that comes back when its rows leave. */
  get bytes(): number {
    return (this.endRow - this.firstRow) * rowBytes + this.ids.bytes;
  }

  pidOfOrdinal(ordinal: number): number {
    return this.rows.pidAt(this.rowOfOrdinal(ordinal));
  }

  /** Index of the block that holds the segment's record number `ordinal`. */
  rowOfOrdinal(ordinal: number): number {
    return this.rows.findByOrdinal(this.firstRow, this.endRow, ordinal);
  }
}

/** A sidecar in use. */
interface AdoptedSidecar {
  sidecar: Sidecar;
  /** Which of its two halves are in the directories. */
  blocks: boolean;
  ids: boolean;
}

export class SegmentedIndex implements RecordIndex {
  generation = 0;
  private readonly disk: Disk;
  private readonly scheduler: Scheduler;
  private readonly repair: IndexHost['repair'];
  private readonly keptRowBytes: number;
  private readonly pages: SidecarPages;
  private readonly rows = new BlockRows();
  /** Oldest first; the last one is being written. */
  private readonly memory: MemorySegment[] = [];
  /** Of the segment that left last. */
  private unusedIds: IdTable | undefined;
  private readonly sidecars = new Map<LogAddress, AdoptedSidecar>();
  /** Highest base of all that were ever in use without rows in memory. */
  private newestWithoutRows: LogAddress = -1;
  private readonly pidDirectory: FilterDirectory<Sidecar>;
  private readonly idDirectory: FilterDirectory<Sidecar>;
  private readonly remembered: Remembered;
  /** Where a partition's block was found last. A retired sidecar in it does no harm: it answers that nothing is there. */
  private readonly hints = new Map<number, Sidecar>();
  private readonly found: BlockLocation = { address: 0, length: 0, firstOffset: 0, stampUs: 0, count: 0 };
  private readonly foundId: FoundId = { offset: 0, stampUs: 0, index: 0 };
  /** Changes to the set of sidecars happen one after the other. */
  private lastChange: Promise<unknown> = Promise.resolve();
  private closing: Promise<void> | undefined;

  /** Throws a RangeError that names the option when a limit is too low. */
  constructor(host: IndexHost, options: IndexOptions = {}) {
    const limits = indexOptions(options);
    this.disk = host.disk;
    this.scheduler = host.scheduler;
    this.repair = host.repair;
    this.keptRowBytes = limits.keptRowBytes;
    this.pages = new SidecarPages(host.disk, host.checksum, {
      cacheBytes: limits.indexCacheBytes,
      openFilesMax: limits.openSidecarsMax,
    });
    this.remembered = new Remembered(limits.rememberedBlocksMax);
    const pause = () => new Promise<void>((resolve) => this.scheduler.soon(resolve));
    this.pidDirectory = new FilterDirectory(pause);
    this.idDirectory = new FilterDirectory(pause);
  }

  /**
   * A new segment begins at `base`: blocks added from now on lie in it. Bases must rise.
   * @param isWhole all of its blocks will be added, also those of partitions that nobody knows any more.
   */
  beginSegment(base: LogAddress, isWhole: boolean): void {
    const current = this.memory[this.memory.length - 1];
    assertStorage(current === undefined || base > current.base, 'segments begin in the order of their bases');
    const segment = new MemorySegment(base, this.rows, isWhole, this.sidecars.has(base), current, this.unusedIds);
    this.unusedIds = undefined;
    this.memory.push(segment);
    this.releaseRows();
  }

  addBlock(lane: number, _bytes: Uint8Array, view: DataView, at: number, address: LogAddress): void {
    const segment = this.memory[this.memory.length - 1];
    assertStorage(segment !== undefined && address >= segment.base, 'a block lies in the segment that is written');
    const pid = readU64(view, at + block.pidAt);
    const stampUs = readU64(view, at + block.stampAt);
    const count = view.getUint32(at + block.countAt, true);
    const length = view.getUint32(at, true);
    const ordinal = (this.rows.ordinal - segment.firstOrdinal) >>> 0;
    this.rows.add(lane, pid, readU64(view, at + block.firstOffsetAt), stampUs, address, length, count);
    segment.endRow++;
    segment.blockBytes += length;
    if (stampUs > segment.maxStampUs) segment.maxStampUs = stampUs;

    const keyOfPid = pidKey(pid);
    const ids = segment.ids;
    let row = at + block.tableAt;
    for (let index = 0; index < count; index++) {
      const high = view.getUint32(row + 4, true);
      const low = view.getUint32(row + 8, true);
      row += block.rowBytes;
      if (high === 0 && low === 0) continue;
      ids.add(pid, idKeyHigh(keyOfPid, high), idKeyLow(keyOfPid, low), ordinal + index);
    }
  }

  addRelocated(_bytes: Uint8Array, view: DataView, at: number, address: LogAddress): void {
    const segment = this.memory[this.memory.length - 1];
    assertStorage(segment !== undefined && address >= segment.base, 'a block lies in the segment that is written');
    const stampUs = readU64(view, at + block.stampAt);
    const length = view.getUint32(at, true);
    segment.relocated.take(
      readU64(view, at + block.pidAt),
      readU64(view, at + block.firstOffsetAt),
      view.getUint32(at + block.countAt, true),
      stampUs,
      address,
      length,
    );
    segment.blockBytes += length;
    if (stampUs > segment.maxStampUs) segment.maxStampUs = stampUs;
  }

  /**
   * What is known of the sealed segment from `base` to `end`, for its sidecar; null when not all of it is in memory, and the
   * segment has to be read.
   */
  rowsOf(base: LogAddress, end: LogAddress): SegmentRows | null {
    const i = this.memory.findIndex((candidate) => candidate.base === base);
    const segment = this.memory[i];
    if (segment === undefined || !segment.isWhole || segment.relocated.count > 0) return null;
    const { pages, before } = this.rows.sharedPages(segment.firstRow, segment.endRow);
    return {
      base,
      end,
      blockPages: pages,
      firstBlock: before,
      blockCount: segment.endRow - segment.firstRow,
      endOrdinal: this.memory[i + 1]?.firstOrdinal ?? this.rows.ordinal,
      idParts: segment.ids.sharedParts(),
      idCount: segment.ids.count,
    };
  }

  forgetLane(lane: number): void {
    this.rows.forgetLane(lane);
  }

  find(lane: number, pid: number, offset: number): BlockLocation | undefined {
    const { rows, found } = this;
    const index = rows.findByOffset(lane, pid, offset);
    if (index >= 0 && offset < rows.firstOffsetAt(index) + rows.countAt(index)) return this.fillFound(index);
    for (let i = this.memory.length - 1; i >= 0; i--) {
      if (this.memory[i].relocated.find(pid, offset, found)) return found;
    }
    return this.remembered.find(pid, offset, found) ? found : undefined;
  }

  /** Bytes of all blocks in the segment at `base`, copies included; 0 when it is not indexed. */
  blockBytes(base: LogAddress): number {
    const inMemory = this.memory.find((segment) => segment.base === base);
    return inMemory?.blockBytes ?? this.sidecars.get(base)?.sidecar.facts.blockBytes ?? 0;
  }

  /** Rejects with SidecarDamage, or with the disk's error. */
  async load(lane: number, pid: number, offset: number): Promise<BlockLocation | undefined> {
    for (;;) {
      const known = this.find(lane, pid, offset);
      if (known !== undefined) return placeOf(known);
      const { generation } = this;
      const location = await this.repaired(
        async () => (await this.searchSidecars(pid, offset)) ?? (await this.searchRelocated(pid, offset)),
      );
      // A sidecar that was replaced meanwhile answered as if it were empty: ask again.
      if (location !== undefined || generation === this.generation) return location;
    }
  }

  /** Rejects with SidecarDamage, or with the disk's error. */
  async loadByTime(lane: number, pid: number, stampUs: number): Promise<BlockLocation | undefined> {
    for (;;) {
      const index = this.rows.findByTime(lane, pid, stampUs);
      const inMemory = index < 0 ? undefined : placeOf(this.fillFound(index));
      const { generation } = this;
      const inSidecars = await this.repaired(() => this.searchSidecarsByTime(pid, stampUs));
      const relocated = await this.repaired(() => this.searchRelocatedByTime(pid, stampUs));
      if (generation !== this.generation) continue;
      return firstOf(firstOf(inSidecars, inMemory), relocated);
    }
  }

  findId(pid: number, hashHigh: number, hashLow: number, sinceUs: number): FoundId | undefined {
    const segment = this.findIdInMemory(pid, hashHigh, hashLow, sinceUs);
    if (segment === undefined || this.mayHoldNewerId(segment, pid, hashHigh, sinceUs)) return undefined;
    return this.foundId;
  }

  /** Fills `foundId` with the newest record in memory, and gives its segment. */
  private findIdInMemory(pid: number, hashHigh: number, hashLow: number, sinceUs: number): MemorySegment | undefined {
    const { rows, memory, foundId } = this;
    const keyOfPid = pidKey(pid);
    const keyHigh = idKeyHigh(keyOfPid, hashHigh);
    const keyLow = idKeyLow(keyOfPid, hashLow);
    let mayBeInSidecars: boolean | undefined;
    for (let i = memory.length - 1; i >= 0; i--) {
      const segment = memory[i];
      if (segment.maxStampUs < sinceUs) continue;
      // One question to the directory costs less than one to each table.
      if (segment.adopted) {
        mayBeInSidecars ??= this.idDirectory.mayHold(keyHigh >>> 0, sinceUs);
        if (!mayBeInSidecars) continue;
      }
      const ordinal = segment.ids.find(pid, keyHigh, keyLow);
      if (ordinal < 0) continue;
      const index = segment.rowOfOrdinal(ordinal);
      const stampUs = rows.stampAt(index);
      // Records in older segments are older still.
      if (stampUs < sinceUs) return undefined;
      const firstOrdinal = (rows.ordinalAt(index) - segment.firstOrdinal) >>> 0;
      foundId.offset = rows.firstOffsetAt(index) + ordinal - firstOrdinal;
      foundId.stampUs = stampUs;
      foundId.index = ordinal - firstOrdinal;
      return segment;
    }
    return undefined;
  }

  /**
   * A start that finds a sidecar damaged or missing takes its segment into memory, but not those behind it: then a newer
   * record with the same id may be in one of their sidecars.
   */
  private mayHoldNewerId({ base }: MemorySegment, pid: number, hashHigh: number, sinceUs: number): boolean {
    if (base >= this.newestWithoutRows) return false;
    const candidates = this.idDirectory.candidates(idKeyHigh(pidKey(pid), hashHigh) >>> 0, sinceUs);
    return candidates.some((sidecar) => sidecar.base > base && !this.isInMemory(sidecar.base));
  }

  mayHoldId(pid: number, hashHigh: number, _hashLow: number, sinceUs: number): boolean {
    return this.idDirectory.mayHold(idKeyHigh(pidKey(pid), hashHigh) >>> 0, sinceUs);
  }

  /** Rejects with SidecarDamage, or with the disk's error. */
  async loadId(pid: number, hashHigh: number, hashLow: number, sinceUs: number): Promise<FoundId | undefined> {
    for (;;) {
      const known = this.findId(pid, hashHigh, hashLow, sinceUs);
      if (known !== undefined) return { ...known };
      const { generation } = this;
      const found = await this.repaired(() => this.searchIds(pid, hashHigh >>> 0, hashLow >>> 0, sinceUs));
      if (generation !== this.generation) continue;
      const isInMemory = this.findIdInMemory(pid, hashHigh, hashLow, sinceUs) !== undefined;
      if (isInMemory && (found === undefined || found.stampUs < this.foundId.stampUs)) return { ...this.foundId };
      return found === undefined || found.stampUs < sinceUs ? undefined : found;
    }
  }

  /**
   * Takes the sidecar of the sealed segment at `base` into use, in the place of the segment's rows in memory or of the
   * sidecar used so far. With `ids` only the ids: the segment's blocks are gone, as they are when it was dropped. A sidecar
   * that is missing or damaged is a result, and changes nothing; other errors of the disk reject.
   */
  adopt(base: LogAddress, part: SidecarPart = 'all'): Promise<Adoption> {
    const current = this.memory[this.memory.length - 1];
    assertStorage(current === undefined || current.base !== base, 'the segment that is written has no sidecar');
    return this.change(async () => {
      let sidecar: Sidecar | undefined;
      let pidKeys = new Uint32Array(0);
      let idKeys: Uint32Array;
      const hasBlocks = part === 'all' && this.sidecars.get(base)?.blocks !== false;
      try {
        sidecar = await Sidecar.open(this.pages, base);
        if (hasBlocks) pidKeys = await sidecar.readPidKeys();
        idKeys = await sidecar.readIdKeys();
      } catch (error) {
        await sidecar?.retire();
        if (error instanceof SidecarDamage) return { ok: false, reason: 'damaged', damage: error };
        if (error instanceof Error && (error as { code?: unknown }).code === 'ENOENT') {
          return { ok: false, reason: 'missing' };
        }
        throw error;
      }
      await this.pidDirectory.add(sidecar, pidKeys);
      await this.idDirectory.add(sidecar, idKeys);
      const replaced = this.sidecars.get(base);
      if (!hasBlocks) sidecar.dropBlocks();
      this.sidecars.set(base, { sidecar, blocks: hasBlocks, ids: true });
      this.markAdopted(base);
      if (!this.isInMemory(base)) this.newestWithoutRows = Math.max(this.newestWithoutRows, base);
      this.generation++;
      if (replaced !== undefined) await this.putAway(replaced);
      await this.pidDirectory.merge();
      await this.idDirectory.merge();
      return { ok: true, blocks: sidecar.facts.counts.blocks, ids: sidecar.facts.counts.ids };
    });
  }

  /**
   * The segment at `base` is gone: its blocks are not found any more. Its ids are, until `expireIds`; then the sidecar
   * file is removed. Only for segments that `visitBlocks` would show.
   */
  drop(base: LogAddress): Promise<void> {
    assertStorage(this.isKnownBySidecar(base), 'the rows of a segment that is dropped may leave memory');
    while (this.isInMemory(base)) this.releaseOldest();
    return this.change(async () => {
      const adopted = this.sidecars.get(base);
      if (adopted === undefined || !adopted.blocks) return;
      adopted.blocks = false;
      adopted.sidecar.dropBlocks();
      this.remembered.clear();
      this.generation++;
      await this.pidDirectory.remove(adopted.sidecar);
      await this.removeUnused(base, adopted);
    });
  }

  /**
   * Visits all blocks that the sidecar of a segment lists, page by page; the visited object is used again. False when the
   * segment is not, or not any more, or not yet known by its sidecar alone, and nothing was shown.
   */
  visitBlocks(base: LogAddress, visit: (listed: ListedBlock) => void, pause: () => Promise<void>): Promise<boolean> {
    return this.repaired(async () => {
      const adopted = this.sidecars.get(base);
      if (adopted === undefined || !adopted.blocks || !this.isKnownBySidecar(base)) return false;
      await adopted.sidecar.visitBlocks(visit, pause);
      return true;
    });
  }

  /** True while ids of the segment are looked for in its sidecar. */
  usesIds(base: LogAddress): boolean {
    return this.sidecars.get(base)?.ids === true;
  }

  /** True while rows of the segment are in memory. */
  isInMemory(base: LogAddress): boolean {
    return this.memory.some((segment) => segment.base === base);
  }

  /** True when a copy of the block that holds the offset is stored at a higher address. */
  async hasRelocated(pid: number, offset: number, address: LogAddress): Promise<boolean> {
    for (const segment of this.memory) {
      if (segment.relocated.find(pid, offset, this.found) && this.found.address > address) return true;
    }
    const first = new FirstBlock(this.remembered);
    for (const sidecar of this.relocatedCandidates(pid, Number.NEGATIVE_INFINITY)) {
      if (sidecar.facts.end <= address) continue;
      const place = await this.repaired(() => sidecar.findBlock(relocatedPid(pid), offset, first));
      if (place === 'here' && first.location !== undefined && first.location.address > address) return true;
    }
    return false;
  }

  /** The ids of a segment that is gone cannot be read: they are forgotten, and their file is removed. */
  discard(base: LogAddress): Promise<void> {
    return this.change(async () => {
      const adopted = this.sidecars.get(base);
      if (adopted !== undefined) {
        adopted.blocks = false;
        adopted.ids = false;
        adopted.sidecar.dropBlocks();
        await this.pidDirectory.remove(adopted.sidecar);
        await this.idDirectory.remove(adopted.sidecar);
        await this.removeUnused(base, adopted);
      } else await removeSidecar(this.disk, base);
      this.generation++;
    });
  }

  /** Nobody will ask again for ids older than `beforeUs`: segments that hold no younger ones give back their memory. */
  expireIds(beforeUs: number): Promise<void> {
    return this.change(async () => {
      for (const [base, adopted] of [...this.sidecars]) {
        if (!adopted.ids || adopted.sidecar.maxStampUs >= beforeUs) continue;
        adopted.ids = false;
        await this.idDirectory.remove(adopted.sidecar);
        await this.removeUnused(base, adopted);
      }
    });
  }

  stats(): IndexStats {
    let idsInMemory = 0;
    let idBytes = this.unusedIds?.bytes ?? 0;
    for (const segment of this.memory) {
      idsInMemory += segment.ids.count;
      idBytes += segment.ids.bytes;
    }
    let sidecarBytes = this.pidDirectory.bytes + this.idDirectory.bytes;
    for (const { sidecar } of this.sidecars.values()) sidecarBytes += sidecar.bytes;
    return {
      segmentsInMemory: this.memory.length,
      blocksInMemory: this.rows.liveRows,
      idsInMemory,
      blockBytes: this.rows.bytes,
      idBytes,
      laneBytes: this.rows.laneBytes,
      sidecars: this.sidecars.size,
      sidecarBytes,
      cachedBytes: this.pages.cachedBytes,
      openFiles: this.pages.openFiles,
      rememberedBlocks: this.remembered.count,
    };
  }

  /**
   * Waits for changes under way and closes the files; one that is being read is closed when the read has ended. Changes
   * and questions that need a file are refused afterwards: the folder may be somebody else's by then.
   */
  close(): Promise<void> {
    this.closing ??= this.change(() => this.pages.close());
    return this.closing;
  }

  private fillFound(index: number): BlockLocation {
    const { rows, found } = this;
    found.address = rows.addressAt(index);
    found.length = rows.lengthAt(index);
    found.firstOffset = rows.firstOffsetAt(index);
    found.stampUs = rows.stampAt(index);
    found.count = rows.countAt(index);
    return found;
  }

  /** Binary search over the sidecars that may hold the partition: each answers that the offset is here, before or behind. */
  private async searchSidecars(pid: number, offset: number): Promise<BlockLocation | undefined> {
    const first = new FirstBlock(this.remembered);
    // A consumer that reads upwards stays in one segment for a while.
    const hint = this.hints.get(pid);
    if (hint !== undefined && (await hint.findBlock(pid, offset, first)) === 'here') return first.location;
    const candidates = this.pidDirectory.candidates(pidKey(pid) >>> 0, Number.NEGATIVE_INFINITY);
    candidates.sort((a, b) => a.base - b.base);
    let low = 0;
    let high = candidates.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const place = await candidates[middle].findBlock(pid, offset, first);
      if (place === 'here') {
        if (this.hints.size === hintsMax) this.hints.clear();
        this.hints.set(pid, candidates[middle]);
        return first.location;
      }
      if (place === 'behind') low = middle + 1;
      else if (place === 'before') high = middle;
      else {
        // The filter was wrong about this one, or it was just retired.
        candidates.splice(middle, 1);
        high--;
      }
    }
    return undefined;
  }

  private relocatedCandidates(pid: number, sinceUs: number): Sidecar[] {
    return this.pidDirectory.candidates(pidKey(relocatedPid(pid)) >>> 0, sinceUs);
  }

  /** Copies of a partition's blocks lie in the order in which segments were reclaimed: each sidecar is asked. */
  private async searchRelocated(pid: number, offset: number): Promise<BlockLocation | undefined> {
    const key = relocatedPid(pid);
    const first = new FirstBlock(this.remembered);
    const hint = this.hints.get(key);
    if (hint !== undefined && (await hint.findBlock(key, offset, first)) === 'here') return first.location;
    for (const sidecar of this.relocatedCandidates(pid, Number.NEGATIVE_INFINITY)) {
      if (sidecar === hint || (await sidecar.findBlock(key, offset, first)) !== 'here') continue;
      if (this.hints.size === hintsMax) this.hints.clear();
      this.hints.set(key, sidecar);
      return first.location;
    }
    return undefined;
  }

  private async searchRelocatedByTime(pid: number, stampUs: number): Promise<BlockLocation | undefined> {
    let earliest: BlockLocation | undefined;
    for (const segment of this.memory) {
      if (segment.relocated.firstFrom(pid, stampUs, this.found)) earliest = firstOf(earliest, placeOf(this.found));
    }
    for (const sidecar of this.relocatedCandidates(pid, stampUs)) {
      const first = new FirstBlock(this.remembered);
      if (await sidecar.findByTime(relocatedPid(pid), stampUs, first)) earliest = firstOf(earliest, first.location);
    }
    return earliest;
  }

  /** The newest record in sidecars with an id. */
  private async searchIds(
    pid: number,
    hashHigh: number,
    hashLow: number,
    sinceUs: number,
  ): Promise<FoundId | undefined> {
    const candidates = this.idDirectory.candidates(idKeyHigh(pidKey(pid), hashHigh) >>> 0, sinceUs);
    candidates.sort((a, b) => b.base - a.base);
    for (const sidecar of candidates) {
      const found = await sidecar.findId(pid, hashHigh, hashLow);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Asks again after damage that it met was repaired. */
  private async repaired<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    for (let repairs = 0; ; repairs++) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof SidecarDamage) || this.repair === undefined || repairs === repairsPerQuestion)
          throw error;
        await this.repair(error);
      }
    }
  }

  private async searchSidecarsByTime(pid: number, stampUs: number): Promise<BlockLocation | undefined> {
    const candidates = this.pidDirectory.candidates(pidKey(pid) >>> 0, stampUs);
    candidates.sort((a, b) => a.base - b.base);
    const first = new FirstBlock(this.remembered);
    for (const sidecar of candidates) {
      if (await sidecar.findByTime(pid, stampUs, first)) return first.location;
    }
    return undefined;
  }

  private markAdopted(base: LogAddress): void {
    const segment = this.memory.find((candidate) => candidate.base === base);
    if (segment === undefined) return;
    segment.adopted = true;
    this.releaseRows();
  }

  /** No rows of the segment are needed: it has none in memory, or all up to its own may leave. */
  private isKnownBySidecar(base: LogAddress): boolean {
    if (!this.isInMemory(base)) return true;
    const isCurrent = this.memory[this.memory.length - 1].base === base;
    return !isCurrent && this.memory.every((segment) => segment.base > base || segment.adopted);
  }

  /**
   * Lets rows leave until what is kept fits. They leave in log order; those of an adopted segment behind one that is not
   * wait. The last segment stays.
   */
  private releaseRows(): void {
    let bytes = 0;
    for (const segment of this.memory) if (segment.adopted) bytes += segment.bytes;
    while (this.memory.length > 1 && this.memory[0].adopted) {
      if (bytes <= this.keptRowBytes && this.memory.length - 1 <= keptSegmentsMax) return;
      bytes -= this.memory[0].bytes;
      this.releaseOldest();
    }
  }

  private releaseOldest(): void {
    const { base, ids } = this.memory[0];
    this.newestWithoutRows = Math.max(this.newestWithoutRows, base);
    this.memory.shift();
    // Its sidecar is in use, so that nobody makes one of its ids any more.
    this.unusedIds = ids;
    this.rows.releaseBefore(this.memory[0].firstRow);
  }

  private async putAway(replaced: AdoptedSidecar): Promise<void> {
    await this.pidDirectory.remove(replaced.sidecar);
    await this.idDirectory.remove(replaced.sidecar);
    await replaced.sidecar.retire();
  }

  private async removeUnused(base: LogAddress, adopted: AdoptedSidecar): Promise<void> {
    if (adopted.blocks || adopted.ids) return;
    this.sidecars.delete(base);
    await adopted.sidecar.retire();
    await removeSidecar(this.disk, base);
  }

  private change<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.closing !== undefined) return Promise.reject(new Error('the index is closed'));
    const result = this.lastChange.then(work);
    // The caller gets the error; the next change does not depend on it.
    this.lastChange = result.catch(() => undefined);
    return result;
  }
}

/** A result of its own, instead of the one that is used again. */
function placeOf({ address, length, firstOffset, stampUs, count }: BlockLocation): BlockLocation {
  return { address, length, firstOffset, stampUs, count };
}

/** The one with the lower offset. */
function firstOf(a: BlockLocation | undefined, b: BlockLocation | undefined): BlockLocation | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a.firstOffset <= b.firstOffset ? a : b;
}

/** Passes blocks on and keeps the place of the first one. */
class FirstBlock implements BlockSink {
  location: BlockLocation | undefined;
  private readonly next: Remembered;

  constructor(next: Remembered) {
    this.next = next;
  }

  take(pid: number, firstOffset: number, count: number, stampUs: number, address: LogAddress, length: number): void {
    this.location ??= { address, length, firstOffset, stampUs, count };
    this.next.take(originalPid(pid), firstOffset, count, stampUs, address, length);
  }
}
