/**
 * Settling one target of an acknowledgement: where does the cursor go, what becomes of the lease and the retry budget,
 * which records are given up.
 */

import { unresolved } from './ack-resolve.ts';
import type { ItemNumbers } from './ack-targets.ts';
import { type AckItems, ackStatus } from './commands.ts';
import type { DecisionContext } from './decision.ts';
import { fileDeadLetter } from './file-dead-letter.ts';
import { type AckOutcome, ackError } from './outcomes.ts';
import type { Queue, Subscription } from './queue.ts';
import { CursorRecord } from './records.ts';

/** Error text of a dead letter when no client gave one. */
const noText = 'Retries exhausted';
/** … and the group gave the record back once too often. */
const noTextGivenBack = 'given back by an ack';

/** What several results on one offset come to: dlq beats failed beats retry beats completed. */
function stronger(a: number, b: number): number {
  return strength(a) >= strength(b) ? a : b;
}

function strength(status: number): number {
  switch (status) {
    case ackStatus.dlq:
      return 3;
    case ackStatus.failed:
      return 2;
    case ackStatus.retry:
      return 1;
    default:
      return 0;
  }
}

interface Named {
  /** The first item that names the offset: its id is the record's. */
  readonly item: number;
  status: number;
  error: string | null;
}

/**
 * One target that may change its cursor: worked out by `settle`, carried out by `emit`. The objects are used again from
 * call to call.
 */
export class Settlement {
  /** The cursor: filled in before `settle`, which moves it. */
  readonly record = new CursorRecord();
  #context!: DecisionContext;
  #items!: AckItems;
  #queue!: Queue;
  #subscription!: Subscription;
  /** The item numbers of this target are order[begin … begin + count), in input order. */
  #order!: Int32Array;
  #begin = 0;
  #count = 0;
  #outcome!: AckOutcome;
  /** Results by offset, within the span; filled only when one of them did not complete. */
  #named: Map<number, Named> | null = null;
  /** Highest completed offset; −1 = none. */
  #highest = -1;
  /** Offsets to file as dead letters, ascending. */
  #filed: { offset: number; named: Named; error: string }[] | null = null;
  #changes = false;
  #retriesBefore = 0;
  /** Offset of a record whose last delivery the items end without settling it; −1 = none. */
  #lastDelivered = -1;

  /** @param end last offset of the span that the items may name. */
  settle(
    context: DecisionContext,
    items: AckItems,
    { order, begin, count }: ItemNumbers,
    queue: Queue,
    subscription: Subscription,
    end: number,
    offsets: Float64Array,
    outcome: AckOutcome,
  ): void {
    this.#context = context;
    this.#items = items;
    this.#queue = queue;
    this.#subscription = subscription;
    this.#order = order;
    this.#begin = begin;
    this.#count = count;
    this.#outcome = outcome;
    this.#highest = -1;
    this.#filed = null;
    this.#changes = false;
    this.#lastDelivered = -1;
    this.#retriesBefore = this.record.retryCount;
    const before = this.record.committed;
    const signal = this.#read(offsets, before, end);
    this.#named = signal === Number.POSITIVE_INFINITY ? null : this.#name(offsets, before, end);
    this.#move(signal);
    this.#answer(offsets, before);
  }

  /** Sorts the items: below the cursor, unresolved, or within the span. Returns the lowest offset that did not complete. */
  #read(offsets: Float64Array, committed: number, end: number): number {
    let signal = Number.POSITIVE_INFINITY;
    for (let i = 0; i < this.#count; i++) {
      const item = this.#order[this.#begin + i];
      const offset = offsets[i];
      const status = this.#items.statuses[item];
      if (offset === unresolved || offset > end) this.#outcome.errors[item] = ackError.stale;
      else if (offset <= committed) {
        if (status === ackStatus.completed) this.#outcome.noop[item] = 1;
        else this.#outcome.errors[item] = ackError.stale;
      } else if (status !== ackStatus.completed) signal = Math.min(signal, offset);
      else if (offset > this.#highest) this.#highest = offset;
    }
    return signal;
  }

  /** Files the results by offset. */
  #name(offsets: Float64Array, committed: number, end: number): Map<number, Named> {
    const byOffset = new Map<number, Named>();
    for (let i = 0; i < this.#count; i++) {
      const item = this.#order[this.#begin + i];
      const offset = offsets[i];
      if (offset <= committed || offset > end) continue;
      const status = this.#items.statuses[item];
      const error = this.#items.errors[item] ?? null;
      const named = byOffset.get(offset);
      if (named === undefined) byOffset.set(offset, { item, status, error });
      else {
        named.status = stronger(named.status, status);
        named.error ??= error;
      }
    }
    return byOffset;
  }

  /** The highest completed offset below a bound, or the cursor. */
  #completedBelow(bound: number): number {
    // Without a signal nothing was filed by offset, and nothing bounds what completed.
    if (this.#named === null) return Math.max(this.#highest, this.record.committed);
    let highest = this.record.committed;
    for (const [offset, named] of this.#named) {
      if (named.status === ackStatus.completed && offset < bound && offset > highest) highest = offset;
    }
    return highest;
  }

  #move(signal: number): void {
    const record = this.record;
    if (signal === Number.POSITIVE_INFINITY && this.#highest <= record.committed) return;
    const held = record.leaseStamp !== 0;
    // Without a lease in the row there is no batch to break off: only the completed prefix counts.
    if (!held) {
      this.#commit(this.#completedBelow(signal));
      return;
    }
    if (signal === Number.POSITIVE_INFINITY) {
      const completed = record.conflated ? record.leaseEnd : this.#completedBelow(signal);
      if (completed >= record.leaseEnd) {
        this.#release();
        this.#commit(record.leaseEnd);
        record.retryCount = 0;
        record.batchDone = true;
        this.#forgetAttempts();
      } else if (completed > record.committed) {
        this.#remember();
        this.#commit(completed);
        record.attemptOffset = completed + 1;
      }
      return;
    }
    const head = this.#named?.get(signal) as Named;
    this.#release();
    this.#commit(this.#completedBelow(signal));
    const comesAgain =
      head.status === ackStatus.retry ||
      (head.status === ackStatus.failed && record.retryCount < this.#queue.options.retryLimit);
    if (!comesAgain) {
      this.#settleAbove(signal, head, head.error ?? noText);
    } else if (this.#wasLastDelivery(signal)) {
      // Here, and not when a pop comes to it: now the text is known.
      const { attemptCount } = record;
      const bound = `delivered ${attemptCount} times, maxDeliveries ${this.#queue.deliveriesMax}`;
      this.#lastDelivered = signal;
      this.#settleAbove(signal, head, `${head.error ?? noTextGivenBack} (${bound})`);
    } else if (head.status === ackStatus.failed) {
      record.retryCount++;
      if (this.#queue.retryDelayUs > 0) record.heldUntilUs = this.#context.nowUs + this.#queue.retryDelayUs;
    }
  }

  /** True when the record was delivered as often as the queue allows, and the group stands before it. */
  #wasLastDelivery(offset: number): boolean {
    const { deliveriesMax } = this.#queue;
    const { record } = this;
    const isNext = record.conflated || record.committed + 1 === offset;
    return deliveriesMax > 0 && record.attemptCount >= deliveriesMax && record.attemptOffset === offset && isNext;
  }

  /** Files the head, then walks up the batch to the first record that has to come back. */
  #settleAbove(signal: number, head: Named, headText: string): void {
    const record = this.record;
    const { options } = this.#queue;
    const headError = head.error ?? noText;
    const exhausted = this.#retriesBefore >= options.retryLimit;
    const end = record.conflated ? signal : record.leaseEnd;
    const lastCompleted = this.#completedBelow(Number.POSITIVE_INFINITY);
    record.retryCount = 0;
    this.#give(signal, head, headText);
    let settled = signal;
    for (let offset = signal + 1; offset <= end; offset++) {
      const named = this.#named?.get(offset);
      if (named === undefined) {
        if (offset > lastCompleted) break;
      } else if (named.status === ackStatus.dlq || (named.status === ackStatus.failed && exhausted)) {
        this.#give(offset, named, named.error ?? headError);
      } else if (named.status === ackStatus.failed) {
        record.retryCount = this.#retriesBefore;
        break;
      } else if (named.status === ackStatus.retry) break;
      settled = offset;
    }
    this.#commit(record.conflated ? record.leaseEnd : settled);
    if (record.attemptOffset <= record.committed) this.#forgetAttempts();
  }

  /** What lies before it was removed by the rules of the queue: there is nothing left to keep. */
  #logStart(): number {
    const { partitions } = this.#context.state;
    return partitions.logStart[partitions.findPid(this.record.pid)];
  }

  /** A record the group gives up on: a dead letter, unless the queue wants none for exhausted ones. */
  #give(offset: number, named: Named, error: string): void {
    const { options } = this.#queue;
    const isKept = named.status === ackStatus.dlq || options.deadLetterQueue || options.dlqAfterMaxRetries;
    if (!isKept || offset < this.#logStart()) return;
    this.#filed ??= [];
    this.#filed.push({ offset, named, error });
  }

  #forgetAttempts(): void {
    this.record.attemptOffset = -1;
    this.record.attemptCount = 0;
  }

  #commit(offset: number): void {
    const record = this.record;
    if (offset <= record.committed) return;
    record.consumed += offset - record.committed;
    record.committed = offset;
    this.#changes = true;
  }

  #release(): void {
    const record = this.record;
    this.#remember();
    record.leaseStamp = 0;
    this.#changes = true;
  }

  /** Notes the whole range of the lease, from before its first ack on, for an ack that comes again. */
  #remember(): void {
    const record = this.record;
    if (record.memoStamp !== record.leaseStamp) {
      record.memoStamp = record.leaseStamp;
      record.memoFrom = record.committed + 1;
    }
    record.memoCount = Math.min(record.leaseEnd - record.memoFrom + 1, 0xffff_ffff);
  }

  #answer(offsets: Float64Array, before: number): void {
    const released = this.record.leaseStamp === 0 ? 1 : 0;
    const filed = this.#filed === null ? null : new Set(this.#filed.map((row) => row.offset));
    for (let i = 0; i < this.#count; i++) {
      const item = this.#order[this.#begin + i];
      this.#outcome.leaseReleased[item] = released;
      if (filed === null || this.#outcome.errors[item] !== ackError.none || offsets[i] <= before) continue;
      const status = this.#items.statuses[item];
      const gaveUp =
        status === ackStatus.failed ||
        status === ackStatus.dlq ||
        (status === ackStatus.retry && offsets[i] === this.#lastDelivered);
      if (gaveUp && filed.has(offsets[i])) this.#outcome.deadLettered[item] = 1;
    }
  }

  /** `filed`: how many dead letters this call filed before; returns how many there are then. */
  emit(filed: number): number {
    if (!this.#changes) return filed;
    const { journal, nowUs } = this.#context;
    const { state } = this.#context;
    const record = this.record;
    const rows = this.#filed ?? [];
    const partition = rows.length === 0 ? '' : state.partitions.nameText(state.partitions.findPid(record.pid));
    rows.forEach((row, index) => {
      fileDeadLetter(state, journal, {
        stampUs: nowUs,
        index: filed + index,
        queueNumber: this.#queue.number,
        pid: record.pid,
        group: this.#subscription.group,
        offset: row.offset,
        error: row.error,
        retryCount: this.#retriesBefore,
        partition,
        idHigh: this.#items.hashes[row.named.item * 2],
        idLow: this.#items.hashes[row.named.item * 2 + 1],
      });
    });
    journal.cursor(record);
    return filed + rows.length;
  }
}
