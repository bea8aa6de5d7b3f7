/**
 * Writes the last segment, and makes new ones.
 *
 *   zeros are written to spare.tmp, in steps                   while the segment before it fills (`prepare`)
 *   header and first entries are written into it               `begin`, `write`
 *   it gets its name <base>.seg, the folder is synced          `publish`
 *
 * Every write is durable when it resolves. So a file with a segment's name always has its header on disk, and everything
 * before its base was there earlier: the caller publishes one segment before it begins the next. Because the zeros are
 * already on disk, a write changes data and no metadata (measured on ext4: 0.11 to 0.15 ms against 0.18 to 0.20 ms for a
 * file that grows). Where writes are large there are no zeros: everything would be written twice for that. When writes are
 * small again before the segment is full, one that makes the file grow brings zeros along.
 *
 * Sealing needs no work where the zeros are used up, as they are by a segment that takes entries until it holds
 * segmentBytes. Where they are not (the option was made smaller) the file is cut before the next one gets its name: zeros
 * that reach over the next segment's range would hide that it is missing, and its room on the disk would not come back.
 *
 * Calls must not overlap, but for `prepare`, which works in the background.
 */
import type { Disk, DiskFile, LogAddress } from '../ports/mod.ts';
import type { LogOptions } from './log-options.ts';
import { segmentFolder, segmentPath, spareSegmentPath } from './segment-format.ts';

type WriterOptions = Pick<LogOptions, 'segmentBytes' | 'zeroStepBytes' | 'largeWriteBytes'>;

/** A file for a segment, and its length. */
interface Spare {
  readonly file: DiskFile;
  readonly bytes: number;
}

/** The mean size of writes follows the last so many. */
const meanOverWrites = 16;

export class SegmentWriter {
  readonly #disk: Disk;
  readonly #options: WriterOptions;
  #file: DiskFile | null = null;
  #base: LogAddress = 0;
  /** Length of the file: what is written below changes no metadata. */
  #fileBytes = 0;
  #meanWriteBytes = 0;
  /** The segment still lies in spare.tmp. */
  #unnamed = false;
  /** The next file, or the error that making it ended with. */
  #spare: Promise<Spare | Error> | null = null;
  #stopping = false;

  constructor(disk: Disk, options: WriterOptions) {
    this.#disk = disk;
    this.#options = options;
  }

  /** Continues a segment that exists. */
  async resume(base: LogAddress): Promise<void> {
    this.#file = await this.#disk.open(segmentPath(base), 'write', 'durable');
    this.#fileBytes = await this.#file.size();
    this.#base = base;
  }

  /** Starts making the next file unless that was done. Fails later, in `begin`. */
  prepare(): void {
    this.#spare ??= this.#makeSpare().catch((error: Error) => error);
  }

  /** Turns to a new segment. Its first bytes must be its header. The one before must be published. */
  async begin(base: LogAddress): Promise<void> {
    await this.#cutZeros(base);
    await this.#closeFile();
    // What was prepared in the background may have failed for a reason that has passed, such as a full disk: try again.
    let spare = this.#spare === null ? null : await this.#spare;
    if (spare === null || spare instanceof Error) spare = await this.#makeSpare();
    this.#spare = null;
    this.#file = spare.file;
    this.#fileBytes = spare.bytes;
    this.#base = base;
    this.#unnamed = true;
  }

  /** Writes bytes whose first one has this address into the segment; they are on disk when it resolves. */
  async write(bytes: Uint8Array, address: LogAddress): Promise<void> {
    const file = this.#open();
    const at = address - this.#base;
    this.#meanWriteBytes += (bytes.length - this.#meanWriteBytes) / meanOverWrites;
    const written = this.#withZeros(bytes, at + bytes.length);
    await file.write(written, at);
    this.#fileBytes = Math.max(this.#fileBytes, at + written.length);
  }

  /** Gives a segment its name, after its first write. What was written counts only then. */
  async publish(): Promise<void> {
    if (!this.#unnamed) return;
    await this.#disk.rename(spareSegmentPath, segmentPath(this.#base));
    await this.#disk.syncFolder(segmentFolder);
    this.#unnamed = false;
  }

  /** Closes the files; an unused spare is removed. */
  async close(): Promise<void> {
    this.#stopping = true;
    const spare = this.#spare === null ? null : await this.#spare;
    this.#spare = null;
    await this.#closeFile();
    if (spare === null || spare instanceof Error) return;
    await spare.file.close();
    await this.#disk.remove(spareSegmentPath);
  }

  get #writesAreLarge(): boolean {
    return this.#meanWriteBytes >= this.#options.largeWriteBytes;
  }

  /** Bytes that end at `end` of the file, and zeros behind them when the file would grow by one small write after the other. */
  #withZeros(bytes: Uint8Array, end: number): Uint8Array {
    const { segmentBytes, largeWriteBytes } = this.#options;
    const zeros = Math.min(largeWriteBytes, segmentBytes - end);
    if (end <= this.#fileBytes || zeros <= 0 || this.#writesAreLarge) return bytes;
    const longer = new Uint8Array(bytes.length + zeros);
    longer.set(bytes);
    return longer;
  }

  #open(): DiskFile {
    if (this.#file === null) throw new Error('no segment is being written');
    return this.#file;
  }

  /** The segment that was written ends at `end`, and so does its file from now on. */
  async #cutZeros(end: LogAddress): Promise<void> {
    const bytes = end - this.#base;
    if (this.#file === null || this.#fileBytes <= bytes) return;
    await this.#file.truncate(bytes);
    await this.#file.sync();
    this.#fileBytes = bytes;
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    if (file !== null) await file.close();
  }

  async #makeSpare(): Promise<Spare> {
    const { segmentBytes, zeroStepBytes } = this.#options;
    const file = await this.#disk.open(spareSegmentPath, 'create', 'durable');
    try {
      const zeros = new Uint8Array(Math.min(zeroStepBytes, segmentBytes));
      let bytes = 0;
      while (bytes < segmentBytes && !this.#stopping && !this.#writesAreLarge) {
        const step = zeros.subarray(0, Math.min(zeros.length, segmentBytes - bytes));
        await file.write(step, bytes);
        bytes += step.length;
      }
      return { file, bytes };
    } catch (error) {
      await file.close();
      throw error;
    }
  }
}
