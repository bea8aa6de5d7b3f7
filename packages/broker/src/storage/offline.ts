/**
 * Looks at a log without opening it for writing: what `lanemq inspect` and `lanemq verify` are made of.
 *
 * Works on damaged logs too: each damaged place is reported with its address, and reading goes on at the next good entry.
 * On a folder that a broker is writing to, the end that is seen is a moment's view.
 */
import type { Disk, LogAddress } from '../ports/mod.ts';
import { EntryScanner, type EntryVisitor, type ScanEnd } from './entry-scanner.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage, type LogGap } from './log-damage.ts';
import { isClosedEntry, walkRecords } from './log-entry.ts';
import { logOptions } from './log-options.ts';
import { type ReadOptions, segmentEnd } from './log-reader.ts';
import { segmentHeader } from './segment-format.ts';
import { listSegments, type SegmentFile } from './segment-list.ts';
import { findNextEntry, judgeTail } from './segment-tail.ts';

export interface DamageReport {
  /** File in the data folder. */
  readonly segment: string;
  readonly address: LogAddress;
  readonly reason: string;
}

export interface SegmentReport {
  readonly path: string;
  readonly base: LogAddress;
  /** Address behind the last good entry. */
  readonly end: LogAddress;
  readonly sealed: boolean;
  /** Size of the file. May be more than end − base in the last segment, which can have zeros behind its last entry. */
  readonly fileBytes: number;
  readonly entries: number;
  readonly entryBytes: number;
  readonly records: number;
  /** Of the first and last good entry; 0 when there is none. */
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly firstEpoch: number;
  readonly lastEpoch: number;
  readonly firstStampUs: number;
  readonly lastStampUs: number;
}

export interface LogReport {
  readonly segments: readonly SegmentReport[];
  readonly damage: readonly DamageReport[];
  /** Parts of the log that no file covers: reclaimed, or lost. The log alone cannot tell which. */
  readonly gaps: readonly LogGap[];
  /** Number of records by their type number (see codec/format.ts, `recordType`). */
  readonly recordsByType: ReadonlyMap<number, number>;
  readonly entries: number;
  readonly entryBytes: number;
  readonly lastSequence: number;
  /** Address behind the last good entry. */
  readonly tail: LogAddress;
  readonly cleanlyClosed: boolean;
  /** Bytes of an unfinished write behind the tail, which the next start will cut. */
  readonly unfinishedBytes: number;
}

/** Reads the whole log and says what is in it. */
export function inspectLog(disk: Disk, checksum: Checksum, options: ReadOptions = {}): Promise<LogReport> {
  return verifyLog(disk, checksum, () => undefined, options);
}

/**
 * The same, and shows each good entry to `visit`, in order. What `visit` throws is thrown. After damage entries may be
 * missing between two that are shown.
 */
export async function verifyLog(
  disk: Disk,
  checksum: Checksum,
  visit: EntryVisitor,
  options: ReadOptions = {},
): Promise<LogReport> {
  return new LogInspection(disk, checksum, visit, options).run();
}

type SegmentCounts = { -readonly [K in keyof SegmentReport]: SegmentReport[K] };

class LogInspection {
  readonly #disk: Disk;
  readonly #checksum: Checksum;
  readonly #visit: EntryVisitor;
  readonly #options: ReturnType<typeof logOptions>;
  readonly #scanner: EntryScanner;
  readonly #segments: SegmentCounts[] = [];
  readonly #damage: DamageReport[] = [];
  readonly #gaps: LogGap[] = [];
  readonly #recordsByType = new Map<number, number>();
  #closed = true;
  #unfinishedBytes = 0;

  constructor(disk: Disk, checksum: Checksum, visit: EntryVisitor, options: ReadOptions) {
    this.#disk = disk;
    this.#checksum = checksum;
    this.#visit = visit;
    this.#options = logOptions(options);
    this.#scanner = new EntryScanner(checksum, this.#options);
  }

  async run(): Promise<LogReport> {
    const files = await listSegments(this.#disk, this.#checksum, (damage) => this.#report(damage));
    let reached = 0;
    for (let i = 0; i < files.length; i++) {
      const { base } = files[i];
      const followsGap = base > reached;
      if (followsGap) this.#gaps.push({ base: reached, end: base });
      reached = await this.#inspectSegment(files[i], segmentEnd(files, i), i === files.length - 1, followsGap);
    }
    const last = this.#segments[this.#segments.length - 1];
    return {
      segments: this.#segments,
      damage: this.#damage,
      gaps: this.#gaps,
      recordsByType: this.#recordsByType,
      entries: this.#segments.reduce((sum, segment) => sum + segment.entries, 0),
      entryBytes: this.#segments.reduce((sum, segment) => sum + segment.entryBytes, 0),
      lastSequence: Math.max(0, this.#scanner.sequence),
      tail: last?.end ?? 0,
      cleanlyClosed: this.#closed,
      unfinishedBytes: this.#unfinishedBytes,
    };
  }

  /**
   * Returns the address that the segment reaches to. A file may have zeros behind its last entry, and then nothing tells
   * how far it reached before what followed was reclaimed: what lies from there to the next segment is a gap.
   */
  async #inspectSegment(
    segment: SegmentFile,
    end: LogAddress,
    isLast: boolean,
    followsGap: boolean,
  ): Promise<LogAddress> {
    const counts = emptyCounts(segment, !isLast);
    this.#segments.push(counts);
    this.#beginSegment(segment, followsGap);
    const file = await this.#disk.open(segment.path, 'read');
    try {
      let from = counts.end;
      for (;;) {
        const range = { base: segment.base, path: segment.path, from, end, throughSequence: Infinity };
        const stop = await this.#scan(counts, range, file);
        if (stop.reason === null) return end;
        const tailRange = { base: segment.base, from: stop.address, fileBytes: segment.fileBytes };
        const tail = await judgeTail(file, tailRange, this.#scanner, this.#checksum, this.#options);
        if (tail.proof === null && (isLast || tail.strayBytes === 0)) {
          if (isLast) this.#unfinishedBytes = tail.strayBytes;
          return stop.address;
        }
        this.#report(new LogDamage(segment.path, stop.address, stop.reason));
        const next = await findNextEntry(file, tailRange, this.#checksum, this.#options);
        if (next === null || next.address >= end) return end;
        from = next.address;
        // What lies between is lost, and reported; the entries behind it are counted from where they begin.
        this.#scanner.sequence = -1;
        this.#scanner.epoch = 0;
      }
    } finally {
      await file.close();
    }
  }

  #beginSegment(segment: SegmentFile, followsGap: boolean): void {
    const scanner = this.#scanner;
    const before = segment.firstSequence - 1;
    if (!followsGap && scanner.sequence >= 0 && scanner.sequence !== before) {
      const reason = `it begins with sequence ${segment.firstSequence}, and ${scanner.sequence} came before`;
      this.#report(new LogDamage(segment.path, segment.base, reason));
    }
    scanner.sequence = before;
    scanner.epoch = segment.epoch;
  }

  async #scan(
    counts: SegmentCounts,
    range: Parameters<EntryScanner['scan']>[1],
    file: Parameters<EntryScanner['scan']>[0],
  ): Promise<ScanEnd> {
    try {
      return await this.#scanner.scan(file, range, (entry, bytes, view, start, end) => {
        this.#count(counts, entry, bytes, view, start, end);
        this.#visit(entry, bytes, view, start, end);
      });
    } catch (error) {
      if (!(error instanceof LogDamage)) throw error;
      return { address: error.address, reason: error.reason };
    }
  }

  #count(counts: SegmentCounts, ...[entry, bytes, view, start, end]: Parameters<EntryVisitor>): void {
    if (counts.entries === 0) {
      counts.firstSequence = entry.sequence;
      counts.firstEpoch = entry.epoch;
      counts.firstStampUs = entry.stampUs;
    }
    counts.entries++;
    counts.entryBytes += entry.length;
    counts.records += entry.recordCount;
    counts.end = entry.address + entry.length;
    counts.lastSequence = entry.sequence;
    counts.lastEpoch = entry.epoch;
    counts.lastStampUs = entry.stampUs;
    this.#closed = isClosedEntry(entry, bytes, start);
    const types = this.#recordsByType;
    const problem = walkRecords(bytes, view, start, end, entry.recordCount, (type) => {
      types.set(type, (types.get(type) ?? 0) + 1);
    });
    if (problem !== null) this.#report(new LogDamage(counts.path, entry.address, problem));
  }

  #report(damage: LogDamage): void {
    this.#damage.push({ segment: damage.segment, address: damage.address, reason: damage.reason });
  }
}

function emptyCounts(segment: SegmentFile, sealed: boolean): SegmentCounts {
  return {
    path: segment.path,
    base: segment.base,
    end: segment.base + segmentHeader.bytes,
    sealed,
    fileBytes: segment.fileBytes,
    entries: 0,
    entryBytes: 0,
    records: 0,
    firstSequence: 0,
    lastSequence: 0,
    firstEpoch: 0,
    lastEpoch: 0,
    firstStampUs: 0,
    lastStampUs: 0,
  };
}
