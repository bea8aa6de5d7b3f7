/**
 * One life of a broker process on a simulated machine: the production code from the data folder to the shard, between
 * adapters that belong to this life. When the process dies nothing of it goes on: its timers do not run, its disk
 * operations never end, and what it would still answer is not heard.
 */

import { createHasher } from '../../src/codec/mod.ts';
import { buildSnapshot, openDataFolder } from '../../src/data-folder.ts';
import type {
  Background,
  BuiltSnapshot,
  Clock,
  Disk,
  DiskFile,
  DiskSpace,
  FolderLock,
  LogAddress,
  PayloadCipher,
  Scheduler,
  SegmentRows,
  WriteMode,
} from '../../src/ports/mod.ts';
import { type HousekeepingOptions, Shard, type Store } from '../../src/runtime/mod.ts';
import type { IndexOptions } from '../../src/storage/index-segmented.ts';
import type { LogOptions } from '../../src/storage/log-options.ts';
import { readSegment } from '../../src/storage/log-reader.ts';
import { buildSidecar, buildSidecarOf, type VisitSegment } from '../../src/storage/sidecar-build.ts';
import type { SimulatedDisk } from './simulated-disk.ts';
import type { SimulatedRandom } from './simulated-random.ts';
import type { SimulatedScheduler } from './simulated-scheduler.ts';

/** Places where a planted bug gets in. Each wraps what production code would have got. */
export interface ProcessHooks {
  readonly disk?: (disk: Disk) => Disk;
  readonly segmentVisitor?: (visit: VisitSegment) => VisitSegment;
  readonly store?: (store: Store) => void;
}

/** What a process runs on and whom it tells. */
export interface ProcessHost {
  readonly disk: SimulatedDisk;
  readonly scheduler: SimulatedScheduler;
  readonly random: SimulatedRandom;
  readonly cipher: PayloadCipher | null;
  readonly logOptions: Partial<LogOptions>;
  readonly indexOptions: IndexOptions;
  readonly snapshotLogBytes: number;
  readonly housekeeping?: Partial<HousekeepingOptions>;
  readonly turnDelayMsMax: number;
  readonly hooks: ProcessHooks;
  /** The machine's wall clock, microseconds; it may jump. */
  wallUs(): number;
  isDiskFull(): boolean;
  log(level: 'info' | 'warn' | 'error', text: string): void;
  /** The process ended itself. */
  fatal(error: Error): void;
  /** A data folder was opened: the last entry that survived, and the state that came out. Before the shard serves it. */
  opened(store: Store): Promise<void>;
}

const parkedPopsMax = 1000;
/** Small, so that tables grow in most worlds. */
const rowsAtFirst = 4;

export class SimulatedProcess {
  isAlive = true;
  readonly clock: ProcessClock;
  readonly #host: ProcessHost;
  readonly #disk: Disk;
  readonly #scheduler: Scheduler;
  readonly #background: Background;
  #lock: FolderLock | null = null;
  #shard: Shard | null = null;
  #store: Store | null = null;

  constructor(host: ProcessHost) {
    this.#host = host;
    this.clock = new ProcessClock(host.scheduler, host.wallUs());
    const disk = new ProcessDisk(host.disk, this);
    this.#disk = host.hooks.disk?.(disk) ?? disk;
    this.#scheduler = new ProcessScheduler(host, this);
    this.#background = new InlineBackground(this.#disk, host);
  }

  /** Undefined while it is starting, and after it died. */
  get shard(): Shard | undefined {
    return this.isAlive && this.#shard !== null ? this.#shard : undefined;
  }

  /** The store the shard runs on; undefined while there is none. */
  get store(): Store | undefined {
    return this.isAlive && this.#store !== null ? this.#store : undefined;
  }

  /** Opens the data folder and begins to serve. Rejects when it cannot be opened; then the process has ended. */
  async start(): Promise<void> {
    const host = this.#host;
    try {
      this.#lock = await this.#disk.lock();
      const store = await this.#open();
      this.#shard = new Shard(
        store,
        {
          clock: this.clock,
          scheduler: this.#scheduler,
          cipher: host.cipher,
          reopen: () => this.#open(),
          isDiskFull: () => host.isDiskFull(),
          log: (level, text) => {
            if (this.isAlive) host.log(level, text);
          },
          fatal: (error) => {
            if (!this.isAlive) return;
            this.isAlive = false;
            host.fatal(error);
          },
        },
        { snapshotLogBytes: host.snapshotLogBytes, parkedPopsMax, housekeeping: host.housekeeping ?? {} },
      );
    } catch (error) {
      await this.#lock?.release();
      this.isAlive = false;
      throw error;
    }
  }

  async #open(): Promise<Store> {
    const host = this.#host;
    this.#store = null;
    const store = await openDataFolder({
      disk: this.#disk,
      scheduler: this.#scheduler,
      clock: this.clock,
      random: host.random,
      background: this.#background,
      logOptions: host.logOptions,
      indexOptions: host.indexOptions,
      rowsAtFirst,
      log: (level, text) => {
        if (this.isAlive) host.log(level, text);
      },
    });
    host.hooks.store?.(store);
    await host.opened(store);
    this.#store = store;
    return store;
  }

  /** Stops in order: everything is answered, the log is marked as closed. */
  async stop(): Promise<void> {
    await this.#shard?.stop();
    await this.#background.close();
    await this.#lock?.release();
    this.isAlive = false;
  }

  /** Dies in the middle of whatever it does. The caller decides what becomes of the disk. */
  die(): void {
    this.isAlive = false;
  }
}

/** Broker time: starts at the wall clock, follows elapsed time, and is not moved by the wall clock afterwards. */
export class ProcessClock implements Clock {
  readonly #scheduler: SimulatedScheduler;
  #anchorUs: number;

  constructor(scheduler: SimulatedScheduler, wallUs: number) {
    this.#scheduler = scheduler;
    this.#anchorUs = wallUs - Math.floor(scheduler.nowMs * 1000);
  }

  nowUs(): number {
    return this.#anchorUs + Math.floor(this.#scheduler.nowMs * 1000);
  }

  startAt(us: number): void {
    this.#anchorUs += Math.max(0, us - this.nowUs());
  }

  /** The machine slept: time has passed that no timer saw. */
  sleep(us: number): void {
    this.#anchorUs += us;
  }
}

/**
 * Tasks of a process; those of a dead one do not run. A turn of its loop may take a while to come, in which other things
 * arrive.
 */
class ProcessScheduler implements Scheduler {
  readonly #scheduler: SimulatedScheduler;
  readonly #process: SimulatedProcess;
  readonly #random: SimulatedRandom;
  readonly #turnDelayMsMax: number;
  #soon: (() => void)[] = [];

  constructor(host: ProcessHost, process: SimulatedProcess) {
    this.#scheduler = host.scheduler;
    this.#process = process;
    this.#random = host.random;
    this.#turnDelayMsMax = host.turnDelayMsMax;
  }

  soon(task: () => void): void {
    this.#soon.push(task);
    if (this.#soon.length > 1) return;
    const turn = (): void => {
      const tasks = this.#soon;
      this.#soon = [];
      for (const due of tasks) if (this.#process.isAlive) due();
    };
    if (this.#turnDelayMsMax === 0 || this.#random.chance(0.5)) this.#scheduler.soon(turn);
    else this.#scheduler.after(this.#random.integer(this.#turnDelayMsMax * 1000) / 1000, turn);
  }

  after(delayMs: number, task: () => void): () => void {
    return this.#scheduler.after(delayMs, () => {
      if (this.#process.isAlive) task();
    });
  }
}

/** The disk as a process sees it. A dead process sees nothing any more: its operations never end. */
class ProcessDisk implements Disk {
  readonly location: string;
  readonly #disk: Disk;
  readonly #process: SimulatedProcess;

  constructor(disk: Disk, process: SimulatedProcess) {
    this.location = disk.location;
    this.#disk = disk;
    this.#process = process;
  }

  async open(path: string, mode: 'read' | 'write' | 'create', writes?: WriteMode): Promise<DiskFile> {
    const file = await this.during(() => this.#disk.open(path, mode, writes));
    return {
      size: () => this.during(() => file.size()),
      read: (target, position) => this.during(() => file.read(target, position)),
      write: (source, position) => this.during(() => file.write(source, position)),
      sync: () => this.during(() => file.sync()),
      truncate: (length) => this.during(() => file.truncate(length)),
      close: () => this.during(() => file.close()),
    };
  }

  list(folder: string): Promise<string[]> {
    return this.during(() => this.#disk.list(folder));
  }

  remove(path: string): Promise<void> {
    return this.during(() => this.#disk.remove(path));
  }

  rename(from: string, to: string): Promise<void> {
    return this.during(() => this.#disk.rename(from, to));
  }

  makeFolder(path: string): Promise<void> {
    return this.during(() => this.#disk.makeFolder(path));
  }

  syncFolder(path: string): Promise<void> {
    return this.during(() => this.#disk.syncFolder(path));
  }

  space(): Promise<DiskSpace> {
    return this.during(() => this.#disk.space());
  }

  lock(): Promise<FolderLock> {
    return this.during(() => this.#disk.lock());
  }

  private during<Result>(operation: () => Promise<Result>): Promise<Result> {
    const process = this.#process;
    return new Promise((resolve, reject) => {
      if (!process.isAlive) return;
      operation().then(
        (result) => {
          if (process.isAlive) resolve(result);
        },
        (error: unknown) => {
          if (process.isAlive) reject(error as Error);
        },
      );
    });
  }
}

/** The work of the worker thread, one job after the other, on the same disk. */
class InlineBackground implements Background {
  readonly #disk: Disk;
  readonly #host: ProcessHost;
  #last: Promise<unknown> = Promise.resolve();
  #closed = false;
  #generation = 0;

  constructor(disk: Disk, host: ProcessHost) {
    this.#disk = disk;
    this.#host = host;
  }

  buildSegmentIndex(base: LogAddress, end: LogAddress, rows: SegmentRows | null): Promise<void> {
    return this.#run(async () => {
      const hasher = await createHasher(0, 0);
      const { segmentVisitor } = this.#host.hooks;
      if (rows !== null && segmentVisitor === undefined) {
        await buildSidecarOf(this.#disk, hasher, rows);
        return;
      }
      const visit: VisitSegment = (segment, visitor) => readSegment(this.#disk, hasher, segment, visitor, {}, end);
      await buildSidecar(this.#disk, hasher, segmentVisitor?.(visit) ?? visit, base);
    });
  }

  buildSnapshot(throughSequence: number): Promise<BuiltSnapshot> {
    const { log } = this.#host;
    return this.#run(() => buildSnapshot(this.#disk, throughSequence, (level, text) => log(level, text), rowsAtFirst));
  }

  /** A job that has begun cannot be interrupted here: it is waited for. */
  async cancel(): Promise<void> {
    this.#generation++;
    await this.#last;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.cancel();
  }

  #run<Result>(job: () => Promise<Result>): Promise<Result> {
    const generation = this.#generation;
    const result = this.#last.then(() => {
      if (this.#closed || generation !== this.#generation) throw new Error('background work was stopped');
      return job();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}
