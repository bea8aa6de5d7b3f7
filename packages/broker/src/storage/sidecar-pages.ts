/**
 * Reads pages of sidecar files: checked before they are used, kept in a bounded cache, files opened on demand.
 *
 * A page's bytes stay valid for whoever holds the page, also after the cache has let go of it. Two who ask for the same
 * page at the same time share one read. A file that is retired is closed when its last read has ended, so that its
 * descriptor is never another file's while a read is under way.
 */
import type { Disk, DiskFile, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { page, pageHolds, SidecarDamage, sidecarPath } from './sidecar-format.ts';

export interface PageLimits {
  /** Memory for pages that were read. */
  readonly cacheBytes: number;
  /** Files held open. Exceeded only while more than this are read at the same moment. */
  readonly openFilesMax: number;
}

/** A page whose checksum held. Read only. */
export interface SidecarPage {
  readonly view: DataView;
}

/** A sidecar file as the cache knows it. */
export interface SidecarFile {
  readonly base: LogAddress;
  /** Distinct for each file opened since the start, also for two of the same name. */
  readonly number: number;
}

interface KnownFile extends SidecarFile {
  handle: DiskFile | undefined;
  opening: Promise<DiskFile> | undefined;
  /** Reads under way. */
  readers: number;
  retired: boolean;
}

interface CachedPage extends SidecarPage {
  /** Asked for since it was last considered for leaving. */
  touched: boolean;
}

/** Pages of one file are numbered below this: 16 GiB. */
const pagesPerFileMax = 2 ** 22;
/** Pages per read when many are read in a row. */
const pagesPerScan = 64;

export class SidecarPages {
  private readonly disk: Disk;
  private readonly checksum: Checksum;
  private readonly pagesMax: number;
  private readonly openFilesMax: number;
  /** In the order in which they are considered for leaving. */
  private readonly cache = new Map<number, CachedPage>();
  private readonly reading = new Map<number, Promise<SidecarPage | undefined>>();
  /** Open files, least recently opened first. */
  private readonly open = new Set<KnownFile>();
  private nextNumber = 1;
  private closed = false;

  constructor(disk: Disk, checksum: Checksum, limits: PageLimits) {
    this.disk = disk;
    this.checksum = checksum;
    this.pagesMax = Math.max(1, Math.floor(limits.cacheBytes / page.bytes));
    this.openFilesMax = limits.openFilesMax;
  }

  get cachedBytes(): number {
    return this.cache.size * page.bytes;
  }

  get openFiles(): number {
    return this.open.size;
  }

  /** Makes the file that now bears the name known. Opens nothing yet. */
  file(base: LogAddress): SidecarFile {
    const file: KnownFile = {
      base,
      number: this.nextNumber++,
      handle: undefined,
      opening: undefined,
      readers: 0,
      retired: false,
    };
    return file;
  }

  /** The page, when it is in the cache. */
  cached(file: SidecarFile, number: number): SidecarPage | undefined {
    const found = this.cache.get(keyOf(file, number));
    if (found === undefined) return undefined;
    found.touched = true;
    return found;
  }

  /**
   * Reads one page. Undefined when the file was retired. Rejects with SidecarDamage when the page is not what was
   * written, and with the disk's own error when it cannot be read.
   */
  read(file: SidecarFile, number: number): Promise<SidecarPage | undefined> {
    const key = keyOf(file, number);
    const found = this.cached(file, number);
    if (found !== undefined) return Promise.resolve(found);
    const running = this.reading.get(key);
    if (running !== undefined) return running;
    const started = this.fetch(known(file), number, key).finally(() => this.reading.delete(key));
    this.reading.set(key, started);
    return started;
  }

  /** Size of the file in bytes. Rejects with code ENOENT when there is none. */
  size(file: SidecarFile): Promise<number> {
    return this.withHandle(known(file), (handle) => handle.size());
  }

  /**
   * Reads pages [firstPage, firstPage + count) in order, past the cache. `visit` gets the content of one page at `at`,
   * valid during the call. Rejects as `read` does.
   */
  async scan(
    file: SidecarFile,
    firstPage: number,
    count: number,
    visit: (view: DataView, at: number, pageNumber: number) => void,
  ): Promise<void> {
    const bytes = new Uint8Array(Math.min(count, pagesPerScan) * page.bytes);
    const view = new DataView(bytes.buffer);
    await this.withHandle(known(file), async (handle) => {
      for (let from = 0; from < count; from += pagesPerScan) {
        const pages = Math.min(pagesPerScan, count - from);
        const position = (firstPage + from) * page.bytes;
        await readWhole(handle, bytes.subarray(0, pages * page.bytes), position, file.base);
        for (let i = 0; i < pages; i++) {
          const number = firstPage + from + i;
          this.check(file.base, bytes, view, i * page.bytes, number);
          visit(view, i * page.bytes, number);
        }
      }
    });
  }

  /** Nobody will ask for the file again. Resolves at once or when its last read has ended and it is closed. */
  async retire(file: SidecarFile): Promise<void> {
    const retiring = known(file);
    retiring.retired = true;
    if (retiring.readers === 0) await this.closeFile(retiring);
  }

  /** Closes all files. Reads under way end with their results; later ones reject, and open nothing. */
  async close(): Promise<void> {
    this.closed = true;
    for (const file of [...this.open]) if (file.readers === 0) await this.closeFile(file);
    this.cache.clear();
  }

  private async fetch(file: KnownFile, number: number, key: number): Promise<SidecarPage | undefined> {
    if (file.retired) return undefined;
    const bytes = new Uint8Array(page.bytes);
    const view = new DataView(bytes.buffer);
    await this.withHandle(file, (handle) => readWhole(handle, bytes, number * page.bytes, file.base));
    this.check(file.base, bytes, view, 0, number);
    const result: CachedPage = { view, touched: false };
    if (!file.retired && !this.closed) {
      this.makeRoom();
      this.cache.set(key, result);
    }
    return result;
  }

  private check(base: LogAddress, bytes: Uint8Array, view: DataView, at: number, number: number): void {
    if (!pageHolds(bytes, view, at, number, this.checksum)) {
      throw new SidecarDamage(base, `page ${number} is not what was written`);
    }
  }

  /** Second chance: a page that was asked for since its last turn goes to the end of the line instead of leaving. */
  private makeRoom(): void {
    while (this.cache.size >= this.pagesMax) {
      for (const [key, candidate] of this.cache) {
        this.cache.delete(key);
        if (candidate.touched) {
          candidate.touched = false;
          this.cache.set(key, candidate);
        }
        break;
      }
    }
  }

  private async withHandle<Result>(file: KnownFile, use: (handle: DiskFile) => Promise<Result>): Promise<Result> {
    if (this.closed) throw new Error('the index is closed');
    file.readers++;
    try {
      if (file.handle === undefined) {
        file.opening ??= this.openFile(file);
        await file.opening;
      }
      return await use(file.handle!);
    } finally {
      file.readers--;
      if (file.readers === 0 && (file.retired || this.closed)) await this.closeFile(file);
    }
  }

  private async openFile(file: KnownFile): Promise<DiskFile> {
    try {
      for (const idle of this.open) {
        if (this.open.size < this.openFilesMax) break;
        if (idle.readers === 0) await this.closeFile(idle);
      }
      const handle = await this.disk.open(sidecarPath(file.base), 'read');
      file.handle = handle;
      this.open.add(file);
      return handle;
    } finally {
      file.opening = undefined;
    }
  }

  private async closeFile(file: KnownFile): Promise<void> {
    const handle = file.handle;
    if (handle === undefined) return;
    file.handle = undefined;
    this.open.delete(file);
    // A file that was only read has nothing to lose when closing it fails.
    await handle.close().catch(() => undefined);
  }
}

function keyOf(file: SidecarFile, number: number): number {
  return file.number * pagesPerFileMax + number;
}

/** Every SidecarFile was made by `SidecarPages.file`. */
function known(file: SidecarFile): KnownFile {
  return file as KnownFile;
}

async function readWhole(handle: DiskFile, target: Uint8Array, position: number, base: LogAddress): Promise<void> {
  let got = 0;
  while (got < target.length) {
    const count = await handle.read(got === 0 ? target : target.subarray(got), position + got);
    if (count === 0) throw new SidecarDamage(base, `the file ends at byte ${position + got}`);
    got += count;
  }
}
