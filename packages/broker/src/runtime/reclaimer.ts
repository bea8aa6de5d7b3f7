/**
 * Gives back the disk of what is gone. A segment of the log can go when nobody needs what is in it any more:
 *
 *   scanned ──nothing is live────────────────────────────┐
 *      └──little is live──▶ that is written once more     ▼
 *                            at the tail ────────────▶ free ──▶ announced ──▶ removed
 *
 * Live are the blocks that partitions keep, and the values that rows of edge tables refer to.
 *
 *   free        all of it lies before the newest snapshot, so that no start has to replay it
 *   announced   a record in the log says that the segment may be missing; a snapshot that holds it is taken
 *   removed     both snapshots that are kept can be started from without it: its file goes
 *
 * Its ids stay findable, in its sidecar, until nobody asks for them any more.
 *
 * How many live blocks a segment has is found by reading its sidecar, which lists its blocks. That is done for segments
 * that hold little else than what nobody reads again, and when the difference between the blocks that are stored and those
 * that the partitions hold shows that there is enough to be gained, oldest segments first, because there it usually is.
 * How many live values it has is found by walking over the rows of edge tables, for all segments at once: when another one
 * was sealed, or values enough for half a segment went.
 */
import { isLive, type StoredEdgeValue } from '../core/mod.ts';
import type { HousekeepingHost } from './housekeeping.ts';
import type { StoredBlock, StoredSegment } from './store.ts';
import { type PlacedValue, StoreDamage } from './store-access.ts';

/** How the reclaimer's work is cut into steps; each rejects when the broker stops. */
export interface Steps {
  /** Makes `work` one operation; resolves when what it wrote is durable. */
  decide(work: () => void): Promise<void>;
  pause(): Promise<void>;
  wait(ms: number): Promise<void>;
}

/** Live blocks of a segment with less than this share of its bytes are relocated. */
const sparseShare = 0.3;
/** A search begins when this share of the log may be garbage that no search has found, and at least half a segment. */
const searchShare = 1 / 32;
/** Bytes of blocks or values that are copied in one operation. */
const relocatedBytesPerStep = 256 * 1024;
/** Rows of edge tables that are looked at in one go. */
const rowsPerStep = 4096;
/** A snapshot is asked for when this share of its size can be given back. */
const snapshotShare = 0.25;
/** How long relocation gives way to requests before it goes on all the same. */
const yieldMs = 10;
const yieldsMax = 20;

/** What is known of a segment since it was looked at. */
interface Scanned {
  /** Of its blocks. */
  readonly liveBytes: number;
}

/** A segment whose removal the log announces, with the entry that does or a later one. */
interface Announced extends StoredSegment {
  readonly sequence: number;
}

interface LiveBlock {
  readonly pid: number;
  readonly firstOffset: number;
  readonly count: number;
  readonly stampUs: number;
  readonly address: number;
  readonly length: number;
}

export interface ReclaimCounts {
  reclaimedSegments: number;
  reclaimedBytes: number;
  relocatedBytes: number;
}

export class Reclaimer {
  readonly counts: ReclaimCounts = { reclaimedSegments: 0, reclaimedBytes: 0, relocatedBytes: 0 };
  readonly #host: HousekeepingHost;
  readonly #steps: Steps;
  readonly #bytesPerSecond: number;
  readonly #scanned = new Map<number, Scanned>();
  /** Nobody needs what is in these. */
  readonly #free = new Map<number, StoredSegment>();
  readonly #announced = new Map<number, Announced>();
  /** Segments with a block that is not what was written: they stay, so that nothing is lost by us. */
  readonly #damaged = new Set<number>();
  /** Bytes of live values by segment, as they were counted when the tables had dropped so many. */
  #edgeBytes: ReadonlyMap<number, number> = new Map();
  #droppedBytesCounted = 0;
  /** Garbage that the last search over everything left unexplained. */
  #unexplainedBytes = 0;

  constructor(host: HousekeepingHost, steps: Steps, bytesPerSecond: number) {
    this.#host = host;
    this.#steps = steps;
    this.#bytesPerSecond = bytesPerSecond;
    const { segments } = this.#host.store;
    for (const { base, end } of segments.sealed()) {
      const sequence = segments.announcedBy(base);
      if (sequence !== undefined) this.#announced.set(base, { base, end, sequence });
    }
  }

  async pass(): Promise<void> {
    await this.#host.store.segments.expireIds();
    await this.#search();
    await this.#announce();
    await this.#remove();
  }

  /** Sealed segments that may still be reclaimed. */
  #candidates(): StoredSegment[] {
    const { segments, state } = this.#host.store;
    return segments.sealed().filter(({ base }) => !this.#free.has(base) && !state.reclaimed.holds(base));
  }

  /** Bytes of stored blocks that nobody needs, and that no search has found in any segment yet. */
  #unfoundBytes(candidates: readonly StoredSegment[]): number {
    const { segments, state } = this.#host.store;
    let bytes = segments.unsealedBlockBytes();
    for (const { base } of candidates) bytes += this.#scanned.get(base)?.liveBytes ?? segments.blockBytes(base);
    for (const queue of state.queues.values()) bytes -= queue.retainedBytes;
    return bytes;
  }

  /** True when it holds little else than what nobody reads again: positions of groups, or values that are gone. */
  #isSparse({ base, end }: StoredSegment): boolean {
    const blockBytes = this.#scanned.get(base)?.liveBytes ?? this.#host.store.segments.blockBytes(base);
    return !this.#damaged.has(base) && blockBytes + this.#edgeBytesOf(base) <= (end - base) * sparseShare;
  }

  async #search(): Promise<void> {
    await this.#countEdgeBytes(this.#candidates());
    for (const segment of this.#candidates()) if (this.#isSparse(segment)) await this.#look(segment);
    const candidates = this.#candidates();
    if (candidates.length === 0) return;
    const storedBytes = candidates.reduce((sum, { base, end }) => sum + end - base, 0);
    const threshold = Math.max(storedBytes / candidates.length / 2, storedBytes * searchShare);
    let unfoundBytes = this.#unfoundBytes(candidates);
    this.#unexplainedBytes = Math.min(this.#unexplainedBytes, unfoundBytes);
    if (unfoundBytes - this.#unexplainedBytes < threshold) return;
    for (const segment of candidates) {
      if (this.#damaged.has(segment.base)) continue;
      unfoundBytes -= await this.#look(segment);
      if (unfoundBytes - this.#unexplainedBytes < threshold / 2) return;
    }
    this.#unexplainedBytes = Math.max(0, unfoundBytes);
  }

  /** Bytes of live values in a segment when they were counted last: no more since then. */
  #edgeBytesOf(base: number): number {
    return this.#edgeBytes.get(base) ?? Number.POSITIVE_INFINITY;
  }

  /** Values never come into a sealed segment: those that go while they are counted are found gone the next time. */
  async #countEdgeBytes(candidates: readonly StoredSegment[]): Promise<void> {
    if (candidates.length === 0) return;
    const { edges } = this.#host.store.state;
    const { droppedBytes } = edges;
    const storedBytes = candidates.reduce((sum, { base, end }) => sum + end - base, 0);
    const enoughBytes = storedBytes / candidates.length / 2;
    const isKnown = candidates.every(({ base }) => this.#edgeBytes.has(base));
    if (isKnown && droppedBytes - this.#droppedBytesCounted < enoughBytes) return;
    const found = new Map(candidates.map(({ base }) => [base, 0]));
    const count = (address: number, length: number): boolean => {
      const segment = segmentOf(candidates, address);
      if (segment !== undefined) found.set(segment.base, (found.get(segment.base) ?? 0) + length);
      return false;
    };
    for (const _ of edges.walkValues(rowsPerStep, count, () => undefined)) await this.#steps.pause();
    this.#edgeBytes = found;
    this.#droppedBytesCounted = droppedBytes;
  }

  /** Finds out what of a segment is alive, and empties it when that is little. Returns the garbage it found in it. */
  async #look(segment: StoredSegment): Promise<number> {
    const { base, end } = segment;
    const { segments, state } = this.#host.store;
    const bytesBefore = this.#scanned.get(base)?.liveBytes ?? segments.blockBytes(base);
    const sparseBytes = (end - base) * sparseShare;
    const edgeBytes = this.#edgeBytesOf(base);
    let liveBytes = 0;
    let live: LiveBlock[] = [];
    const note = (block: StoredBlock): void => {
      if (!isLive(state, block.pid, block.firstOffset, block.count)) return;
      liveBytes += block.length;
      if (liveBytes + edgeBytes <= sparseBytes) live.push({ ...block });
      else if (live.length > 0) live = [];
    };
    const isShown = await this.#heedingDamage(base, () => segments.visitBlocks(base, note, () => this.#steps.pause()));
    if (isShown !== true) return 0;
    const isSparse = liveBytes + edgeBytes <= sparseBytes;
    if (isSparse && (await this.#relocate(base, live)) && (await this.#relocateValues(segment, edgeBytes))) {
      this.#free.set(base, { base, end });
      this.#scanned.delete(base);
    } else this.#scanned.set(base, { liveBytes });
    return bytesBefore - liveBytes;
  }

  /** Writes blocks once more at the tail; false when one of them cannot be read. */
  async #relocate(base: number, live: readonly LiveBlock[]): Promise<boolean> {
    const { access, store } = this.#host;
    let batch: { block: LiveBlock; bytes: Uint8Array; at: number }[] = [];
    let bytes = 0;
    for (const block of live) {
      if (await store.segments.hasRelocated(block.pid, block.firstOffset, block.address)) continue;
      const read = await access.readPlace(block.pid, block);
      if (read === null) {
        const damage = new StoreDamage(
          `the block of pid ${block.pid} at offset ${block.firstOffset} (log address ${block.address}) is damaged`,
        );
        this.#damaged.add(base);
        this.#host.noteDamage(damage);
        return false;
      }
      batch.push({ block, bytes: read.bytes, at: read.at });
      bytes += block.length;
      if (bytes < relocatedBytesPerStep) continue;
      await this.#write(batch, bytes);
      batch = [];
      bytes = 0;
    }
    if (batch.length > 0) await this.#write(batch, bytes);
    return true;
  }

  /** Writes the values that rows refer to once more at the tail; false when one of them cannot be read. */
  async #relocateValues({ base, end }: StoredSegment, liveBytes: number): Promise<boolean> {
    if (liveBytes === 0) return true;
    const { edges } = this.#host.store.state;
    const isInside = (address: number): boolean => address >= base && address < end;
    let batch: (StoredEdgeValue & PlacedValue)[] = [];
    let bytes = 0;
    const found: StoredEdgeValue[] = [];
    for (const _ of edges.walkValues(rowsPerStep, isInside, (value) => found.push(value))) {
      for (const value of found.splice(0)) {
        batch.push({ ...value, at: bytes });
        bytes += value.length;
        if (bytes < relocatedBytesPerStep) continue;
        if (!(await this.#writeValues(base, batch, bytes))) return false;
        batch = [];
        bytes = 0;
      }
      await this.#steps.pause();
    }
    return batch.length === 0 || this.#writeValues(base, batch, bytes);
  }

  async #writeValues(base: number, batch: readonly (StoredEdgeValue & PlacedValue)[], bytes: number): Promise<boolean> {
    const { access, store } = this.#host;
    const source = new Uint8Array(bytes);
    const isRead = await this.#heedingDamage(base, async () => {
      await access.readValues(batch, source);
      return true;
    });
    if (isRead !== true) return false;
    await this.#giveWay();
    await this.#steps.decide(() => {
      for (const value of batch) {
        if (!store.state.edges.isStored(value)) continue;
        this.#host.context.journal.edges.valueMoved(value, source, value.at);
        this.counts.relocatedBytes += value.length;
      }
    });
    await this.#steps.wait((bytes / this.#bytesPerSecond) * 1000);
    return true;
  }

  /** Requests go first, for a while. */
  async #giveWay(): Promise<void> {
    for (let waited = 0; waited < yieldsMax && this.#host.isBusy(); waited++) await this.#steps.wait(yieldMs);
  }

  async #write(batch: readonly { block: LiveBlock; bytes: Uint8Array; at: number }[], bytes: number): Promise<void> {
    await this.#giveWay();
    await this.#steps.decide(() => {
      const { state, journal } = this.#host.context;
      for (const { block, bytes: source, at } of batch) {
        if (!isLive(state, block.pid, block.firstOffset, block.count)) continue;
        journal.relocatedBlock(block.address, source, at, block.length);
        this.counts.relocatedBytes += block.length;
      }
    });
    await this.#steps.wait((bytes / this.#bytesPerSecond) * 1000);
  }

  /** A segment that cannot be understood is left alone: its damage is reported, and what it holds is not lost by us. */
  async #heedingDamage<Result>(base: number, work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreDamage)) throw error;
      this.#damaged.add(base);
      this.#host.noteDamage(error);
      return undefined;
    }
  }

  /** Says in the log which segments may be missing from now on. */
  async #announce(): Promise<void> {
    if (this.#free.size === 0) return;
    const { log, segments } = this.#host.store;
    const { newestAddress } = segments.snapshots();
    const covered = [...this.#free.values()].filter(({ end }) => end <= newestAddress);
    if (covered.length < this.#free.size) this.#wantSnapshot(this.#free.values());
    if (covered.length === 0) return;
    let sequence = 0;
    await this.#steps.decide(() => {
      for (const { base, end } of covered) this.#host.context.journal.segmentReclaimed({ base, end });
      sequence = log.nextSequence;
    });
    for (const { base, end } of covered) {
      this.#free.delete(base);
      this.#announced.set(base, { base, end, sequence });
    }
  }

  /** Removes what no start needs any more, whichever of the two snapshots it begins with. */
  async #remove(): Promise<void> {
    if (this.#announced.size === 0) return;
    const { segments } = this.#host.store;
    const { newestSequence, coveredAddress } = segments.snapshots();
    const due = [...this.#announced.values()].filter(
      ({ sequence, end }) => sequence <= newestSequence && end <= coveredAddress,
    );
    if (due.length < this.#announced.size) this.#wantSnapshot(this.#announced.values());
    for (const { base } of due) await segments.dropBlocks(base);
    // Whoever looked a place up before may still be reading there.
    if (due.length > 0) await this.#host.access.readsEnded();
    for (const { base, end } of due) {
      await this.#steps.pause();
      await segments.remove(base);
      this.#announced.delete(base);
      this.counts.reclaimedSegments++;
      this.counts.reclaimedBytes += end - base;
    }
    if (due.length > 0) this.#host.log('info', `${due.length} segments of the log were given back to the disk`);
  }

  /** Asks for a snapshot when that is worth its size. */
  #wantSnapshot(waiting: Iterable<StoredSegment>): void {
    let bytes = 0;
    for (const { base, end } of waiting) bytes += end - base;
    if (bytes >= this.#host.store.segments.snapshots().newestBytes * snapshotShare) this.#host.requestSnapshot();
  }
}

/** Of segments in order of address the one that holds an address. */
function segmentOf(segments: readonly StoredSegment[], address: number): StoredSegment | undefined {
  let from = 0;
  let to = segments.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (segments[middle].base <= address) from = middle + 1;
    else to = middle;
  }
  const segment = segments[from - 1];
  return segment !== undefined && address < segment.end ? segment : undefined;
}
