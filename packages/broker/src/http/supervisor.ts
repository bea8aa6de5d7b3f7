/**
 * Looks after exchanges that take long, with one timer for all of them: requests that the engine has not answered in
 * time, and answers that clients do not read.
 *
 * The usual exchange is answered and gone before the first look, and costs two links of a list.
 */

/** A request with its answer, as the supervisor sees it. The fields belong to the list that the exchange is on. */
export interface Supervised {
  list: SupervisedList | null;
  previous: Supervised | null;
  next: Supervised | null;
  /** When it came onto its list, in milliseconds of the monotonic clock. */
  sinceMs: number;
  /** Answer bytes that are waiting for the client. */
  unsentBytes: number;
  /** False while answers to earlier requests of the same connection are still owed. */
  readonly hasTurn: boolean;
  /** The engine has not answered by the deadline. */
  overdue(): void;
  /** Cuts the connection; the answer is lost to the client. */
  cut(): void;
}

/** A doubly linked list that allocates nothing. Exchanges are on at most one list. */
export class SupervisedList {
  first: Supervised | null = null;
  last: Supervised | null = null;
  count = 0;

  add(exchange: Supervised): void {
    exchange.list = this;
    exchange.previous = this.last;
    exchange.next = null;
    if (this.last === null) this.first = exchange;
    else this.last.next = exchange;
    this.last = exchange;
    this.count++;
  }

  remove(exchange: Supervised): void {
    if (exchange.previous === null) this.first = exchange.next;
    else exchange.previous.next = exchange.next;
    if (exchange.next === null) this.last = exchange.previous;
    else exchange.next.previous = exchange.previous;
    exchange.list = null;
    exchange.previous = null;
    exchange.next = null;
    this.count--;
  }
}

/** A reader that takes its answer at least this fast is never cut, whatever the answer's size. */
export const answerBytesPerSecondMin = 256 * 1024;

/** When memory for answers runs out, readers that have had this long are cut first; younger ones are left alone. */
const readerMercyMs = 2000;

const lookEveryMsMax = 1000;

export interface SupervisorOptions {
  readonly requestTimeoutMs: number;
  readonly slowReaderSeconds: number;
  readonly answerBytes: number;
}

export class Supervisor {
  /** Handed to the engine and not answered, oldest first. */
  readonly #working = new SupervisedList();
  /** Answered, and not yet taken by the client; oldest first. */
  readonly #writing = new SupervisedList();
  readonly #options: SupervisorOptions;
  readonly #timer: NodeJS.Timeout;
  /** Of answers that clients have not read yet. */
  unsentBytes = 0;
  /** Of answers that are made and wait until what they tell is durable. */
  heldBytes = 0;
  readersCut = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    const lookEveryMs = Math.min(lookEveryMsMax, Math.max(20, options.requestTimeoutMs / 4));
    this.#timer = setInterval(() => this.#look(performance.now()), lookEveryMs);
    this.#timer.unref();
  }

  /** Requests that the engine works on. */
  get working(): number {
    return this.#working.count;
  }

  get writing(): number {
    return this.#writing.count;
  }

  /** The exchange was handed to the engine. It leaves by `done` or by `unsent`. */
  handedOver(exchange: Supervised): void {
    exchange.sinceMs = performance.now();
    this.#working.add(exchange);
  }

  /** The client has not taken the whole answer of `bytes` bytes at once. The exchange leaves by `done`. */
  unsent(exchange: Supervised, bytes: number): void {
    if (exchange.list !== null) exchange.list.remove(exchange);
    exchange.sinceMs = performance.now();
    exchange.unsentBytes = bytes;
    this.unsentBytes += bytes;
    this.#writing.add(exchange);
  }

  /** The exchange needs no more looking after. Harmless when it is on no list. */
  done(exchange: Supervised): void {
    if (exchange.list === null) return;
    exchange.list.remove(exchange);
    this.unsentBytes -= exchange.unsentBytes;
    exchange.unsentBytes = 0;
  }

  /**
   * True when there is memory for another large answer. When there is not, the readers that have kept theirs waiting
   * longest are cut first: one client that does not read must not stop those that do.
   */
  hasRoomForAnswer(): boolean {
    if (this.#bytes <= this.#options.answerBytes) return true;
    const nowMs = performance.now();
    let each = this.#writing.first;
    while (each !== null && this.#bytes > this.#options.answerBytes) {
      const next = each.next;
      if (nowMs - each.sinceMs >= readerMercyMs) this.#cut(each);
      each = next;
    }
    return this.#bytes <= this.#options.answerBytes;
  }

  get #bytes(): number {
    return this.unsentBytes + this.heldBytes;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(nowMs: number): void {
    let late = this.#working.first;
    while (late !== null && nowMs - late.sinceMs >= this.#options.requestTimeoutMs) {
      this.#working.remove(late);
      late.overdue();
      late = this.#working.first;
    }
    let each = this.#writing.first;
    while (each !== null) {
      const next = each.next;
      if (!each.hasTurn) each.sinceMs = nowMs;
      else if (nowMs - each.sinceMs >= this.#allowedMs(each.unsentBytes)) this.#cut(each);
      each = next;
    }
  }

  #allowedMs(bytes: number): number {
    return (this.#options.slowReaderSeconds + bytes / answerBytesPerSecondMin) * 1000;
  }

  #cut(exchange: Supervised): void {
    this.done(exchange);
    this.readersCut++;
    exchange.cut();
  }
}
