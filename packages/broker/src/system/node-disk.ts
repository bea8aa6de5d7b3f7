/**
 * Disk on node:fs. One Promise per call around the callback functions, no file handles of node's own: these calls happen
 * once per group commit or cold read.
 *
 * Durability is asked for explicitly: `sync` is fdatasync, `syncFolder` fsync on the folder. Durable writes use O_DSYNC on
 * Linux, where it is one system call instead of two (a fifth less latency for 64 KiB); elsewhere it may mean less than
 * fdatasync does, so that they are a write and a sync.
 */
import * as fs from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import type { Disk, DiskFile, DiskSpace, FolderLock, WriteMode } from '../ports/mod.ts';
import { lockFolder } from './folder-lock.ts';

const { O_RDONLY, O_RDWR, O_CREAT, O_TRUNC, O_DSYNC } = fs.constants;
const openFlags = { read: O_RDONLY, write: O_RDWR, create: O_RDWR | O_CREAT | O_TRUNC } as const;
const hasDurableWrites = process.platform === 'linux';

export class NodeDisk implements Disk {
  readonly location: string;

  /** `location` need not exist: `makeFolder('')` makes it. */
  constructor(location: string) {
    this.location = resolve(location);
  }

  open(path: string, mode: 'read' | 'write' | 'create', writes: WriteMode = 'cached'): Promise<DiskFile> {
    const isDurable = writes === 'durable';
    const flags = openFlags[mode] | (isDurable && hasDurableWrites ? O_DSYNC : 0);
    return settle<number>((done) => fs.open(this.#full(path), flags, done)).then(
      (descriptor) => new NodeFile(path, descriptor, isDurable && !hasDurableWrites),
    );
  }

  async list(folder: string): Promise<string[]> {
    try {
      const names = await settle<string[]>((done) => fs.readdir(this.#full(folder), done));
      return names.sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    }
  }

  remove(path: string): Promise<void> {
    return settle((done) => fs.unlink(this.#full(path), done));
  }

  rename(from: string, to: string): Promise<void> {
    return settle((done) => fs.rename(this.#full(from), this.#full(to), done));
  }

  /** Makes missing parents too, also above the data folder; all that was made is durable. */
  makeFolder(path: string): Promise<void> {
    return makeFolderAt(this.#full(path));
  }

  async syncFolder(path: string): Promise<void> {
    await syncFolderAt(this.#full(path));
  }

  async space(): Promise<DiskSpace> {
    const stats = await settle<fs.StatsFs>((done) => fs.statfs(this.location, done));
    const usedBlocks = stats.blocks - stats.bfree;
    const usableBlocks = usedBlocks + stats.bavail;
    return {
      freeBytes: stats.bavail * stats.bsize,
      usedShare: usableBlocks === 0 ? 0 : usedBlocks / usableBlocks,
    };
  }

  lock(): Promise<FolderLock> {
    return lockFolder(this.location);
  }

  #full(path: string): string {
    if (isAbsolute(path) || path.split('/').includes('..')) throw new Error(`${path} is no path inside a data folder`);
    return join(this.location, path);
  }
}

/**
 * Makes a folder and those above it, each durable in its parent. Written out because node's own recursive form never ends
 * where the system says "no such folder" about a parent that exists, as /proc does.
 */
async function makeFolderAt(folder: string): Promise<void> {
  const make = (): Promise<void> => settle((done) => fs.mkdir(folder, done));
  try {
    await make();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(folder);
    if (code === 'EEXIST' && (await isFolder(folder))) return;
    if (code !== 'ENOENT' || parent === folder) throw error;
    await makeFolderAt(parent);
    await make();
  }
  await syncFolderAt(dirname(folder));
}

async function isFolder(path: string): Promise<boolean> {
  return (await settle<fs.Stats>((done) => fs.stat(path, done))).isDirectory();
}

class NodeFile implements DiskFile {
  readonly #path: string;
  /** −1 once closed: the number may by then belong to another file. */
  #descriptor: number;
  /** Calls on their way. The descriptor is closed only when there are none. */
  #pending = 0;
  #whenQuiet: (() => void) | null = null;
  readonly #syncsWrites: boolean;

  constructor(path: string, descriptor: number, syncsWrites: boolean) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#syncsWrites = syncsWrites;
  }

  size(): Promise<number> {
    return this.#call<fs.Stats>((descriptor, done) => fs.fstat(descriptor, done)).then((stats) => stats.size);
  }

  read(target: Uint8Array, position: number): Promise<number> {
    return this.#call<number>((descriptor, done) => {
      let filled = 0;
      const next = (): void => {
        fs.read(descriptor, target, filled, target.length - filled, position + filled, (error, count) => {
          filled += count ?? 0;
          if (error !== null || count === 0 || filled === target.length) done(error, filled);
          else next();
        });
      };
      if (target.length === 0) done(null, 0);
      else next();
    });
  }

  write(source: Uint8Array, position: number): Promise<void> {
    return this.#call<void>((descriptor, done) => {
      let written = 0;
      const next = (): void => {
        fs.write(descriptor, source, written, source.length - written, position + written, (error, count) => {
          written += count ?? 0;
          if (error === null && written < source.length) next();
          else if (error === null && this.#syncsWrites) fs.fdatasync(descriptor, done);
          else done(error);
        });
      };
      if (source.length === 0) done(null);
      else next();
    });
  }

  sync(): Promise<void> {
    return this.#call<void>((descriptor, done) => fs.fdatasync(descriptor, done));
  }

  truncate(length: number): Promise<void> {
    return this.#call<void>((descriptor, done) => fs.ftruncate(descriptor, length, done));
  }

  /** Waits for the calls on their way. Closing twice does nothing. */
  async close(): Promise<void> {
    const descriptor = this.#descriptor;
    if (descriptor < 0) return;
    this.#descriptor = -1;
    if (this.#pending > 0) {
      await new Promise<void>((quiet) => {
        this.#whenQuiet = quiet;
      });
    }
    await settle((done) => fs.close(descriptor, done));
  }

  #call<Result>(start: (descriptor: number, done: Done<Result>) => void): Promise<Result> {
    return new Promise((fulfil, reject) => {
      if (this.#descriptor < 0) {
        reject(Object.assign(new Error(`EBADF: ${this.#path} is closed`), { code: 'EBADF' }));
        return;
      }
      this.#pending++;
      start(this.#descriptor, (error, result) => {
        this.#pending--;
        if (this.#pending === 0) this.#whenQuiet?.();
        if (error === null) fulfil(result as Result);
        else reject(this.#named(error));
      });
    });
  }

  /** The host's errors about descriptors do not say which file it was. */
  #named(error: NodeJS.ErrnoException): Error {
    error.message = `${error.message} '${this.#path}'`;
    return error;
  }
}

async function syncFolderAt(path: string): Promise<void> {
  const descriptor = await settle<number>((done) => fs.open(path, 'r', done));
  try {
    await settle((done) => fs.fsync(descriptor, done));
  } finally {
    await settle((done) => fs.close(descriptor, done));
  }
}

type Done<Result> = (error: NodeJS.ErrnoException | null, result?: Result) => void;

function settle<Result = void>(start: (done: Done<Result>) => void): Promise<Result> {
  return new Promise((fulfil, reject) => {
    start((error, result) => {
      if (error === null) fulfil(result as Result);
      else reject(error);
    });
  });
}
