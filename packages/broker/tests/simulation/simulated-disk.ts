/**
 * A disk in memory that behaves as badly as a real one may.
 *
 * What is read back at once is what was written. What survives `crash` (a power cut) is less:
 * - bytes survive for certain when `sync` on their file resolved after they were written;
 * - of other bytes each sector of 512 has any of the states it had since, independently of all others, and may be torn
 *   in the middle; a length that was not synced may be the old or the new one;
 * - names (made, replaced, removed) survive for certain when `syncFolder` resolved after the change; of later changes in
 *   a folder the first few survive, as in a journal;
 * - after a failed `sync` the bytes concerned count as written, and no later sync makes them durable (this is what Linux
 *   does: it tells once and forgets). Only writing them again does.
 *
 * Faults to order: the Nth operation fails, the disk is full, bits flip. Everything is decided by the seed.
 */
import type { Disk, DiskFile, DiskSpace, FolderLock, WriteMode } from '../../src/ports/mod.ts';
import { SimulatedRandom } from './simulated-random.ts';
import type { SimulatedScheduler } from './simulated-scheduler.ts';

const sectorBytes = 512;

interface SectorVersion {
  readonly bytes: Uint8Array;
  readonly writeNumber: number;
  /** A sync of it failed: no later sync will take it along. */
  isForgotten: boolean;
}

/** A file's content, apart from its names. */
class Inode {
  visible = new Uint8Array(0);
  visibleLength = 0;
  durable = new Uint8Array(0);
  durableLength = 0;
  /** States since the last sync, oldest first, by sector. */
  readonly unsynced = new Map<number, SectorVersion[]>();
}

/** What an operation does when it is asked for, when it ends well, and (instead) when it was ordered to fail. */
interface Steps<Result> {
  readonly begin?: () => Result;
  readonly end?: () => Result;
  readonly fail?: () => void;
}

interface NameChange {
  readonly number: number;
  readonly folder: string;
  apply(names: Map<string, Inode>): void;
}

export interface SimulatedDiskOptions {
  readonly seed?: number;
  /** With it, every operation takes a random time; without, it ends as soon as it can. */
  readonly scheduler?: SimulatedScheduler;
  readonly latencyMsMax?: number;
  readonly capacityBytes?: number;
}

export class SimulatedDisk implements Disk {
  readonly location = '/simulated';
  /** Operations asked for so far, and what they were: `write segments/x 0 100`. */
  operations = 0;
  readonly trace: string[] = [];
  readonly #random: SimulatedRandom;
  readonly #scheduler: SimulatedScheduler | undefined;
  readonly #latencyMsMax: number;
  #capacityBytes: number;
  #names = new Map<string, Inode>();
  #durableNames = new Map<string, Inode>();
  #unsyncedNames: NameChange[] = [];
  readonly #folders = new Set<string>(['']);
  #changeNumber = 0;
  /** Raised by a crash: handles and operations of before are dead. */
  #life = 0;
  #lockedInLife = -1;
  #failAt = -1;
  #failCode = 'EIO';

  constructor(options: SimulatedDiskOptions = {}) {
    this.#random = new SimulatedRandom(options.seed ?? 1);
    this.#scheduler = options.scheduler;
    this.#latencyMsMax = options.latencyMsMax ?? 5;
    this.#capacityBytes = options.capacityBytes ?? Infinity;
  }

  open(path: string, mode: 'read' | 'write' | 'create', writes: WriteMode = 'cached'): Promise<DiskFile> {
    return this.#now(`open ${path} ${mode} ${writes}`, () => {
      let inode = this.#names.get(path);
      if (mode === 'create') {
        if (inode === undefined) {
          const created = new Inode();
          inode = created;
          this.#changeNames(path, (names) => names.set(path, created));
        } else {
          this.truncateInode(inode, 0);
        }
      }
      if (inode === undefined) throw failure('ENOENT', path);
      return new SimulatedFile(this, inode, path, writes);
    });
  }

  list(folder: string): Promise<string[]> {
    return this.#now(`list ${folder}`, () => {
      const prefix = folder === '' ? '' : `${folder}/`;
      const names = new Set<string>();
      for (const path of [...this.#names.keys(), ...this.#folders]) {
        if (path !== '' && path.startsWith(prefix)) names.add(path.slice(prefix.length).split('/')[0]);
      }
      names.delete('');
      return [...names].sort();
    });
  }

  remove(path: string): Promise<void> {
    return this.#now(`remove ${path}`, () => {
      if (!this.#names.has(path)) throw failure('ENOENT', path);
      this.#changeNames(path, (names) => names.delete(path));
    });
  }

  rename(from: string, to: string): Promise<void> {
    return this.#now(`rename ${from} ${to}`, () => {
      const inode = this.#names.get(from);
      if (inode === undefined) throw failure('ENOENT', from);
      this.#changeNames(to, (names) => {
        names.delete(from);
        names.set(to, inode);
      });
    });
  }

  makeFolder(path: string): Promise<void> {
    return this.#now(`makeFolder ${path}`, () => {
      const parts = path.split('/');
      for (let i = 1; i <= parts.length; i++) this.#folders.add(parts.slice(0, i).join('/'));
    });
  }

  syncFolder(path: string): Promise<void> {
    const before = this.#changeNumber;
    const end = (): void => {
      if (!this.#folders.has(path)) throw failure('ENOENT', path);
      this.#unsyncedNames = this.#unsyncedNames.filter((change) => {
        if (change.folder !== path || change.number > before) return true;
        change.apply(this.#durableNames);
        return false;
      });
    };
    return this.operate(`syncFolder ${path}`, { end });
  }

  space(): Promise<DiskSpace> {
    return this.#now('space', () => {
      const used = this.usedBytes();
      const capacity = Number.isFinite(this.#capacityBytes) ? this.#capacityBytes : 2 ** 40;
      return { freeBytes: Math.max(0, capacity - used), usedShare: Math.min(1, used / capacity) };
    });
  }

  lock(): Promise<FolderLock> {
    return this.#now('lock', () => {
      if (this.#lockedInLife === this.#life) throw failure('EDATALOCKED', this.location);
      this.#lockedInLife = this.#life;
      const life = this.#life;
      return {
        release: () => {
          if (this.#lockedInLife === life) this.#lockedInLife = -1;
          return Promise.resolve();
        },
      };
    });
  }

  /** The operation with this number (1 = the next one) fails with the code. A failing write may have written a part. */
  failOperation(number: number, code = 'EIO'): void {
    this.#failAt = this.operations + number;
    this.#failCode = code;
  }

  /** True while the ordered failure has not happened. */
  get failureIsPending(): boolean {
    return this.#failAt > this.operations;
  }

  setCapacity(bytes: number): void {
    this.#capacityBytes = bytes;
  }

  usedBytes(): number {
    let sum = 0;
    for (const inode of new Set(this.#names.values())) sum += inode.visibleLength;
    return sum;
  }

  /** Power cut: what is left is what a real disk could hold. Open handles, the lock and operations on their way are dead. */
  crash(): void {
    this.#life++;
    this.#failAt = -1;
    for (const folder of new Set(this.#unsyncedNames.map((change) => change.folder))) {
      const changes = this.#unsyncedNames.filter((change) => change.folder === folder);
      for (const change of changes.slice(0, this.#random.integer(changes.length + 1))) change.apply(this.#durableNames);
    }
    this.#unsyncedNames = [];
    for (const inode of new Set(this.#durableNames.values())) this.#settle(inode);
    this.#names = new Map(this.#durableNames);
  }

  /** The process dies, the system goes on: handles and lock are dead, everything written is still there, synced or not. */
  kill(): void {
    this.#life++;
    this.#failAt = -1;
  }

  /** All paths of files, sorted. */
  paths(): string[] {
    return [...this.#names.keys()].sort();
  }

  /** A copy of what a reader would see. */
  contents(path: string): Uint8Array {
    const inode = this.#inode(path);
    return inode.visible.slice(0, inode.visibleLength);
  }

  /** Puts a file there, durable at once. */
  place(path: string, bytes: Uint8Array): void {
    const inode = new Inode();
    inode.visible = bytes.slice();
    inode.durable = bytes.slice();
    inode.visibleLength = bytes.length;
    inode.durableLength = bytes.length;
    this.#names.set(path, inode);
    this.#durableNames.set(path, inode);
    const folder = folderOf(path);
    if (folder !== '') this.#folders.add(folder);
  }

  /** Takes a file away, durable at once. */
  takeAway(path: string): void {
    this.#names.delete(path);
    this.#durableNames.delete(path);
  }

  /** Inverts one bit, now and for ever. */
  flip(path: string, position: number, bit = 0): void {
    const bytes = this.contents(path);
    bytes[position] ^= 1 << bit;
    this.place(path, bytes);
  }

  /**
   * Inverts one bit of what is on the platter: also those see it who hold the file open. The file must be synced.
   * Doing it twice mends it.
   */
  corrupt(path: string, position: number, bit = 0): void {
    const inode = this.#inode(path);
    inode.visible[position] ^= 1 << bit;
    inode.durable[position] ^= 1 << bit;
  }

  /** A disk of its own with the same files, all durable. */
  copy(seed = 1): SimulatedDisk {
    const other = new SimulatedDisk({ seed });
    for (const folder of this.#folders) other.#folders.add(folder);
    for (const path of this.paths()) other.place(path, this.contents(path));
    return other;
  }

  // What follows is for SimulatedFile.

  get life(): number {
    return this.#life;
  }

  get changeNumber(): number {
    return this.#changeNumber;
  }

  /**
   * Counts the operation, fails it if that was ordered, and lets time pass. Reads, writes and names take effect at once
   * (a crash while they are on their way finds them half done); a sync promises nothing before it ends.
   */
  async operate<Result>(name: string, steps: Steps<Result>, life = this.#life): Promise<Result> {
    this.operations++;
    this.trace.push(name);
    if (life !== this.#life) throw failure('EIO', `${name} (the machine was off)`);
    const code = this.operations === this.#failAt ? this.#failCode : null;
    const begun = attempt(() => (code === null ? steps.begin?.() : steps.fail?.()));
    await this.#delay();
    if (life !== this.#life) throw failure('EIO', `${name} (the machine was off)`);
    if (begun.error !== null) throw begun.error;
    if (code !== null) throw failure(code, name);
    return steps.end === undefined ? (begun.result as Result) : steps.end();
  }

  /** Writes into the page cache. The number of bytes that fit is the result. */
  writeInode(inode: Inode, source: Uint8Array, position: number): number {
    const room = this.#capacityBytes - this.usedBytes() + inode.visibleLength - position;
    const length = Math.max(0, Math.min(source.length, room));
    if (length === 0) return 0;
    const end = position + length;
    inode.visible = grown(inode.visible, end);
    inode.visible.set(source.subarray(0, length), position);
    const firstNew = Math.min(position, inode.visibleLength);
    inode.visibleLength = Math.max(inode.visibleLength, end);
    this.#noteSectors(inode, firstNew, end);
    return length;
  }

  /** Leaves a part of it in the page cache; of a durable write perhaps all, whose way to the platter failed. */
  failWrite(inode: Inode, source: Uint8Array, position: number, isDurable: boolean): void {
    const isWhole = isDurable && this.#random.chance(0.5);
    this.writeInode(inode, isWhole ? source : source.subarray(0, source.length >>> 1), position);
    if (isDurable) this.forgetInode(inode);
  }

  truncateInode(inode: Inode, length: number): void {
    const from = Math.min(length, inode.visibleLength);
    inode.visible = grown(inode.visible, length);
    inode.visible.fill(0, from);
    const end = Math.max(length, inode.visibleLength);
    inode.visibleLength = length;
    this.#noteSectors(inode, from, end);
  }

  /** Makes durable what was written up to a change: all of the file, or the sectors of [from, to). */
  syncInode(inode: Inode, through: number, from = 0, to = Infinity): void {
    inode.durable = grown(inode.durable, inode.visibleLength);
    for (const [sector, versions] of inode.unsynced) {
      if ((sector + 1) * sectorBytes <= from || sector * sectorBytes >= to) continue;
      let last = versions.length - 1;
      while (last >= 0 && versions[last].writeNumber > through) last--;
      if (last < 0 || versions[last].isForgotten) continue;
      const start = sector * sectorBytes;
      inode.durable = grown(inode.durable, start + sectorBytes);
      inode.durable.set(versions[last].bytes, start);
      const left = versions.slice(last + 1);
      if (left.length === 0) inode.unsynced.delete(sector);
      else inode.unsynced.set(sector, left);
    }
    inode.durableLength = inode.visibleLength;
  }

  forgetInode(inode: Inode): void {
    for (const versions of inode.unsynced.values()) for (const version of versions) version.isForgotten = true;
  }

  #now<Result>(name: string, begin: () => Result): Promise<Result> {
    return this.operate(name, { begin });
  }

  /** Decides what of the unsynced state is on the platter. */
  #settle(inode: Inode): void {
    for (const [sector, versions] of inode.unsynced) {
      const start = sector * sectorBytes;
      inode.durable = grown(inode.durable, start + sectorBytes);
      const chosen = this.#random.integer(versions.length + 1);
      if (chosen === 0) continue;
      const older = chosen === 1 ? inode.durable.slice(start, start + sectorBytes) : versions[chosen - 2].bytes;
      inode.durable.set(versions[chosen - 1].bytes, start);
      // Torn: the rest of the sector is still in the state before.
      if (this.#random.chance(0.25)) {
        const cut = this.#random.integer(sectorBytes);
        inode.durable.set(older.subarray(cut), start + cut);
      }
    }
    inode.unsynced.clear();
    if (inode.durableLength !== inode.visibleLength && this.#random.chance(0.5)) {
      inode.durableLength = inode.visibleLength;
    }
    inode.durable = grown(inode.durable, inode.durableLength);
    inode.durable.fill(0, inode.durableLength);
    inode.visible = inode.durable.slice();
    inode.visibleLength = inode.durableLength;
  }

  #noteSectors(inode: Inode, from: number, end: number): void {
    const writeNumber = ++this.#changeNumber;
    for (let sector = Math.floor(from / sectorBytes); sector * sectorBytes < end; sector++) {
      const start = sector * sectorBytes;
      const bytes = new Uint8Array(sectorBytes);
      bytes.set(inode.visible.subarray(start, Math.min(start + sectorBytes, inode.visible.length)));
      const versions = inode.unsynced.get(sector);
      const version = { bytes, writeNumber, isForgotten: false };
      if (versions === undefined) inode.unsynced.set(sector, [version]);
      else versions.push(version);
    }
  }

  #changeNames(path: string, apply: (names: Map<string, Inode>) => void): void {
    apply(this.#names);
    this.#unsyncedNames.push({ number: ++this.#changeNumber, folder: folderOf(path), apply });
  }

  #inode(path: string): Inode {
    const inode = this.#names.get(path);
    if (inode === undefined) throw failure('ENOENT', path);
    return inode;
  }

  #delay(): Promise<void> {
    const scheduler = this.#scheduler;
    if (scheduler === undefined) return Promise.resolve();
    const delayMs = this.#random.integer(this.#latencyMsMax * 1000 + 1) / 1000;
    return new Promise((resolve) => {
      scheduler.after(delayMs, resolve);
    });
  }
}

class SimulatedFile implements DiskFile {
  readonly #disk: SimulatedDisk;
  readonly #inode: Inode;
  readonly #path: string;
  readonly #life: number;
  readonly #writes: WriteMode;
  #isOpen = true;

  constructor(disk: SimulatedDisk, inode: Inode, path: string, writes: WriteMode) {
    this.#disk = disk;
    this.#inode = inode;
    this.#path = path;
    this.#writes = writes;
    this.#life = disk.life;
  }

  size(): Promise<number> {
    return this.#operate('size', { begin: () => this.#inode.visibleLength });
  }

  read(target: Uint8Array, position: number): Promise<number> {
    const begin = (): number => {
      const end = Math.min(this.#inode.visibleLength, position + target.length);
      if (end <= position) return 0;
      target.set(this.#inode.visible.subarray(position, end));
      return end - position;
    };
    return this.#operate(`read ${position} ${target.length}`, { begin });
  }

  write(source: Uint8Array, position: number): Promise<void> {
    const isDurable = this.#writes === 'durable';
    const begin = (): void => {
      const written = this.#disk.writeInode(this.#inode, source, position);
      if (written < source.length) throw failure('ENOSPC', this.#path);
    };
    const fail = (): void => this.#disk.failWrite(this.#inode, source, position, isDurable);
    const name = `write ${position} ${source.length}`;
    if (!isDurable) return this.#operate(name, { begin, fail });
    let through = 0;
    const beginDurable = (): void => {
      begin();
      through = this.#disk.changeNumber;
    };
    const end = (): void => this.#disk.syncInode(this.#inode, through, position, position + source.length);
    return this.#operate(name, { begin: beginDurable, end, fail });
  }

  sync(): Promise<void> {
    const through = this.#disk.changeNumber;
    const end = (): void => this.#disk.syncInode(this.#inode, through);
    const fail = (): void => this.#disk.forgetInode(this.#inode);
    return this.#operate('sync', { end, fail });
  }

  truncate(length: number): Promise<void> {
    return this.#operate(`truncate ${length}`, { begin: () => this.#disk.truncateInode(this.#inode, length) });
  }

  close(): Promise<void> {
    const begin = (): void => {
      this.#isOpen = false;
    };
    return this.#operate('close', { begin });
  }

  #operate<Result>(name: string, steps: Steps<Result>): Promise<Result> {
    if (!this.#isOpen) return Promise.reject(failure('EBADF', this.#path));
    return this.#disk.operate(`${name} ${this.#path}`, steps, this.#life);
  }
}

function attempt<Result>(work: () => Result): { result?: Result; error: unknown } {
  try {
    return { result: work(), error: null };
  } catch (error) {
    return { error };
  }
}

function folderOf(path: string): string {
  return path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
}

function grown(bytes: Uint8Array<ArrayBuffer>, length: number): Uint8Array<ArrayBuffer> {
  if (bytes.length >= length) return bytes;
  const larger = new Uint8Array(Math.max(length, 2 * bytes.length));
  larger.set(bytes);
  return larger;
}

function failure(code: string, what: string): Error {
  return Object.assign(new Error(`${code}: ${what}`), { code });
}
