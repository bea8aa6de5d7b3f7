/**
 * Broker time from the clocks of the host.
 *
 * It starts at the wall clock (or at the last stamp of the log, if that is later) and is then moved by the monotonic
 * clock, so that a wall clock that is set forwards or backwards moves nothing at once. Towards the wall clock it is
 * slewed, by at most 0.05 % of the time that passes. Time that the machine slept, which the monotonic clock of some
 * systems leaves out, is real time: it is found by comparison with the time since boot, and added.
 */
import { uptime } from 'node:os';
import type { Clock } from '../ports/mod.ts';

/** The clocks of a host, in microseconds. */
export interface ClockSources {
  /** Since 1970; may jump. */
  wallUs(): number;
  /** Never jumps; may stand still while the machine sleeps. */
  monotonicUs(): number;
  /** Since boot, sleep included; coarse. Asked at most once per second. */
  uptimeUs(): number;
}

const slewShareMax = 0.0005;
/** How often rate and sleep are looked at. A rate is followed no longer than this, however long nobody asks. */
const checkIntervalUs = 1_000_000;
/** The wall clock is read in milliseconds: a smaller difference means nothing. */
const differenceUsMin = 2_000;
/** A difference is to be gone after this long, if the limit on the rate allows. */
const correctionUs = 10_000_000;
/** Time since boot is read in steps of 10 ms and at another moment: less is no sleep. */
const sleepUsMin = 1_000_000;

const hostSources: ClockSources = {
  wallUs: () => Date.now() * 1000,
  monotonicUs: () => performance.now() * 1000,
  uptimeUs: () => uptime() * 1_000_000,
};

export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  /** Broker time was #anchorUs when the monotonic clock showed #monotonicUs and the time since boot #uptimeUs. */
  #anchorUs: number;
  #monotonicUs: number;
  #uptimeUs: number;
  /** −0.0005 to 0.0005. */
  #rate = 0;
  #lastUs = 0;

  constructor(sources: ClockSources = hostSources) {
    this.#sources = sources;
    this.#anchorUs = sources.wallUs();
    this.#monotonicUs = sources.monotonicUs();
    this.#uptimeUs = sources.uptimeUs();
  }

  nowUs(): number {
    const monotonicUs = this.#sources.monotonicUs();
    if (monotonicUs - this.#monotonicUs >= checkIntervalUs) this.#check(monotonicUs);
    return this.#advance(this.#timeAt(monotonicUs));
  }

  /** Time goes on from here, if it is not later already. For the last stamp found in the log. */
  startAt(us: number): void {
    // Asked first: it may move the anchor.
    const nowUs = this.nowUs();
    this.#anchorUs += Math.max(0, us - nowUs);
    this.#advance(us);
  }

  #advance(us: number): number {
    this.#lastUs = Math.max(this.#lastUs, Math.floor(us));
    return this.#lastUs;
  }

  #timeAt(monotonicUs: number): number {
    const elapsedUs = monotonicUs - this.#monotonicUs;
    return this.#anchorUs + elapsedUs + this.#rate * Math.min(elapsedUs, checkIntervalUs);
  }

  #check(monotonicUs: number): void {
    const uptimeUs = this.#sources.uptimeUs();
    const sleptUs = uptimeUs - this.#uptimeUs - (monotonicUs - this.#monotonicUs);
    this.#anchorUs = this.#timeAt(monotonicUs) + (sleptUs >= sleepUsMin ? sleptUs : 0);
    this.#monotonicUs = monotonicUs;
    this.#uptimeUs = uptimeUs;
    const differenceUs = this.#sources.wallUs() - this.#anchorUs;
    const share = Math.abs(differenceUs) < differenceUsMin ? 0 : differenceUs / correctionUs;
    this.#rate = Math.max(-slewShareMax, Math.min(slewShareMax, share));
  }
}
