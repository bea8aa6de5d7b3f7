/**
 * How decisions see the message store: what is in memory is read at once, what is not is noted as a need, fetched by the
 * shard, and the decision is asked again. Fetched blocks are checked and then kept by lane until they are pushed out by
 * newer ones.
 */
import { LinkedList, ListNode } from '../base/linked-list.ts';
import { BlockReader, blockCount, type Hasher, isWholeBlock } from '../codec/mod.ts';
import {
  type BlockPlaces,
  type Blocks,
  type BlockView,
  type BrokerState,
  type Ids,
  idLookup,
  type Queue,
} from '../core/mod.ts';
import type { BlockLocation, FoundId, Log, RecordIndex } from '../ports/mod.ts';

/** Something a decision needs that is not in memory. */
export type Need =
  | { readonly kind: 'block'; readonly lane: number; readonly pid: number; readonly offset: number }
  | { readonly kind: 'stamp'; readonly lane: number; readonly pid: number; readonly offset: number }
  | { readonly kind: 'time'; readonly lane: number; readonly pid: number; readonly stampUs: number }
  | {
      readonly kind: 'id';
      readonly pid: number;
      readonly high: number;
      readonly low: number;
      readonly sinceUs: number;
    };

/** What was fetched for one operation. */
export class FetchedFacts {
  readonly ids = new Map<string, FoundId | null>();
  readonly times = new Map<string, number>();
  readonly stamps = new Map<string, number>();
  /**
   * Blocks that were read for it, by pid, in order of offset. Whatever others read meanwhile, these stay until the
   * operation is decided: each reading brings it nearer to its decision.
   */
  readonly blocks = new Map<number, StagedBlock[]>();
  generation = -1;

  /** `read`: consecutive blocks. */
  keep(pid: number, read: readonly StagedBlock[]): void {
    const first = read[0].firstOffset;
    const last = read[read.length - 1].firstOffset;
    const kept = this.blocks.get(pid) ?? [];
    this.blocks.set(pid, [
      ...kept.filter(({ firstOffset }) => firstOffset < first),
      ...read,
      ...kept.filter(({ firstOffset }) => firstOffset > last),
    ]);
  }

  blockAt(pid: number, offset: number): StagedBlock | undefined {
    const blocks = this.blocks.get(pid);
    return blocks === undefined ? undefined : findBlock(blocks, offset);
  }
}

interface StagedBlock {
  readonly firstOffset: number;
  readonly count: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Index of the block in `bytes`, which other blocks share. */
  readonly at: number;
}

class StagedLane extends ListNode<StagedLane> {
  readonly lane: number;
  readonly pid: number;
  readonly blocks: readonly StagedBlock[];
  /** What it weighs against the limit. */
  readonly bytes: number;

  constructor(lane: number, pid: number, blocks: readonly StagedBlock[], bytes: number) {
    super();
    this.lane = lane;
    this.pid = pid;
    this.blocks = blocks;
    this.bytes = bytes;
  }
}

export const storeLimits = {
  /** Read ahead of one partition, once a block of it has to come from disk. */
  readAheadBytes: 4 * 1024 * 1024,
  readAheadBlocks: 1024,
  readAheadRecords: 10_000,
  /** All blocks that were read back and kept for the decisions that asked for them, bookkeeping included. */
  stagedBytes: 32 * 1024 * 1024,
  /** Blocks that are read from disk at the same moment; a larger one is read alone. */
  readingBytes: 16 * 1024 * 1024,
  /** What the bookkeeping of a staged partition and of a staged block weighs. */
  stagedLaneBytes: 400,
  stagedBlockBytes: 150,
  /** Staged blocks are copied into pieces of memory of this size; a larger block gets its own. */
  stagingBytes: 64 * 1024,
} as const;

/** A value in the log, and where it goes. */
export interface PlacedValue {
  readonly address: number;
  readonly length: number;
  readonly checksum: number;
  readonly at: number;
}

type ValueRun = Omit<PlacedValue, 'checksum'>;

/** Bytes of one run of values. */
const runBytesMax = 256 * 1024;

/** Values that lie one behind the other, in the log as in what they are copied to, are copied as one. */
export function valueRuns(values: readonly PlacedValue[]): ValueRun[] {
  const runs: ValueRun[] = [];
  let run = { address: 0, length: 0, at: 0 };
  for (const { address, length, at } of values) {
    if (length === 0) continue;
    const isNext = address === run.address + run.length && at === run.at + run.length;
    if (isNext && run.length + length <= runBytesMax) run.length += length;
    else {
      run = { address, length, at };
      runs.push(run);
    }
  }
  return runs;
}

/** A stored block is not what was written. What lies there cannot be served; everything else can. */
export class StoreDamage extends Error {
  override readonly name = 'StoreDamage';
}

export class StoreAccess implements Blocks, Ids, BlockPlaces {
  readonly #log: Log;
  readonly #index: RecordIndex;
  readonly #hasher: Hasher;
  readonly #reader = new BlockReader();
  readonly #staged = new Map<number, StagedLane>();
  readonly #stagedOrder = new LinkedList<StagedLane>();
  #stagedBytes = 0;
  #readingBytes = 0;
  readonly #waitingReads: (() => void)[] = [];
  #staging = new Uint8Array(0);
  #stagingView = new DataView(this.#staging.buffer);
  #stagingAt = 0;
  #facts = new FetchedFacts();
  found: FoundId = { offset: 0, stampUs: 0, index: 0 };
  /** Calls that look up places and read there: a segment goes only when those that began before have ended. */
  readonly #reads = new Set<Promise<unknown>>();
  /** Needs of the decision that is being made. */
  needs: Need[] = [];

  constructor(log: Log, index: RecordIndex, hasher: Hasher) {
    this.#log = log;
    this.#index = index;
    this.#hasher = hasher;
  }

  /** Begins a decision that may use `facts`, fetched for it before. */
  begin(facts: FetchedFacts): void {
    // What was fetched from sidecars says nothing about ids that moved to a sidecar since.
    if (facts.generation !== this.#index.generation) facts.ids.clear();
    facts.generation = this.#index.generation;
    this.#facts = facts;
    if (this.needs.length > 0) this.needs = [];
  }

  open(lane: number, pid: number, offset: number): BlockView | undefined {
    const place = this.#index.find(lane, pid, offset);
    if (place !== undefined) {
      // Only what this process wrote itself is taken unchecked; what was read is checked when it is staged.
      const found = this.#log.recent(place.address, place.length);
      if (found !== undefined) return this.#reader.open(found.bytes, found.view, found.at);
    }
    if (this.#staged.size > 0 || this.#facts.blocks.size > 0) {
      const block = this.#facts.blockAt(pid, offset) ?? this.#stagedBlock(lane, pid, offset);
      if (block !== undefined) return this.#reader.open(block.bytes, block.view, block.at);
    }
    this.needs.push({ kind: 'block', lane, pid, offset });
    return undefined;
  }

  #stagedBlock(lane: number, pid: number, offset: number): StagedBlock | undefined {
    const staged = this.#staged.get(lane);
    return staged === undefined || staged.pid !== pid ? undefined : findBlock(staged.blocks, offset);
  }

  find(_lane: number, pid: number, hashHigh: number, hashLow: number, sinceUs: number): number {
    const found = this.#index.findId(pid, hashHigh, hashLow, sinceUs);
    if (found !== undefined) {
      this.found = found;
      return found.offset;
    }
    if (!this.#index.mayHoldId(pid, hashHigh, hashLow, sinceUs)) return idLookup.absent;
    const fetched = this.#facts.ids.get(idKey(pid, hashHigh, hashLow));
    if (fetched === undefined) {
      this.needs.push({ kind: 'id', pid, high: hashHigh, low: hashLow, sinceUs });
      return idLookup.missing;
    }
    if (fetched === null || fetched.stampUs < sinceUs) return idLookup.absent;
    this.found = fetched;
    return fetched.offset;
  }

  firstFrom(lane: number, pid: number, stampUs: number): number {
    const fetched = this.#facts.times.get(`${pid}:${stampUs}`);
    if (fetched !== undefined) return fetched;
    this.needs.push({ kind: 'time', lane, pid, stampUs });
    return idLookup.missing;
  }

  /** Stamp of the record at an offset that is kept; undefined = it must be looked up. */
  stampAt(lane: number, pid: number, offset: number): number | undefined {
    const known = this.stampOf(lane, pid, offset);
    if (known > 0) return known;
    const fetched = this.#facts.stamps.get(`${pid}:${offset}`);
    if (fetched === undefined) this.needs.push({ kind: 'stamp', lane, pid, offset });
    return fetched;
  }

  stampOf(lane: number, pid: number, offset: number): number {
    return this.#index.find(lane, pid, offset)?.stampUs ?? 0;
  }

  blockAppended(_queue: Queue, lane: number, bytes: Uint8Array, view: DataView, at: number): void {
    this.#index.addBlock(lane, bytes, view, at, this.#log.draft.base + at);
  }

  blockRelocated(_lane: number, bytes: Uint8Array, view: DataView, at: number): void {
    this.#index.addRelocated(bytes, view, at, this.#log.draft.base + at);
  }

  partitionRemoved(lane: number): void {
    this.#index.forgetLane(lane);
    this.#unstage(lane);
  }

  /** Brings what a decision needs into memory. */
  async fetch(needs: readonly Need[], facts: FetchedFacts): Promise<void> {
    await Promise.all(needs.map((need) => this.#fetchOne(need, facts)));
  }

  async #fetchOne(need: Need, facts: FetchedFacts): Promise<void> {
    switch (need.kind) {
      case 'block':
        return this.stage(
          need.lane,
          need.pid,
          need.offset,
          storeLimits.readAheadRecords,
          storeLimits.readAheadBytes,
          facts,
        );
      case 'stamp': {
        const place = await this.#index.load(need.lane, need.pid, need.offset);
        if (place !== undefined) facts.stamps.set(`${need.pid}:${need.offset}`, place.stampUs);
        return;
      }
      case 'time': {
        const place = await this.#index.loadByTime(need.lane, need.pid, need.stampUs);
        facts.times.set(`${need.pid}:${need.stampUs}`, place === undefined ? idLookup.absent : place.firstOffset);
        return;
      }
      case 'id': {
        const found = await this.#index.loadId(need.pid, need.high, need.low, need.sinceUs);
        facts.ids.set(idKey(need.pid, need.high, need.low), found ?? null);
        return;
      }
    }
  }

  /**
   * Reads the blocks of a lane from `offset` on, up to a number of records and of bytes. They are kept for the operation
   * whose facts these are, whatever else is read, and for others as long as there is room.
   */
  stage(
    lane: number,
    pid: number,
    offset: number,
    recordsMax: number,
    bytesMax: number,
    facts: FetchedFacts,
  ): Promise<void> {
    return this.#tracked(this.#stage(lane, pid, offset, recordsMax, bytesMax, facts));
  }

  async #stage(
    lane: number,
    pid: number,
    offset: number,
    recordsMax: number,
    bytesMax: number,
    facts: FetchedFacts,
  ): Promise<void> {
    const blocks: StagedBlock[] = [];
    let bytes = 0;
    let weight: number = storeLimits.stagedLaneBytes;
    let next = offset;
    while (blocks.length < storeLimits.readAheadBlocks && bytes < bytesMax && next < offset + recordsMax) {
      const place = this.#index.find(lane, pid, next) ?? (await this.#index.load(lane, pid, next));
      if (place === undefined) {
        if (blocks.length === 0) throw new StoreDamage(`no block of pid ${pid} holds offset ${next}`);
        break;
      }
      // The place is read before anything else can ask the index: it is reused.
      const { address, length, firstOffset, stampUs } = place;
      const block = await this.#read(pid, address, length, firstOffset, stampUs);
      if (block === null) {
        // What lies before the damage is served; the next read begins with it.
        if (blocks.length > 0) break;
        throw damaged(pid, address, firstOffset);
      }
      blocks.push(block);
      bytes += length;
      weight += length + storeLimits.stagedBlockBytes;
      next = firstOffset + block.count;
    }
    facts.keep(pid, blocks);
    this.#unstage(lane);
    const staged = new StagedLane(lane, pid, blocks, weight);
    this.#staged.set(lane, staged);
    this.#stagedOrder.add(staged);
    this.#stagedBytes += weight;
    while (this.#stagedBytes > storeLimits.stagedBytes) {
      const { oldest } = this.#stagedOrder;
      if (oldest === null || oldest === staged) break;
      this.#unstage(oldest.lane);
    }
  }

  #unstage(lane: number): void {
    const staged = this.#staged.get(lane);
    if (staged === undefined) return;
    this.#stagedBytes -= staged.bytes;
    this.#stagedOrder.remove(staged);
    this.#staged.delete(lane);
  }

  /** Reads a block, unless it is in memory, and copies it; null when it is damaged. */
  async #read(
    pid: number,
    address: number,
    length: number,
    firstOffset: number,
    stampUs: number,
  ): Promise<StagedBlock | null> {
    await this.#load(address, length);
    return this.#copy(pid, address, length, firstOffset, stampUs);
  }

  /** Reads bytes into memory, unless they are there. Large reads wait for each other. */
  async #load(address: number, length: number): Promise<void> {
    if (this.#log.resident(address, length) !== undefined) return;
    while (this.#readingBytes > 0 && this.#readingBytes + length > storeLimits.readingBytes) {
      await new Promise<void>((resolve) => this.#waitingReads.push(resolve));
    }
    this.#readingBytes += length;
    try {
      await this.#log.load(address, length);
    } finally {
      this.#readingBytes -= length;
      this.#waitingReads.shift()?.();
    }
  }

  /** A copy of a resident block out of the log's memory; null when it is not the one that was written. */
  #copy(pid: number, address: number, length: number, firstOffset: number, stampUs: number): StagedBlock | null {
    const found = this.#log.resident(address, length);
    if (found === undefined) throw new StoreDamage(`the log lost ${length} bytes at ${address}`);
    if (this.#stagingAt + length > this.#staging.length) {
      this.#staging = new Uint8Array(Math.max(length, storeLimits.stagingBytes));
      this.#stagingView = new DataView(this.#staging.buffer);
      this.#stagingAt = 0;
    }
    const at = this.#stagingAt;
    this.#stagingAt += length;
    this.#staging.set(new Uint8Array(found.bytes.buffer, found.bytes.byteOffset + found.at, length), at);
    const view = this.#stagingView;
    if (!isWholeBlock(this.#staging, view, at, length, pid, firstOffset, stampUs, this.#hasher)) {
      return null;
    }
    return { firstOffset, count: blockCount(view, at), bytes: this.#staging, view, at };
  }

  /** Stamp of the append that holds an offset; 0 when there is none. Reads no payload. */
  async loadStamp(lane: number, pid: number, offset: number): Promise<number> {
    return (this.#index.find(lane, pid, offset) ?? (await this.#index.load(lane, pid, offset)))?.stampUs ?? 0;
  }

  /** First offset of the first append with a stamp ≥ `stampUs`; undefined when there is none. */
  async firstOffsetFrom(lane: number, pid: number, stampUs: number): Promise<number | undefined> {
    return (await this.#index.loadByTime(lane, pid, stampUs))?.firstOffset;
  }

  /** Offset of the newest record with this fingerprint, as far as ids are remembered; undefined when there is none. */
  async findId(pid: number, hashHigh: number, hashLow: number): Promise<number | undefined> {
    return (await this.#index.loadId(pid, hashHigh, hashLow, 0))?.offset;
  }

  /** `readBlock`; null when the partition or the record went away while it was being read. */
  async readBlockIfKept(state: BrokerState, lane: number, pid: number, offset: number): Promise<BlockReader | null> {
    try {
      return await this.readBlock(lane, pid, offset);
    } catch (error) {
      if (error instanceof StoreDamage && !state.isKept(lane, pid, offset)) return null;
      throw error;
    }
  }

  /** A checked copy of the block that holds an offset, whether it is in memory or not. */
  readBlock(lane: number, pid: number, offset: number): Promise<BlockReader> {
    return this.#tracked(this.#readBlock(lane, pid, offset));
  }

  /** Resolves when all reads that run now have ended: nobody holds a place any more that was looked up before. */
  async readsEnded(): Promise<void> {
    await Promise.allSettled([...this.#reads]);
  }

  #tracked<Result>(read: Promise<Result>): Promise<Result> {
    this.#reads.add(read);
    const forget = (): void => void this.#reads.delete(read);
    read.then(forget, forget);
    return read;
  }

  /** A checked copy of the block at a place that is known; null when it is not what was written there. */
  readPlace(pid: number, place: BlockLocation): Promise<{ readonly bytes: Uint8Array; readonly at: number } | null> {
    const { address, length, firstOffset, stampUs } = place;
    return this.#tracked(this.#read(pid, address, length, firstOffset, stampUs));
  }

  /**
   * Copies stored values into `target`, each to its place there, wherever they are. Rejects with StoreDamage when one is
   * not what was written.
   */
  readValues(values: readonly PlacedValue[], target: Uint8Array): Promise<void> {
    return this.#tracked(this.#readValues(values, target));
  }

  async #readValues(values: readonly PlacedValue[], target: Uint8Array): Promise<void> {
    // In the order of the log, so that a read brings its neighbours along.
    const ordered = [...values].sort((a, b) => a.address - b.address);
    for (const { address, length, at } of valueRuns(ordered)) {
      if (this.#log.resident(address, length) === undefined) await this.#load(address, length);
      const found = this.#log.resident(address, length);
      if (found === undefined) throw new StoreDamage(`the log lost ${length} bytes at ${address}`);
      target.set(new Uint8Array(found.bytes.buffer, found.bytes.byteOffset + found.at, length), at);
    }
    for (const { address, length, checksum, at } of ordered) {
      if (length === 0) continue;
      this.#hasher.checksum(target, at, at + length);
      if (this.#hasher.low !== checksum) throw new StoreDamage(`the value at log address ${address} is damaged`);
    }
  }

  async #readBlock(lane: number, pid: number, offset: number): Promise<BlockReader> {
    const place = this.#index.find(lane, pid, offset) ?? (await this.#index.load(lane, pid, offset));
    if (place === undefined) throw new StoreDamage(`no block of pid ${pid} holds offset ${offset}`);
    const { address, length, firstOffset, stampUs } = place;
    const block = await this.#read(pid, address, length, firstOffset, stampUs);
    if (block === null) throw damaged(pid, address, firstOffset);
    return new BlockReader().open(block.bytes, block.view, block.at);
  }
}

/** The block that holds an offset, by binary search. */
function findBlock(blocks: readonly StagedBlock[], offset: number): StagedBlock | undefined {
  let low = 0;
  let high = blocks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (blocks[middle].firstOffset <= offset) low = middle + 1;
    else high = middle;
  }
  if (low === 0) return undefined;
  const block = blocks[low - 1];
  return offset < block.firstOffset + block.count ? block : undefined;
}

function damaged(pid: number, address: number, firstOffset: number): StoreDamage {
  return new StoreDamage(`the block of pid ${pid} at offset ${firstOffset} (log address ${address}) is damaged`);
}

function idKey(pid: number, high: number, low: number): string {
  return `${pid}:${high}:${low}`;
}
