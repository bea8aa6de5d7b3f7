/**
 * What goes wrong in a world: each kind of fault is one entry of a table, and happens at random times if the world has it.
 * Some do harm for a while; `heal` ends them all.
 */
import { segmentFolder } from '../../src/storage/segment-format.ts';
import type { SimulatedDisk } from './simulated-disk.ts';
import type { SimulatedRandom } from './simulated-random.ts';
import type { SimulatedScheduler } from './simulated-scheduler.ts';
import type { Faults, WorldOptions } from './world-options.ts';

export interface FaultHost {
  readonly disk: SimulatedDisk;
  readonly scheduler: SimulatedScheduler;
  readonly random: SimulatedRandom;
  readonly options: WorldOptions;
  /** The process dies now and is started again later; with `power` the disk forgets what was not synced. */
  crash(kind: 'power' | 'kill'): void;
  /** The process is stopped in order and started again. */
  restart(): void;
  setDiskFull(isFull: boolean): void;
  /** Time passes that no timer sees. */
  sleep(us: number): void;
  /** The wall clock is set; running processes do not care. */
  stepWallClock(us: number): void;
  /** A sealed segment is not what was written, from now on or until now. */
  segmentDamaged(): void;
  trace(text: string): void;
}

interface Flip {
  readonly path: string;
  readonly position: number;
  readonly bit: number;
}

export class FaultInjector {
  readonly #host: FaultHost;
  readonly #kinds: readonly (keyof Faults)[];
  #isOver = false;
  #otherFlips: (Flip & { readonly byte: number })[] = [];
  /** Flips in segments, which nothing but a mended disk can undo. */
  #flips: Flip[] = [];
  /** True once something happened that the broker may complain about in its log. */
  mayComplain = false;

  constructor(host: FaultHost) {
    this.#host = host;
    this.#kinds = (Object.keys(host.options.faults) as (keyof Faults)[]).filter((kind) => host.options.faults[kind]);
  }

  /** True while a sealed segment is not what was written: no promise about its records can be kept. */
  get hasDamagedSegments(): boolean {
    return this.#flips.length > 0;
  }

  start(): void {
    if (this.#kinds.length > 0) this.#next();
  }

  /** Ends everything that does harm, and does no more. */
  heal(): void {
    this.#isOver = true;
    this.#mend();
    this.#mendOthers();
    // The failure that was ordered does not come.
    this.#host.disk.failOperation(0);
    this.#host.disk.setCapacity(Number.POSITIVE_INFINITY);
    this.#host.setDiskFull(false);
  }

  #next(): void {
    const { scheduler, random, options } = this.#host;
    scheduler.after(random.integer(options.faultEveryMs * 2000) / 1000, () => {
      if (this.#isOver) return;
      const kind = this.#kinds[random.integer(this.#kinds.length)];
      this.#host.trace(`fault ${kind}`);
      this.#happen(kind);
      this.#next();
    });
  }

  #happen(kind: keyof Faults): void {
    const { random, disk } = this.#host;
    switch (kind) {
      case 'powerCuts':
        this.#host.crash('power');
        return;
      case 'kills':
        this.#host.crash('kill');
        return;
      case 'stops':
        this.#host.restart();
        return;
      case 'failingOperations':
        this.mayComplain = true;
        disk.failOperation(1 + random.integer(40), random.chance(0.8) ? 'EIO' : 'ENOSPC');
        return;
      case 'fullDisk':
        this.#fillDisk();
        return;
      case 'flippedBits':
        this.#flip();
        return;
      case 'sleeps':
        this.#host.sleep(random.integer(random.chance(0.8) ? 5_000_000 : 4_000_000_000));
        return;
      case 'wallClockSteps':
        this.#host.stepWallClock((random.integer(4000) - 2000) * 1_000_000);
        return;
    }
  }

  #fillDisk(): void {
    const { disk, random, scheduler } = this.#host;
    this.mayComplain = true;
    disk.setCapacity(disk.usedBytes() + random.integer(20_000));
    // The watermark sees it, or comes too late.
    if (random.chance(0.5)) this.#host.setDiskFull(true);
    scheduler.after(random.integer(2000), () => {
      if (this.#isOver) return;
      disk.setCapacity(Number.POSITIVE_INFINITY);
      this.#host.setDiskFull(false);
    });
  }

  /**
   * One bit of a file that nobody writes any more, for a while: what it could be built from again may be reclaimed
   * meanwhile, and two damaged copies of the same facts are more than a broker can bear.
   */
  #flip(): void {
    const { disk, random, scheduler } = this.#host;
    const paths = disk.paths();
    const segments = paths.filter((path) => path.startsWith(segmentFolder) && path.endsWith('.seg'));
    const others = paths.filter((path) => /\.(idx|snap)$/.test(path));
    const isSegment = random.chance(0.3);
    const candidates = isSegment ? segments.slice(0, -2) : others;
    if (candidates.length === 0) return;
    const path = candidates[random.integer(candidates.length)];
    const length = disk.contents(path).length;
    if (length === 0) return;
    this.mayComplain = true;
    const flip = { path, position: random.integer(length), bit: random.integer(8) };
    disk.corrupt(flip.path, flip.position, flip.bit);
    this.#host.trace(`bit ${flip.bit} of ${path} at ${flip.position} flips`);
    if (!isSegment) {
      this.#otherFlips.push({ ...flip, byte: disk.contents(path)[flip.position] });
      scheduler.after(random.integer(1500), () => this.#mendOthers());
      return;
    }
    this.#flips.push(flip);
    this.#host.segmentDamaged();
    scheduler.after(random.integer(1500), () => this.#mend());
  }

  /** One that was built again meanwhile is right as it is. */
  #mendOthers(): void {
    const { disk } = this.#host;
    for (const { path, position, bit, byte } of this.#otherFlips) {
      if (disk.paths().includes(path) && disk.contents(path)[position] === byte) disk.corrupt(path, position, bit);
    }
    this.#otherFlips = [];
  }

  #mend(): void {
    const flips = this.#flips;
    this.#flips = [];
    const { disk } = this.#host;
    // One that was reclaimed meanwhile needs no mending.
    for (const { path, position, bit } of flips) if (disk.paths().includes(path)) disk.corrupt(path, position, bit);
  }
}
