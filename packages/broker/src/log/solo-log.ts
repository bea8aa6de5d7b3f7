/**
 * The log of a broker that runs alone: segments on its own disk.
 *
 * Entries are encoded once, into tail memory, and written from there: one write (per slab) and one sync for everything
 * that was sealed while the previous sync ran. Addresses are given out when an entry begins, so that the records of an
 * entry know their places before it is sealed.
 *
 *      | durable | sealed: on its way | draft |
 *                ^ #durable           ^ #sealed
 *
 * Guarantees: `onDurable(n)` is called only after everything up to entry n survives a power cut. After a failed write or
 * sync nothing more is written, and `onFailure` is called once. Whatever a crash leaves, `open` finds the longest prefix
 * of entries that is whole, which holds all that was reported durable, or refuses with LogDamage.
 *
 * The data folder must be locked by the caller (`Disk.lock`): two logs on one folder destroy each other.
 */
import type { Disk, EntryDraft, Log, LogAddress, ResidentBytes, Scheduler } from '../ports/mod.ts';
import { ColdReads } from '../storage/cold-reads.ts';
import type { EntryVisitor } from '../storage/entry-scanner.ts';
import type { Checksum } from '../storage/log-checksum.ts';
import { LogDamage, type LogGap } from '../storage/log-damage.ts';
import {
  closedRecordBytes,
  type EntryFacts,
  emptyEntryFacts,
  entryHeaderBytes,
  writeClosedRecord,
  writeEntryHeader,
} from '../storage/log-entry.ts';
import { type LogOptions, logOptions } from '../storage/log-options.ts';
import { readLog } from '../storage/log-reader.ts';
import { type LogRecovery, type RecoveredLog, recoverLog } from '../storage/log-recovery.ts';
import {
  type SegmentRange,
  segmentFolder,
  segmentHeader,
  segmentPath,
  writeSegmentHeader,
} from '../storage/segment-format.ts';
import { SegmentWriter } from '../storage/segment-writer.ts';
import { TailMemory } from '../storage/tail-memory.ts';

export interface SoloLogParts {
  readonly disk: Disk;
  /** Used by this log alone while a call runs; may be shared with other synchronous users. */
  readonly checksum: Checksum;
  readonly scheduler: Scheduler;
  readonly options?: Partial<LogOptions>;
}

/** Numbers for people and metrics. All since the log was opened, but for those called `held`. */
export interface SoloLogStats {
  readonly syncs: number;
  readonly writes: number;
  readonly bytesWritten: number;
  readonly coldReads: number;
  readonly coldBytesRead: number;
  readonly tailBytesHeld: number;
  readonly coldBytesHeld: number;
}

type Segment = { -readonly [K in keyof SegmentRange]: SegmentRange[K] };

/** A write gathers what this many turns seal, or this many bytes. */
const gatherRoundsMax = 6;
const gatherBytesMax = 512 * 1024;

/** What is promised to be in memory stays through this many turns. */
const turnsKept = 2;

export class SoloLog implements Log {
  readonly draft: EntryDraft;
  /** What was found when the log was opened. */
  readonly recovery: LogRecovery;
  /** Greater than that of every entry written before. */
  readonly epoch: number;
  onDurable: (throughSequence: number) => void = () => undefined;
  /** Throws unless it is set, so that a failure is never overlooked. */
  onFailure: (error: Error) => void = (error) => {
    throw error;
  };
  /**
   * Called when a segment takes no more entries, all of it is durable, and the first entries of the next one are too:
   * from then on the files alone tell where it ends. In order.
   */
  onSegmentSealed: (base: LogAddress, end: LogAddress) => void = () => undefined;

  /** Called when a segment begins, before the first entry in it is filled. */
  onSegmentBegun: (base: LogAddress) => void = () => undefined;

  readonly #disk: Disk;
  readonly #checksum: Checksum;
  readonly #scheduler: Scheduler;
  readonly #options: LogOptions;
  readonly #memory: TailMemory;
  readonly #cold: ColdReads;
  readonly #writer: SegmentWriter;
  /** In order of address. The last one takes the draft; `end` is how far it is durable. */
  readonly #segments: Segment[];
  /** Index in #segments of the one that is written to. */
  #writing: number;
  readonly #entry: EntryFacts = emptyEntryFacts();
  #sequence: number;
  #durableSequence: number;
  #sealed: LogAddress;
  #durable: LogAddress;
  /** The last entry is the mark of a clean end. */
  #endsClosed: boolean;
  #busy = false;
  /** A sealed segment that was not reported yet. */
  #unreported: Segment | null = null;
  #failure: Error | null = null;
  #closed = false;
  #closing: Promise<void> | null = null;
  /** Wakes `close` when the writing loop ends. */
  #whenIdle: (() => void) | null = null;
  #turn = 0;
  #turnsWanted = 0;
  #syncs = 0;
  #writes = 0;
  #bytesWritten = 0;

  /**
   * Opens the log, or begins one. Everything that can be read afterwards is durable. Rejects with LogDamage when entries
   * that had been durable are missing or changed, and with what the disk reports.
   */
  static async open(parts: SoloLogParts): Promise<SoloLog> {
    const options = logOptions(parts.options);
    const recovered = await recoverLog(parts.disk, parts.checksum, options);
    const log = new SoloLog(parts, options, recovered);
    try {
      await log.#start();
    } catch (error) {
      log.#failure = error as Error;
      await log.close();
      throw error;
    }
    return log;
  }

  private constructor(parts: SoloLogParts, options: LogOptions, recovered: RecoveredLog) {
    const { facts, segments } = recovered;
    this.recovery = facts;
    this.epoch = facts.lastEpoch + 1;
    this.#disk = parts.disk;
    this.#checksum = parts.checksum;
    this.#scheduler = parts.scheduler;
    this.#options = options;
    this.#memory = new TailMemory(options, facts.tail);
    this.draft = this.#memory;
    this.#cold = new ColdReads(parts.disk, options);
    this.#writer = new SegmentWriter(parts.disk, options);
    this.#segments = segments.map(({ base, fileBytes, firstSequence }, i) => ({
      base,
      // Behind a file that does not reach the next one, something was reclaimed.
      end: i + 1 < segments.length ? Math.min(base + fileBytes, segments[i + 1].base) : facts.tail,
      sealed: i + 1 < segments.length,
      firstSequence,
    }));
    this.#writing = Math.max(0, segments.length - 1);
    this.#sequence = facts.lastSequence;
    this.#durableSequence = facts.lastSequence;
    this.#sealed = facts.tail;
    this.#durable = facts.tail;
    this.#endsClosed = facts.cleanlyClosed;
  }

  get nextSequence(): number {
    return this.#sequence + 1;
  }

  get durableSequence(): number {
    return this.#durableSequence;
  }

  get tail(): LogAddress {
    return this.#sealed;
  }

  get draftHasRecords(): boolean {
    return this.#memory.position - this.#memory.entryAt > entryHeaderBytes;
  }

  /** Bytes sealed and not yet durable. They take memory beyond `tailBytes` if need be: hold back commands by this. */
  get unsyncedBytes(): number {
    return this.#sealed - this.#durable;
  }

  seal(facts: { stampUs: number; digest: number; recordCount: number }): number {
    if (this.#closed) throw new Error('the log is closed');
    const memory = this.#memory;
    const at = memory.entryAt;
    const entry = this.#entry;
    entry.address = memory.entryAddress;
    entry.length = memory.position - at;
    entry.sequence = this.#sequence + 1;
    entry.stampUs = facts.stampUs;
    entry.digest = facts.digest;
    entry.epoch = this.epoch;
    entry.recordCount = facts.recordCount;
    entry.syncedThrough = this.#durable;
    writeEntryHeader(memory.bytes, memory.view, at, entry, this.#checksum);
    this.#sequence = entry.sequence;
    this.#sealed = entry.address + entry.length;
    this.#endsClosed = false;
    memory.sealBytes();
    this.#beginEntry();
    this.#write();
    return entry.sequence;
  }

  recent(address: LogAddress, length: number): ResidentBytes | undefined {
    return this.#memory.resident(address, length);
  }

  resident(address: LogAddress, length: number): ResidentBytes | undefined {
    const found = this.#memory.resident(address, length);
    if (found !== undefined) return found;
    const segment = this.#segmentAt(address);
    return segment === undefined ? undefined : this.#cold.resident(segment, address, length);
  }

  /** Rejects with LogDamage when the log holds no such bytes, and with what the disk reports. */
  async load(address: LogAddress, length: number): Promise<void> {
    if (this.#memory.pin(address, length, this.#turn + turnsKept)) {
      this.#countTurns();
      return;
    }
    const segment = this.#segmentAt(address);
    if (segment === undefined || address + length > segment.end) {
      throw new LogDamage(segmentFolder, address, `the log does not hold ${length} bytes there`);
    }
    await this.#cold.load(segment, address, length);
    this.#countTurns();
  }

  segmentEnd(address: LogAddress): LogAddress | undefined {
    const segment = this.#segmentAt(address);
    return segment === undefined || address >= segment.end ? undefined : segment.end;
  }

  async readInto(address: LogAddress, target: Uint8Array): Promise<void> {
    const segment = this.#segmentAt(address);
    if (segment === undefined || address + target.length > segment.end) {
      throw new LogDamage(segmentFolder, address, `the log does not hold ${target.length} bytes there`);
    }
    await this.#cold.readInto(segment, address, target);
  }

  /**
   * Shows the durable entries from an address on (an entry's, or a segment's base; `tail` shows none), the marks of clean
   * ends included. Every entry is checked. Rejects with LogDamage when one cannot be read, and with what `visit` throws.
   */
  async replay(from: LogAddress, visit: EntryVisitor): Promise<void> {
    if (from === this.#durable) return;
    const range = { from, afterSequence: -1, throughSequence: this.#durableSequence };
    await readLog(this.#disk, this.#checksum, range, visit, this.#options);
  }

  /** All segments, in order of address. */
  segments(): SegmentRange[] {
    return this.#segments.map((segment) => ({ ...segment }));
  }

  /** Sealed segments before a part that was reclaimed end where that begins; a file may have zeros behind its end. */
  noteReclaimed(reclaimedBefore: (address: LogAddress) => LogGap | undefined): void {
    for (let i = 0; i + 1 < this.#segments.length; i++) {
      const segment = this.#segments[i];
      const range = reclaimedBefore(segment.end);
      if (range !== undefined && range.base > segment.base) segment.end = range.base;
    }
  }

  /**
   * Removes the file of a sealed segment, which nobody may need any more. Reads of it that still run, and all that come
   * later, reject.
   */
  async removeSegment(base: LogAddress): Promise<void> {
    const index = this.#segments.findIndex((segment) => segment.base === base);
    if (index < 0 || index >= this.#writing) throw new Error(`there is no sealed segment at ${base}`);
    const [segment] = this.#segments.splice(index, 1);
    this.#writing--;
    await this.#cold.forget(segment);
    await this.#disk.remove(segmentPath(base));
    await this.#disk.syncFolder(segmentFolder);
  }

  stats(): SoloLogStats {
    return {
      syncs: this.#syncs,
      writes: this.#writes,
      bytesWritten: this.#bytesWritten,
      coldReads: this.#cold.reads,
      coldBytesRead: this.#cold.bytesRead,
      tailBytesHeld: this.#memory.heldBytes,
      coldBytesHeld: this.#cold.heldBytes,
    };
  }

  /**
   * The draft must hold no records unless the log has failed. After a failure only the files are closed. Rejects when
   * the last bytes or the mark could not be made durable.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#failure === null && this.draftHasRecords) throw new Error('the draft holds records that were not sealed');
    await this.#idle();
    const failedBefore = this.#failure !== null;
    if (!failedBefore && !this.#endsClosed) {
      this.#sealClosedMark();
      await this.#idle();
    }
    this.#closed = true;
    await this.#closeFiles();
    if (!failedBefore && this.#failure !== null) throw this.#failure;
  }

  async #start(): Promise<void> {
    const last = this.#segments[this.#segments.length - 1];
    if (last === undefined) await this.#beginLog();
    else await this.#writer.resume(last.base);
    this.#beginEntry();
  }

  /** The very first segment is made before anything is in it. */
  async #beginLog(): Promise<void> {
    const memory = this.#memory;
    this.#segments.push({ base: 0, end: segmentHeader.bytes, sealed: false, firstSequence: 1 });
    this.#putSegmentHeader(0);
    memory.sealBytes();
    await this.#writer.begin(0);
    await this.#writer.write(memory.sealedRun(0, segmentHeader.bytes), 0);
    await this.#writer.publish();
    this.#sealed = segmentHeader.bytes;
    this.#durable = segmentHeader.bytes;
    memory.durableThrough(segmentHeader.bytes);
  }

  /** Begins the next entry, in the next segment when this one is full. */
  #beginEntry(): void {
    const memory = this.#memory;
    const segment = this.#segments[this.#segments.length - 1];
    if (this.#sealed - segment.base >= this.#options.segmentBytes) {
      const base = this.#sealed;
      this.#segments.push({ base, end: base, sealed: false, firstSequence: this.#sequence + 1 });
      this.#putSegmentHeader(base);
      this.onSegmentBegun(base);
    }
    memory.beginEntry();
  }

  #putSegmentHeader(base: LogAddress): void {
    const memory = this.#memory;
    memory.require(segmentHeader.bytes);
    const facts = { base, firstSequence: this.#sequence + 1, epoch: this.epoch };
    writeSegmentHeader(memory.bytes, memory.view, memory.position, facts, this.#checksum);
    memory.position += segmentHeader.bytes;
  }

  #sealClosedMark(): void {
    const memory = this.#memory;
    memory.require(closedRecordBytes);
    writeClosedRecord(memory.view, memory.position);
    memory.position += closedRecordBytes;
    // The state's digest is not known here; readers leave this entry's alone.
    this.seal({ stampUs: Math.max(this.#entry.stampUs, this.recovery.lastStampUs), digest: 0, recordCount: 1 });
    this.#endsClosed = true;
  }

  #write(): void {
    if (this.#busy || this.#failure !== null) return;
    this.#busy = true;
    void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#durable < this.#sealed) {
        await this.#gather();
        await this.#writeGroup();
      }
    } catch (error) {
      this.#failure = error as Error;
    }
    this.#busy = false;
    this.#whenIdle?.();
    this.#whenIdle = null;
    // Whoever closes the log hears of a failure from `close`.
    if (this.#failure !== null && this.#closing === null) this.onFailure(this.#failure);
  }

  /**
   * Waits as long as turns follow each other without a pause, but not for many. Each write costs the processor as much as
   * some ten records do, and a loop that is busy serves others meanwhile; one that has nothing else to do writes at once.
   */
  async #gather(): Promise<void> {
    let sealed = -1;
    for (let rounds = 0; rounds < gatherRoundsMax && sealed !== this.#sealed; rounds++) {
      if (this.#sealed - this.#durable >= gatherBytesMax) return;
      sealed = this.#sealed;
      // What arrives in one round of the loop is decided and sealed in the next.
      await this.#nextRound();
      await this.#nextRound();
    }
  }

  #nextRound(): Promise<void> {
    return new Promise((resolve) => this.#scheduler.soon(resolve));
  }

  /** Makes durable what was sealed up to now, as far as it lies in one segment. */
  async #writeGroup(): Promise<void> {
    const segment = this.#segments[this.#writing];
    const next = this.#segments[this.#writing + 1];
    const limit = next === undefined ? this.#sealed : next.base;
    const through = next === undefined ? this.#sequence : next.firstSequence - 1;
    if (this.#durable === segment.base) await this.#writer.begin(segment.base);
    let at = this.#durable;
    while (at < limit) {
      const run = this.#memory.sealedRun(at, limit);
      await this.#writer.write(run, at);
      at += run.length;
      this.#writes++;
    }
    await this.#writer.publish();
    this.#syncs++;
    this.#bytesWritten += limit - this.#durable;
    segment.end = limit;
    this.#durable = limit;
    this.#durableSequence = through;
    this.#memory.durableThrough(limit);
    const before = this.#unreported;
    this.#unreported = null;
    if (next !== undefined) {
      segment.sealed = true;
      this.#unreported = segment;
      this.#writing++;
    } else if (limit - segment.base >= this.#options.segmentBytes / 2) {
      this.#writer.prepare();
    }
    this.onDurable(through);
    if (before !== null) this.onSegmentSealed(before.base, before.end);
  }

  #idle(): Promise<void> {
    if (!this.#busy) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  async #closeFiles(): Promise<void> {
    try {
      await this.#writer.close();
    } catch (error) {
      // Once something failed, a second failure says nothing new.
      if (this.#failure === null) throw error;
    } finally {
      await this.#cold.close();
    }
  }

  /** The segment that holds the address, by binary search. */
  #segmentAt(address: LogAddress): Segment | undefined {
    const segments = this.#segments;
    let low = 0;
    let high = segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (segments[middle].base <= address) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? undefined : segments[low - 1];
  }

  /** Lets turns pass until nothing is kept by a promise any more. */
  #countTurns(): void {
    const counting = this.#turnsWanted > 0;
    this.#turnsWanted = turnsKept;
    if (!counting) this.#scheduler.soon(() => this.#beginTurn());
  }

  #beginTurn(): void {
    this.#turn++;
    this.#turnsWanted--;
    this.#memory.turnBegan(this.#turn);
    this.#cold.turnBegan(this.#turn);
    if (this.#turnsWanted === 0 && this.#cold.isOverBudget) this.#turnsWanted = 1;
    if (this.#turnsWanted > 0) this.#scheduler.soon(() => this.#beginTurn());
  }
}
