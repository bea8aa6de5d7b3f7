/**
 * A budget of bytes for request bodies in flight.
 *
 * A body enters with the bytes it announces (or grows, when it announces none) and leaves when its request is settled.
 * While there is no room, requests wait in order of arrival; each gives up after the wait time ± 25 %, so that clients
 * refused together do not come back together. A body larger than the whole budget is admitted when it is alone:
 * otherwise it could never be, and "try again" would be a lie.
 */

/** A request that wants room. Its two methods are called at most once in total. */
export interface Admitted {
  /** There is room; the bytes are charged. May run inside `enter`. */
  admitted(): void;
  /** The wait is over and there was no room; nothing is charged. */
  refused(): void;
}

interface Waiter {
  readonly request: Admitted;
  readonly bytes: number;
  readonly timer: NodeJS.Timeout;
}

export class Admission {
  /** Never above `bytesMax`, unless one request alone is. */
  bytesInUse = 0;
  readonly #bytesMax: number;
  readonly #waitMs: number;
  /** In order of arrival. */
  readonly #waiters = new Map<Admitted, Waiter>();

  readonly #random: () => number;

  /** @param options.random in [0, 1), spreads the waits */
  constructor(options: { bytesMax: number; waitMs: number; random?: () => number }) {
    this.#bytesMax = options.bytesMax;
    this.#waitMs = options.waitMs;
    this.#random = options.random ?? Math.random;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Asks for room for `bytes`. */
  enter(request: Admitted, bytes: number): void {
    if (this.#waiters.size === 0 && this.#hasRoom(bytes)) {
      this.bytesInUse += bytes;
      request.admitted();
      return;
    }
    const waitMs = this.#waitMs * (0.75 + this.#random() / 2);
    const timer = setTimeout(() => {
      this.#waiters.delete(request);
      request.refused();
      // What waits behind it may be smaller and fit.
      this.#admitWaiting();
    }, waitMs);
    timer.unref();
    this.#waiters.set(request, { request, bytes, timer });
  }

  /** Charges `bytes` more to a request that is inside with `charged` bytes. False when there is no room: nothing is charged. */
  grow(charged: number, bytes: number): boolean {
    if (this.bytesInUse !== charged && this.bytesInUse + bytes > this.#bytesMax) return false;
    this.bytesInUse += bytes;
    return true;
  }

  /** Gives back all `bytes` of a request that was admitted. */
  leave(bytes: number): void {
    this.bytesInUse -= bytes;
    this.#admitWaiting();
  }

  /** The request no longer wants to enter. Harmless when it does not wait. */
  giveUp(request: Admitted): void {
    const waiter = this.#waiters.get(request);
    if (waiter === undefined) return;
    clearTimeout(waiter.timer);
    this.#waiters.delete(request);
    this.#admitWaiting();
  }

  #hasRoom(bytes: number): boolean {
    return this.bytesInUse === 0 || this.bytesInUse + bytes <= this.#bytesMax;
  }

  #admitWaiting(): void {
    for (const waiter of this.#waiters.values()) {
      if (!this.#hasRoom(waiter.bytes)) return;
      clearTimeout(waiter.timer);
      this.#waiters.delete(waiter.request);
      this.bytesInUse += waiter.bytes;
      waiter.request.admitted();
    }
  }
}
