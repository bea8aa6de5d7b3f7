/**
 * Acknowledging: results of delivered records move their group's cursor.
 *
 * The items of one call are split into targets, one per (partition, lease id). Each target is all or nothing and
 * independent of the others. A target is decided in three steps: fence (does the caller hold what it speaks of),
 * resolve (which offset does each item name), settle (where does the cursor go). Everything is worked out for all
 * targets before the first record is emitted, because a look-up may have to wait for the disk.
 */
import { type AckItems, ackStatus } from './commands.ts';
import { cursorBit } from './cursor-table.ts';
import { type DecisionContext, idLookup, type NeedsLoad, nameRefusal, needsLoad } from './decision.ts';
import { type IdParts, parseId } from './ids.ts';
import { type AckOutcome, ackError, type Refusal } from './outcomes.ts';
import type { Queue, Subscription } from './queue.ts';
import { CursorRecord } from './records.ts';

/** Offsets that are no offsets, in the resolution of an item. */
const unresolved = -1;

/** Longest span of records that is searched one by one; in a longer one ids are looked up in the index. */
const scannedSpanMax = 65_536;

const noText = 'Retries exhausted';

interface Target {
  readonly pid: number;
  readonly leaseStamp: number;
  /** Item numbers, in input order. */
  readonly items: number[];
}

export function decideAck(
  context: DecisionContext,
  group: string,
  groupBytes: number,
  items: AckItems,
): AckOutcome | Refusal | NeedsLoad {
  const tooLong = nameRefusal(0, groupBytes, 'consumerGroup');
  if (tooLong !== null) return tooLong;
  const outcome = emptyOutcome(items.count);
  const plans: Settlement[] = [];
  const targets = splitTargets(items, outcome);
  // Two targets of one call may mean the same cursor, with and without a lease: the later one sees what the earlier did.
  const planned = targets.length > 1 ? new Map<number, CursorRecord>() : null;
  let complete = true;
  for (const target of targets) {
    const plan = planTarget(context, group, items, target, planned, outcome);
    if (plan === undefined) complete = false;
    else if (plan !== null) plans.push(plan);
  }
  if (!complete) return needsLoad;
  let filed = 0;
  for (const plan of plans) filed = plan.emit(filed);
  return outcome;
}

/** Answers of the call: the same arrays each time, valid until the next decision. */
let reused = newOutcome(64);

function newOutcome(capacity: number): { -readonly [K in keyof AckOutcome]: AckOutcome[K] } {
  return {
    ok: true,
    count: 0,
    errors: new Uint8Array(capacity),
    leaseReleased: new Uint8Array(capacity),
    deadLettered: new Uint8Array(capacity),
    noop: new Uint8Array(capacity),
  };
}

function emptyOutcome(count: number): AckOutcome {
  if (count > reused.errors.length) reused = newOutcome(count * 2);
  reused.count = count;
  reused.errors.fill(ackError.none, 0, count);
  reused.leaseReleased.fill(0, 0, count);
  reused.deadLettered.fill(0, 0, count);
  reused.noop.fill(0, 0, count);
  return reused;
}

function splitTargets(items: AckItems, outcome: AckOutcome): Target[] {
  const targets: Target[] = [];
  let last: Target | null = null;
  for (let item = 0; item < items.count; item++) {
    const pid = items.pids[item];
    if (pid < 0) {
      outcome.errors[item] = ackError.notAPartitionId;
      continue;
    }
    const leaseStamp = items.leaseStamps[item];
    if (last === null || last.pid !== pid || last.leaseStamp !== leaseStamp) {
      // Calls mostly list partition after partition; only a mixed one is searched.
      last = targets.find((target) => target.pid === pid && target.leaseStamp === leaseStamp) ?? null;
      if (last === null) {
        last = { pid, leaseStamp, items: [] };
        targets.push(last);
      }
    }
    last.items.push(item);
  }
  return targets;
}

function refuseAll(target: Target, outcome: AckOutcome, error: number): null {
  for (const item of target.items) outcome.errors[item] = error;
  return null;
}

/** Plans one target: null when nothing changes, undefined when something has to be loaded first. */
function planTarget(
  context: DecisionContext,
  group: string,
  items: AckItems,
  target: Target,
  planned: Map<number, CursorRecord> | null,
  outcome: AckOutcome,
): Settlement | null | undefined {
  const { partitions, cursors } = context.state;
  const lane = context.state.laneOf(target.pid);
  if (lane < 0) return refuseAll(target, outcome, ackError.noPartition);
  const queue = context.state.queueOfLane(lane);
  const subscription = queue.subscription(group);
  const row = subscription === undefined ? -1 : cursors.find(partitions.firstCursor[lane], subscription.number);
  if (subscription === undefined || row < 0 || (cursors.flags[row] & cursorBit.touched) === 0) {
    return refuseAll(target, outcome, ackError.stale);
  }
  const earlier = planned?.get(row);
  const record =
    earlier === undefined
      ? cursors.read(row, target.pid, new CursorRecord())
      : Object.assign(new CursorRecord(), earlier);
  record.consumed = 0;
  record.batchDone = false;
  planned?.set(row, record);
  const fenced = target.leaseStamp !== 0;
  if (fenced && !(record.leaseStamp === target.leaseStamp && record.expiresAtUs >= context.nowUs)) {
    if (record.memoStamp === target.leaseStamp) return repeatAck(context, items, target, lane, record, outcome);
    return refuseAll(target, outcome, ackError.lease);
  }
  const from = record.committed + 1;
  const to = record.leaseStamp !== 0 ? record.leaseEnd : partitions.nextOffset[lane] - 1;
  const offsets = new Float64Array(target.items.length).fill(unresolved);
  const span = { lane, pid: target.pid, from, to };
  if (!resolve(context, items, target, span, offsets)) return undefined;
  return new Settlement(context, items, target, queue, subscription, record, offsets, outcome);
}

/** An ack that comes again after it released its lease: what it settled then is a success now. */
function repeatAck(
  context: DecisionContext,
  items: AckItems,
  target: Target,
  lane: number,
  record: CursorRecord,
  outcome: AckOutcome,
): null | undefined {
  const from = record.memoFrom;
  const to = Math.min(record.memoFrom + record.memoCount - 1, record.committed);
  const offsets = new Float64Array(target.items.length).fill(unresolved);
  if (!resolve(context, items, target, { lane, pid: target.pid, from, to }, offsets)) return undefined;
  target.items.forEach((item, i) => {
    if (offsets[i] >= from && offsets[i] <= to) outcome.leaseReleased[item] = 1;
    else outcome.errors[item] = ackError.lease;
  });
  return null;
}

interface Span {
  readonly lane: number;
  readonly pid: number;
  /** Offsets, both inclusive. */
  readonly from: number;
  readonly to: number;
}

const idParts: IdParts = { stampUs: 0, number: 0, index: 0 };

/**
 * Fills `offsets` with the lowest offset in the span whose record has the item's id, or, when there is none, with the
 * offset outside the span where the id is known to be. False when blocks or ids have to be loaded.
 */
function resolve(
  context: DecisionContext,
  items: AckItems,
  target: Target,
  span: Span,
  offsets: Float64Array,
): boolean {
  const open = target.items.length;
  let found = 0;
  if (span.to - span.from < scannedSpanMax) {
    const scanned = scan(context, items, target, span, offsets);
    if (scanned < 0) return false;
    found = scanned;
  }
  if (found === open) return true;
  let complete = true;
  target.items.forEach((item, i) => {
    if (offsets[i] !== unresolved) return;
    const offset = lookUp(context, items, item, span);
    if (offset === idLookup.missing) complete = false;
    else offsets[i] = offset;
  });
  return complete;
}

/** Stamp and index of an item whose id is a message id of this partition; false when it is not one. */
function isMessageId(context: DecisionContext, items: AckItems, item: number, pid: number): boolean {
  return (
    parseId(context.state.identity, items.bytes, items.ends[item], items.ends[item + 1], idParts) &&
    idParts.number === pid
  );
}

function lookUp(context: DecisionContext, items: AckItems, item: number, span: Span): number {
  const { ids, blocks } = context;
  // No transactionId that could be one was sent.
  if (items.ends[item] === items.ends[item + 1]) return unresolved;
  const offset = ids.find(span.lane, span.pid, items.hashes[item * 2], items.hashes[item * 2 + 1], 0);
  if (offset !== idLookup.absent) return offset;
  if (!isMessageId(context, items, item, span.pid)) return unresolved;
  const { stampUs, index } = idParts;
  const first = ids.firstFrom(span.lane, span.pid, stampUs);
  if (first < 0) return first;
  const view = blocks.open(span.lane, span.pid, first);
  if (view === undefined) return idLookup.missing;
  const isIt =
    view.stampUs === stampUs && index < view.count && view.hashHigh(index) === 0 && view.hashLow(index) === 0;
  return isIt ? first + index : unresolved;
}

let slots = new Int32Array(64);
let nextSameHash = new Int32Array(64);

/**
 * Walks the records of the span and notes the first match of each item. Items are filed by the hash of their id, so that
 * a record costs one look. Returns how many were found, −1 when a block is missing.
 */
function scan(context: DecisionContext, items: AckItems, target: Target, span: Span, offsets: Float64Array): number {
  const count = target.items.length;
  let size = 4;
  while (size < count * 2) size *= 2;
  if (slots.length < size) {
    slots = new Int32Array(size);
    nextSameHash = new Int32Array(size);
  }
  slots.fill(0, 0, size);
  const mask = size - 1;
  for (let i = count - 1; i >= 0; i--) {
    const slot = items.hashes[(target.items[i] as number) * 2 + 1] & mask;
    nextSameHash[i] = slots[slot];
    slots[slot] = i + 1;
  }
  let found = 0;
  for (let offset = span.from; offset <= span.to && found < count; ) {
    const view = context.blocks.open(span.lane, span.pid, offset);
    if (view === undefined) return -1;
    const first = view.firstOffset;
    const end = Math.min(view.count, span.to - first + 1);
    let minted = false;
    for (let index = offset - first; index < end; index++) {
      const high = view.hashHigh(index);
      const low = view.hashLow(index);
      if (high === 0 && low === 0) {
        minted = true;
        continue;
      }
      for (let i = slots[low & mask] - 1; i >= 0; i = nextSameHash[i] - 1) {
        if (offsets[i] !== unresolved) continue;
        const item = target.items[i] as number;
        if (items.hashes[item * 2 + 1] !== low || items.hashes[item * 2] !== high) continue;
        view.select(index);
        if (!sameBytes(view.bytes, view.idStart, view.idEnd, items, item)) continue;
        offsets[i] = first + index;
        found++;
      }
    }
    if (minted) {
      for (let i = 0; i < count; i++) {
        if (offsets[i] !== unresolved) continue;
        const item = target.items[i] as number;
        if (!isMessageId(context, items, item, span.pid) || idParts.stampUs !== view.stampUs) continue;
        const at = first + idParts.index;
        if (at < offset || idParts.index >= end) continue;
        if (view.hashHigh(idParts.index) !== 0 || view.hashLow(idParts.index) !== 0) continue;
        offsets[i] = at;
        found++;
      }
    }
    offset = first + view.count;
  }
  return found;
}

function sameBytes(bytes: Uint8Array, from: number, to: number, items: AckItems, item: number): boolean {
  const start = items.ends[item];
  if (to - from !== items.ends[item + 1] - start) return false;
  for (let p = from, q = start; p < to; p++, q++) if (bytes[p] !== items.bytes[q]) return false;
  return true;
}

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
  status: number;
  error: string | null;
}

/** One target that may change its cursor: worked out in the constructor, carried out by `emit`. */
class Settlement {
  readonly #context: DecisionContext;
  readonly #queue: Queue;
  readonly #subscription: Subscription;
  readonly #record: CursorRecord;
  readonly #target: Target;
  readonly #outcome: AckOutcome;
  /** Results by offset, within the span; filled only when one of them did not complete. */
  readonly #named = new Map<number, Named>();
  /** Highest completed offset; −1 = none. */
  #highest = -1;
  /** Offsets to file as dead letters, ascending. */
  readonly #filed: { offset: number; error: string }[] = [];
  readonly #offsets: Float64Array;
  #changes = false;
  readonly #retriesBefore: number;

  constructor(
    context: DecisionContext,
    items: AckItems,
    target: Target,
    queue: Queue,
    subscription: Subscription,
    record: CursorRecord,
    offsets: Float64Array,
    outcome: AckOutcome,
  ) {
    this.#context = context;
    this.#queue = queue;
    this.#subscription = subscription;
    this.#record = record;
    this.#target = target;
    this.#outcome = outcome;
    this.#offsets = offsets;
    this.#retriesBefore = record.retryCount;
    const before = record.committed;
    const signal = this.#read(items, before);
    this.#settle(signal);
    this.#answer(items, before);
  }

  /** Sorts the items: below the cursor, unresolved, or named at an offset. Returns the lowest offset that did not complete. */
  #read(items: AckItems, committed: number): number {
    let signal = Number.POSITIVE_INFINITY;
    this.#target.items.forEach((item, i) => {
      const offset = this.#offsets[i];
      const status = items.statuses[item];
      if (offset === unresolved || offset > this.#spanEnd()) {
        this.#outcome.errors[item] = ackError.stale;
        return;
      }
      if (offset <= committed) {
        if (status === ackStatus.completed) this.#outcome.noop[item] = 1;
        else this.#outcome.errors[item] = ackError.stale;
        return;
      }
      if (status !== ackStatus.completed) signal = Math.min(signal, offset);
      else if (offset > this.#highest) this.#highest = offset;
    });
    if (signal !== Number.POSITIVE_INFINITY) this.#name(items, committed);
    return signal;
  }

  /** Files the results by offset. */
  #name(items: AckItems, committed: number): void {
    this.#target.items.forEach((item, i) => {
      const offset = this.#offsets[i];
      if (offset <= committed || offset > this.#spanEnd()) return;
      const status = items.statuses[item];
      const error = items.errors[item] ?? null;
      const named = this.#named.get(offset);
      if (named === undefined) this.#named.set(offset, { status, error });
      else {
        named.status = stronger(named.status, status);
        named.error ??= error;
      }
    });
  }

  #spanEnd(): number {
    const record = this.#record;
    if (record.leaseStamp !== 0) return record.leaseEnd;
    const { partitions } = this.#context.state;
    return partitions.nextOffset[partitions.findPid(record.pid)] - 1;
  }

  /** The highest completed offset below a bound, or the cursor. */
  #completedBelow(bound: number): number {
    // Without a signal nothing was filed by offset, and nothing bounds what completed.
    if (this.#named.size === 0) return Math.max(this.#highest, this.#record.committed);
    let highest = this.#record.committed;
    for (const [offset, named] of this.#named) {
      if (named.status === ackStatus.completed && offset < bound && offset > highest) highest = offset;
    }
    return highest;
  }

  #settle(signal: number): void {
    const record = this.#record;
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
    const head = this.#named.get(signal) as Named;
    this.#release();
    this.#commit(this.#completedBelow(signal));
    switch (head.status) {
      case ackStatus.retry:
        return;
      case ackStatus.failed:
        if (record.retryCount < this.#queue.options.retryLimit) {
          record.retryCount++;
          if (this.#queue.retryDelayUs > 0) record.heldUntilUs = this.#context.nowUs + this.#queue.retryDelayUs;
          return;
        }
        break;
      default:
    }
    this.#settleAbove(signal, head);
  }

  /** Files the head, then walks up the batch to the first record that has to come back. */
  #settleAbove(signal: number, head: Named): void {
    const record = this.#record;
    const { options } = this.#queue;
    const headError = head.error ?? noText;
    const exhausted = this.#retriesBefore >= options.retryLimit;
    const end = record.conflated ? signal : record.leaseEnd;
    const lastCompleted = this.#completedBelow(Number.POSITIVE_INFINITY);
    record.retryCount = 0;
    this.#give(signal, head, headError);
    let settled = signal;
    for (let offset = signal + 1; offset <= end; offset++) {
      const named = this.#named.get(offset);
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

  /** A record the group gives up on: a dead letter, unless the queue wants none for exhausted ones. */
  #give(offset: number, named: Named, error: string): void {
    const { options } = this.#queue;
    const isKept = named.status === ackStatus.dlq || options.deadLetterQueue || options.dlqAfterMaxRetries;
    if (isKept) this.#filed.push({ offset, error });
  }

  #forgetAttempts(): void {
    this.#record.attemptOffset = -1;
    this.#record.attemptCount = 0;
  }

  #commit(offset: number): void {
    const record = this.#record;
    if (offset <= record.committed) return;
    record.consumed += offset - record.committed;
    record.committed = offset;
    this.#changes = true;
  }

  #release(): void {
    const record = this.#record;
    this.#remember();
    record.leaseStamp = 0;
    this.#changes = true;
  }

  /** Notes the whole range of the lease, from before its first ack on, for an ack that comes again. */
  #remember(): void {
    const record = this.#record;
    if (record.memoStamp !== record.leaseStamp) {
      record.memoStamp = record.leaseStamp;
      record.memoFrom = record.committed + 1;
    }
    record.memoCount = Math.min(record.leaseEnd - record.memoFrom + 1, 0xffff_ffff);
  }

  #answer(items: AckItems, before: number): void {
    const released = this.#record.leaseStamp === 0 ? 1 : 0;
    const filedOffsets = new Set(this.#filed.map((row) => row.offset));
    this.#target.items.forEach((item, i) => {
      this.#outcome.leaseReleased[item] = released;
      if (this.#outcome.errors[item] !== ackError.none || this.#offsets[i] <= before) return;
      const status = items.statuses[item];
      const gaveUp = status === ackStatus.failed || status === ackStatus.dlq;
      if (gaveUp && filedOffsets.has(this.#offsets[i])) this.#outcome.deadLettered[item] = 1;
    });
  }

  /** `filed`: how many dead letters this call filed before; returns how many there are then. */
  emit(filed: number): number {
    if (!this.#changes) return filed;
    const { journal, nowUs } = this.#context;
    const record = this.#record;
    this.#filed.forEach((row, index) => {
      journal.deadLetter({
        stampUs: nowUs,
        index: filed + index,
        queueNumber: this.#queue.number,
        pid: record.pid,
        group: this.#subscription.group,
        offset: row.offset,
        error: row.error,
        retryCount: this.#retriesBefore,
      });
    });
    journal.cursor(record);
    return filed + this.#filed.length;
  }
}
