/**
 * What a broker does by itself, whatever its clients do: removes what has expired, deletes partitions that nobody uses
 * any more, and gives back the disk that all this took.
 *
 * A pass begins soon after the start, and a few seconds after the one before it has ended: a broker that never lives long
 * gets on with it, too. It is made of small steps; each step that decides
 * something is an operation of the shard like any other, waits its turn behind the requests that came before it, and is
 * made durable before the next one. What a pass does not finish, because the broker stops or fails, the next one does.
 */
import {
  type BrokerState,
  type DecisionContext,
  decideCleanup,
  decideTrim,
  decideTrimWhole,
  type ExpiryRule,
  expiryRule,
  isAbandoned,
  isExpired,
  type Queue,
  type Refusal,
  type Schedule,
  type Trim,
} from '../core/mod.ts';
import type { Scheduler } from '../ports/mod.ts';
import type { Operation } from './operations.ts';
import { Reclaimer } from './reclaimer.ts';
import type { Store } from './store.ts';
import { FetchedFacts, type StoreAccess, StoreDamage } from './store-access.ts';

export interface HousekeepingOptions {
  /** Time between two passes. */
  readonly intervalMs: number;
  /** How long an empty partition stays after its last append; 0 = for ever. */
  readonly cleanupUs: number;
  /** Bytes of blocks that are copied out of sparse segments in a second. */
  readonly relocatedBytesPerSecond: number;
}

export const housekeepingDefaults: HousekeepingOptions = {
  intervalMs: 5000,
  cleanupUs: 30 * 86_400 * 1_000_000,
  relocatedBytesPerSecond: 16 * 1024 * 1024,
};

/** The shard, as far as housekeeping needs it. */
export interface HousekeepingHost {
  readonly context: DecisionContext;
  readonly schedule: Schedule;
  readonly scheduler: Scheduler;
  readonly access: StoreAccess;
  readonly store: Store;
  submit(operation: Operation): void;
  /** A snapshot is taken soon, however little log was written since the last one. */
  requestSnapshot(): void;
  /** Requests wait for their turn, or for the disk. */
  isBusy(): boolean;
  noteDamage(error: StoreDamage): void;
  log(level: 'info' | 'warn' | 'error', text: string): void;
}

const steps = {
  /** Partitions filed for their deadline in one go. */
  filed: 20_000,
  /** Partitions that are due, looked at in one operation. */
  lanes: 1000,
  /** Appends of one partition that go with one record. */
  appends: 4096,
  /** Trims decided in one operation. */
  trims: 256,
} as const;

/** Until the first pass, so that requests that waited for the start go before it. */
const firstPassMs = 100;
/** After damage, or an error of the disk, a partition is looked at again this much later. */
const troubleUs = 600 * 1_000_000;
/** An empty partition that may not go yet is looked at again after this share of the time. */
const cleanupShare = 0.1;

/** Counters since the store was opened. */
export interface HousekeepingCounts {
  expiredRecords: number;
  deletedPartitions: number;
}

interface Due {
  readonly queue: Queue;
  readonly lane: number;
  readonly pid: number;
}

/** `isCut`: more than that may have expired. */
type FoundTrim = (Trim & { readonly isCut: boolean }) | 'none' | 'trouble';

/** Ends a pass that cannot go on: the broker stops, or reloads its log. */
class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

export class Housekeeping {
  readonly counts: HousekeepingCounts = { expiredRecords: 0, deletedPartitions: 0 };
  readonly reclaimer: Reclaimer;
  readonly #host: HousekeepingHost;
  readonly #options: HousekeepingOptions;
  readonly #state: BrokerState;
  #cancel: (() => void) | null = null;
  /** Ends the wait that a step is in. */
  #wake: (() => void) | null = null;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(host: HousekeepingHost, options: HousekeepingOptions) {
    this.#host = host;
    this.#options = options;
    this.#state = host.store.state;
    this.reclaimer = new Reclaimer(
      host,
      {
        decide: (work) => this.#decide(work),
        pause: () => this.#pause(),
        wait: (ms) => this.#wait(ms),
      },
      options.relocatedBytesPerSecond,
    );
    this.#later(Math.min(firstPassMs, options.intervalMs));
  }

  /** No further step is begun; resolves when the one that runs has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    this.#cancel = null;
    this.#wake?.();
    await this.#running;
  }

  #later(ms: number): void {
    if (this.#stopped) return;
    this.#cancel = this.#host.scheduler.after(ms, () => {
      this.#cancel = null;
      this.#running = this.#pass();
    });
  }

  async #pass(): Promise<void> {
    try {
      while (this.#host.schedule.expiry.walk(steps.filed)) await this.#pause();
      await this.#removeExpired();
      await this.reclaimer.pass();
    } catch (error) {
      // The shard hears of failures of the log by itself; a pass that met another error of the disk is tried again.
      if (!(error instanceof Interrupted) && !this.#stopped) {
        this.#host.log('error', `removing expired messages was interrupted: ${(error as Error).message}`);
      }
    }
    this.#later(this.#options.intervalMs);
  }

  /** Until nothing is due any more that was due when it began. */
  async #removeExpired(): Promise<void> {
    const { context } = this.#host;
    let beganUs = 0;
    for (let isLeft = true; isLeft; ) {
      const partly: Due[] = [];
      await this.#decide(() => {
        if (beganUs === 0) beganUs = context.nowUs;
        isLeft = this.#takeDue(beganUs, partly) === steps.lanes;
      });
      try {
        if (await this.#trimPartly(partly)) isLeft = true;
      } catch (error) {
        // Those that were not trimmed would never be looked at again.
        for (const { queue, lane, pid } of partly) {
          if (this.#state.laneOf(pid) === lane) this.#host.schedule.expiry.file(queue, lane);
        }
        throw error;
      }
    }
  }

  /** Looks at lanes that are due; those of which only a part may go are collected. Returns how many were looked at. */
  #takeDue(dueUs: number, partly: Due[]): number {
    const { context, schedule } = this.#host;
    const { partitions } = this.#state;
    const abandoned = new Map<Queue, number[]>();
    let taken = 0;
    for (; taken < steps.lanes; taken++) {
      const lane = schedule.expiry.take(dueUs);
      if (lane < 0) break;
      const queue = this.#state.queueOfLane(lane);
      if (partitions.isEmpty(lane)) this.#lookAtEmpty(queue, lane, abandoned);
      else {
        const records = partitions.nextOffset[lane] - partitions.logStart[lane];
        if (decideTrimWhole(context, queue, lane)) this.counts.expiredRecords += records;
        else if (mayTrim(expiryRule(this.#state, queue, lane, context.nowUs), this.#state, lane)) {
          partly.push({ queue, lane, pid: partitions.pid[lane] });
        } else this.#putAside(queue, lane);
      }
    }
    for (const [queue, lanes] of abandoned) {
      this.counts.deletedPartitions += decideCleanup(context, queue, lanes, this.#options.cleanupUs).length;
    }
    return taken;
  }

  #lookAtEmpty(queue: Queue, lane: number, abandoned: Map<Queue, number[]>): void {
    const { cleanupUs } = this.#options;
    const { nowUs } = this.#host.context;
    if (!isAbandoned(this.#state, lane, nowUs, cleanupUs)) {
      const again = nowUs + Math.ceil(cleanupUs * cleanupShare);
      this.#host.schedule.expiry.postpone(lane, Math.max(again, this.#state.partitions.lastStampUs[lane] + cleanupUs));
      return;
    }
    const lanes = abandoned.get(queue);
    if (lanes === undefined) abandoned.set(queue, [lane]);
    else lanes.push(lane);
  }

  /** Nothing of the lane may go now: because it is too young, or because a group has not consumed it. */
  #putAside(queue: Queue, lane: number): void {
    const { expiry } = this.#host.schedule;
    const oldestUs = this.#state.partitions.oldestStampUs(lane);
    const { nowUs } = this.#host.context;
    const isOld = queue.completedUs > 0 && oldestUs < nowUs - queue.completedUs;
    if (isOld) expiry.waitForGroups(queue, lane);
    else expiry.file(queue, lane);
  }

  /**
   * Finds out how far partitions may be trimmed, and does it. What was trimmed is filed again by that. True when one of
   * them had more to go than goes at once.
   */
  async #trimPartly(due: readonly Due[]): Promise<boolean> {
    let isLeft = false;
    for (let from = 0; from < due.length; from += steps.trims) {
      const found: { due: Due; trim: FoundTrim }[] = [];
      for (const lane of due.slice(from, from + steps.trims)) found.push({ due: lane, trim: await this.#find(lane) });
      await this.#decide(() => {
        for (const { due: one, trim } of found) if (this.#trim(one, trim)) isLeft = true;
      });
    }
    return isLeft;
  }

  /** True when more may go. */
  #trim({ queue, lane, pid }: Due, trim: FoundTrim): boolean {
    const { context, schedule } = this.#host;
    if (this.#state.laneOf(pid) !== lane) return false;
    if (trim === 'trouble') schedule.expiry.postpone(lane, context.nowUs + troubleUs);
    else if (trim === 'none') this.#putAside(queue, lane);
    else if (decideTrim(context, trim)) {
      this.counts.expiredRecords += trim.to - trim.from;
      return trim.isCut;
    } else schedule.expiry.file(queue, lane);
    return false;
  }

  /** The appends of a lane that have expired; `none` has, or in `trouble` that cannot be found out now. */
  async #find({ queue, lane, pid }: Due): Promise<FoundTrim> {
    const { index } = this.#host.store;
    const { partitions } = this.#state;
    const from = partitions.logStart[lane];
    let to = from;
    let lastStampUs = 0;
    let bytes = 0;
    for (let appends = 0; appends < steps.appends; appends++) {
      if (this.#state.laneOf(pid) !== lane || partitions.logStart[lane] !== from || to >= partitions.nextOffset[lane]) {
        break;
      }
      const place = index.find(lane, pid, to) ?? (await this.#load(lane, pid, to));
      if (place === undefined) return 'trouble';
      const { stampUs, count, length } = place;
      const by = expiryRule(this.#state, queue, lane, this.#host.context.nowUs);
      if (!isExpired(by, stampUs, to + count - 1)) {
        return to === from ? 'none' : { lane, pid, from, to, lastStampUs, bytes, keptSinceUs: stampUs, isCut: false };
      }
      to += count;
      bytes += length;
      lastStampUs = stampUs;
    }
    if (to === from) return 'none';
    const isLast = this.#state.laneOf(pid) !== lane || to >= partitions.nextOffset[lane];
    const next = isLast ? undefined : (index.find(lane, pid, to) ?? (await this.#load(lane, pid, to)));
    return { lane, pid, from, to, lastStampUs, bytes, keptSinceUs: next?.stampUs ?? 0, isCut: !isLast };
  }

  async #load(lane: number, pid: number, offset: number): ReturnType<Store['index']['load']> {
    if (this.#stopped) throw new Interrupted();
    const { index } = this.#host.store;
    try {
      const place = await index.load(lane, pid, offset);
      const isKept = this.#state.isKept(lane, pid, offset);
      if (place !== undefined || !isKept) return place;
      throw new StoreDamage(`no block of pid ${pid} holds offset ${offset}`);
    } catch (error) {
      if (!(error instanceof StoreDamage)) throw error;
      this.#host.noteDamage(error);
      return undefined;
    }
  }

  /** Makes `work` one operation of the shard; resolves when what it wrote is durable. */
  async #decide(work: () => void): Promise<void> {
    if (this.#stopped) throw new Interrupted();
    const failure = await new Promise<Refusal | null>((resolve) => {
      this.#host.submit({
        facts: new FetchedFacts(),
        decide: () => {
          work();
          return 'done';
        },
        release: resolve,
      });
    });
    if (failure !== null || this.#stopped) throw new Interrupted();
  }

  /** Lets requests that have arrived go first. */
  async #pause(): Promise<void> {
    await new Promise<void>((resolve) => this.#host.scheduler.soon(resolve));
    if (this.#stopped) throw new Interrupted();
  }

  async #wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      this.#host.scheduler.after(ms, resolve);
    });
    this.#wake = null;
    if (this.#stopped) throw new Interrupted();
  }
}

/** True when the oldest append of a lane may go, as far as can be told without looking where it ends. */
function mayTrim(by: Readonly<ExpiryRule>, state: BrokerState, lane: number): boolean {
  return isExpired(by, state.partitions.oldestStampUs(lane), state.partitions.logStart[lane]);
}
