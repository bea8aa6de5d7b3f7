/**
 * Push: items become records of their partitions.
 *
 * Four passes, of which only the last changes anything: group the items by (queue, partition); find duplicates; see
 * whether every queue has room; append. Scratch memory is reused between calls.
 */
import { limits } from '@lanemq/protocol';
import { type PushItems, pushHash, pushSlice } from './commands.ts';
import { type DecisionContext, ensureQueue, idLookup, type NeedsLoad, nameRefusal, needsLoad } from './decision.ts';
import { dueUsOf, tooDistantRefusal, tooManyDueRefusal } from './due.ts';
import { type IdParts, idIndexMax, parseId } from './ids.ts';
import { itemStatus, type PushOutcome, type Refusal } from './outcomes.ts';
import type { Queue } from './queue.ts';
import { offsetOfId, offsetOfMessageId } from './record-lookup.ts';

const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Scratch of one decider; grown to the largest push seen, within the limit on bodies. */
export class PushDecider {
  // Per item
  #nextOfGroup = new Int32Array(64);
  /** Item of this push that has the same id, earlier in the same group; −1 = none. */
  #repeats = new Int32Array(64);
  #numbers = new Int32Array(64);
  // Per group
  #groupHead = new Int32Array(64);
  #groupTail = new Int32Array(64);
  #groupCount = new Int32Array(64);
  #groupLane = new Int32Array(64);
  #groupFresh = new Int32Array(64);
  #groupQueue: (Queue | undefined)[] = [];
  #groupQueueName: string[] = [];
  // Open addressing: group + 1 by partition, item + 1 by id
  #table = new Int32Array(256);
  #idTable = new Int32Array(256);
  /** Answers of the call: the same arrays each time, valid until the next decision. */
  #outcome = newOutcome(64);
  #dues = new Float64Array(64);
  readonly #idParts: IdParts = { stampUs: 0, number: 0, index: 0 };

  /** Largest append in bytes; a group over it is answered with status `error`. */
  readonly #appendBytesMax: number;

  constructor(appendBytesMax: number = limits.appendBytesMax) {
    this.#appendBytesMax = appendBytesMax;
  }

  decide(
    context: DecisionContext,
    items: PushItems,
    encrypted: ReadonlySet<string>,
  ): PushOutcome | Refusal | NeedsLoad {
    const count = items.count;
    this.#reserve(count);
    const outcome = this.#outcome;
    outcome.count = count;
    outcome.statuses.fill(itemStatus.queued, 0, count);
    outcome.dues = null;
    if (count === 0) return outcome;
    const due = items.due ?? null;
    if (due !== null) {
      const tooDistant = tooDistantRefusal(items, due, context.nowUs);
      if (tooDistant !== null) return tooDistant;
    }
    const grouped = this.#group(context, items);
    if (typeof grouped !== 'number') return grouped;
    const complete = this.#findDuplicates(context, items, grouped, outcome);
    if (!complete) return needsLoad;
    const full = this.#refuseFull(grouped);
    if (full !== null) return full;
    if (due !== null) {
      const tooMany = this.#refuseDue(context, items, due, outcome);
      if (tooMany !== null) return tooMany;
      if (this.#dues.length < count) this.#dues = new Float64Array(this.#nextOfGroup.length);
      outcome.dues = this.#dues.fill(0, 0, count);
    }
    for (let group = 0; group < grouped; group++) this.#append(context, items, group, outcome, encrypted);
    this.#answerRepeats(items, outcome);
    return outcome;
  }

  /** Refusal when the fresh items that have to wait do not fit. */
  #refuseDue(context: DecisionContext, items: PushItems, due: Float64Array, outcome: PushOutcome): Refusal | null {
    let waiting = 0;
    for (let item = 0; item < items.count; item++) {
      const isFresh = this.#repeats[item] < 0 && outcome.statuses[item] !== itemStatus.duplicate;
      if (isFresh && dueUsOf(due, item, context.nowUs) > 0) waiting++;
    }
    return tooManyDueRefusal(context, waiting);
  }

  #reserve(count: number): void {
    if (count <= this.#nextOfGroup.length && count * 2 <= this.#table.length) {
      const used = tableSize(count);
      this.#table.fill(0, 0, used);
      return;
    }
    let capacity = this.#nextOfGroup.length;
    while (capacity < count) capacity *= 2;
    this.#nextOfGroup = new Int32Array(capacity);
    this.#repeats = new Int32Array(capacity);
    this.#numbers = new Int32Array(capacity);
    this.#groupHead = new Int32Array(capacity);
    this.#groupTail = new Int32Array(capacity);
    this.#groupCount = new Int32Array(capacity);
    this.#groupLane = new Int32Array(capacity);
    this.#groupFresh = new Int32Array(capacity);
    this.#outcome = newOutcome(capacity);
    this.#table = new Int32Array(capacity * 4);
    this.#idTable = new Int32Array(capacity * 4);
  }

  /** Pass 1. Returns the number of groups, in first-seen order, or why the push is refused. */
  #group(context: DecisionContext, items: PushItems): number | Refusal {
    const { slices, hashes, bytes, count } = items;
    const mask = tableSize(count) - 1;
    const table = this.#table;
    let groups = 0;
    let group = -1;
    let queue: Queue | undefined;
    let queueName = '';
    for (let item = 0; item < count; item++) {
      const s = item * pushSlice.stride;
      if (item > 0 && sameNames(items, item - 1, item)) {
        this.#join(group, item);
        continue;
      }
      if (item === 0 || !sameSlice(items, item - 1, item, pushSlice.queueStart)) {
        queueName = textDecoder.decode(
          bytes.subarray(slices[s + pushSlice.queueStart], slices[s + pushSlice.queueEnd]),
        );
        queue = context.state.queues.get(queueName);
      }
      const partitionStart = slices[s + pushSlice.partitionStart];
      const partitionEnd = slices[s + pushSlice.partitionEnd];
      const refusal = nameRefusal(
        slices[s + pushSlice.queueEnd] - slices[s + pushSlice.queueStart],
        partitionEnd - partitionStart,
        'partition',
      );
      if (refusal !== null) return refusal;
      const hash = hashes[item * pushHash.stride + pushHash.partitionLow];
      let slot = (hash ^ Math.imul(queue?.number ?? queueName.length, 0x9e3779b1)) & mask;
      for (;;) {
        group = table[slot] - 1;
        if (group < 0 || sameNames(items, this.#groupHead[group], item)) break;
        slot = (slot + 1) & mask;
      }
      if (group >= 0) {
        this.#join(group, item);
        continue;
      }
      group = groups++;
      table[slot] = group + 1;
      this.#groupHead[group] = item;
      this.#groupTail[group] = item;
      this.#groupCount[group] = 1;
      this.#nextOfGroup[item] = -1;
      this.#groupQueue[group] = queue;
      this.#groupQueueName[group] = queueName;
      this.#groupLane[group] =
        queue === undefined
          ? -1
          : context.state.partitions.find(queue.number, hash, bytes, partitionStart, partitionEnd);
    }
    return groups;
  }

  #join(group: number, item: number): void {
    this.#nextOfGroup[this.#groupTail[group]] = item;
    this.#groupTail[group] = item;
    this.#groupCount[group]++;
    this.#nextOfGroup[item] = -1;
  }

  /** Pass 2: statuses of duplicates, and which items repeat an earlier one. False when ids have to be loaded. */
  #findDuplicates(context: DecisionContext, items: PushItems, groups: number, outcome: PushOutcome): boolean {
    const { hashes, slices } = items;
    const { partitions } = context.state;
    let complete = true;
    for (let group = 0; group < groups; group++) {
      const lane = this.#groupLane[group];
      const pid = lane < 0 ? 0 : partitions.pid[lane];
      const windowUs = this.#groupQueue[group]?.dedupUs ?? 0;
      // An id can only be known where something was written inside the window.
      const mayKnow = lane >= 0 && windowUs > 0 && partitions.lastStampUs[lane] >= context.nowUs - windowUs;
      const single = this.#groupCount[group] === 1;
      const mask = tableSize(this.#groupCount[group]) - 1;
      if (!single) this.#idTable.fill(0, 0, mask + 1);
      let fresh = 0;
      for (let item = this.#groupHead[group]; item >= 0; item = this.#nextOfGroup[item]) {
        this.#repeats[item] = -1;
        const idStart = slices[item * pushSlice.stride + pushSlice.idStart];
        if (idStart >= 0) {
          const high = hashes[item * pushHash.stride + pushHash.idHigh];
          const low = hashes[item * pushHash.stride + pushHash.idLow];
          if (!single) {
            const first = this.#firstWithId(items, item, high, low, mask);
            if (first >= 0) {
              this.#repeats[item] = first;
              continue;
            }
          }
          if (mayKnow) {
            const known = this.#findStored(context, items, item, lane, pid, context.nowUs - windowUs, outcome);
            if (known === idLookup.missing) complete = false;
            if (known !== idLookup.absent) continue;
          }
        }
        fresh++;
      }
      this.#groupFresh[group] = fresh;
    }
    return complete;
  }

  /** The item of the group that came earlier with the same id, or −1; the item is then remembered. */
  #firstWithId(items: PushItems, item: number, high: number, low: number, mask: number): number {
    let slot = low & mask;
    for (;;) {
      const other = this.#idTable[slot] - 1;
      if (other < 0) {
        this.#idTable[slot] = item + 1;
        return -1;
      }
      if (
        items.hashes[other * pushHash.stride + pushHash.idLow] === low &&
        items.hashes[other * pushHash.stride + pushHash.idHigh] === high &&
        sameSlice(items, other, item, pushSlice.idStart)
      ) {
        return other;
      }
      slot = (slot + 1) & mask;
    }
  }

  /** Looks for a stored record with the item's id and fills the outcome when there is one. */
  #findStored(
    context: DecisionContext,
    items: PushItems,
    item: number,
    lane: number,
    pid: number,
    sinceUs: number,
    outcome: PushOutcome,
  ): number {
    const { ids, state } = context;
    const h = item * pushHash.stride;
    const s = item * pushSlice.stride;
    const idStart = items.slices[s + pushSlice.idStart];
    const idEnd = items.slices[s + pushSlice.idEnd];
    const high = items.hashes[h + pushHash.idHigh];
    const low = items.hashes[h + pushHash.idLow];
    const known = offsetOfId(context, lane, pid, high, low, sinceUs, items.bytes, idStart, idEnd);
    if (known === idLookup.missing) return known;
    if (known >= 0) {
      fillDuplicate(outcome, item, known, pid, ids.found.stampUs, ids.found.index);
      return known;
    }
    // The id of a record that was pushed without one is its message id, which says where it is.
    const parts = this.#idParts;
    const isOurs =
      parseId(state.identity, items.bytes, idStart, idEnd, parts) && parts.number === pid && parts.stampUs >= sinceUs;
    if (!isOurs) return idLookup.absent;
    const offset = offsetOfMessageId(context, lane, pid, parts);
    if (offset < 0) return offset;
    const view = context.blocks.open(lane, pid, offset);
    if (view === undefined) return idLookup.missing;
    if (view.hashLow(parts.index) !== 0 || view.hashHigh(parts.index) !== 0) return idLookup.absent;
    fillDuplicate(outcome, item, offset, pid, parts.stampUs, parts.index);
    return offset;
  }

  /** Pass 3: a queue with a maxSize takes all of the push's fresh records or none. */
  #refuseFull(groups: number): Refusal | null {
    let asked: Map<Queue, number> | null = null;
    for (let group = 0; group < groups; group++) {
      const queue = this.#groupQueue[group];
      if (queue === undefined || queue.options.maxSize === 0) continue;
      asked ??= new Map();
      asked.set(queue, (asked.get(queue) ?? 0) + this.#groupFresh[group]);
    }
    if (asked === null) return null;
    for (const [queue, fresh] of asked) {
      const depth = queue.depth();
      if (fresh > 0 && depth + fresh > queue.options.maxSize) {
        return {
          ok: false,
          code: 'queue_full',
          message: `queue ${queue.name} holds ${depth} unfinished messages, its maxSize is ${queue.options.maxSize}: ${fresh} more do not fit, nothing was stored`,
          retryAfterSeconds: 1,
        };
      }
    }
    return null;
  }

  /** Pass 4: one append per group. */
  #append(
    context: DecisionContext,
    items: PushItems,
    group: number,
    outcome: PushOutcome,
    encrypted: ReadonlySet<string>,
  ): void {
    const fresh = this.#groupFresh[group];
    if (fresh === 0) return;
    const { state, journal, nowUs } = context;
    const { slices, bytes } = items;
    const head = this.#groupHead[group] * pushSlice.stride;
    let size = 0;
    let collected = 0;
    for (let item = this.#groupHead[group]; item >= 0; item = this.#nextOfGroup[item]) {
      if (this.#repeats[item] >= 0 || outcome.statuses[item] === itemStatus.duplicate) continue;
      this.#numbers[collected++] = item;
      const s = item * pushSlice.stride;
      size += slices[s + pushSlice.payloadEnd] - slices[s + pushSlice.payloadStart] + 16;
      size += slices[s + pushSlice.headersEnd] - slices[s + pushSlice.headersStart];
      if (slices[s + pushSlice.idStart] >= 0) size += slices[s + pushSlice.idEnd] - slices[s + pushSlice.idStart];
    }
    if (size > this.#appendBytesMax || fresh >= idIndexMax) {
      for (let i = 0; i < collected; i++) {
        const item = this.#numbers[i];
        outcome.statuses[item] = itemStatus.error;
        outcome.offsets[item] = -1;
        outcome.pids[item] = 0;
        outcome.stamps[item] = nowUs;
        outcome.indexes[item] = item % idIndexMax;
      }
      return;
    }
    const queue = this.#groupQueue[group] ?? ensureQueue(context, this.#groupQueueName[group]);
    let lane = this.#groupLane[group];
    if (lane < 0) {
      const hash = items.hashes[this.#groupHead[group] * pushHash.stride + pushHash.partitionLow];
      const partitionStart = slices[head + pushSlice.partitionStart];
      const partitionEnd = slices[head + pushSlice.partitionEnd];
      journal.partition(state.nextPid, queue.number, nowUs, hash, bytes, partitionStart, partitionEnd);
      lane = state.partitions.findPid(state.nextPid - 1);
    }
    const pid = state.partitions.pid[lane];
    const first = state.partitions.nextOffset[lane];
    for (let i = 0; i < collected; i++) {
      const item = this.#numbers[i];
      outcome.offsets[item] = first + i;
      outcome.pids[item] = pid;
      outcome.stamps[item] = nowUs;
      outcome.indexes[item] = i;
    }
    if (outcome.dues !== null && items.due) {
      for (let i = 0; i < collected; i++) {
        const item = this.#numbers[i];
        items.due[item] = dueUsOf(items.due, item, nowUs);
        outcome.dues[item] = items.due[item];
      }
    }
    journal.block(pid, first, nowUs, items, this.#numbers, 0, collected, encrypted.has(queue.name));
  }

  /** Repeats inside the call answer like the first one. */
  #answerRepeats(items: PushItems, outcome: PushOutcome): void {
    for (let item = 0; item < items.count; item++) {
      const first = this.#repeats[item];
      if (first < 0) continue;
      outcome.statuses[item] = outcome.statuses[first] === itemStatus.error ? itemStatus.error : itemStatus.duplicate;
      outcome.offsets[item] = outcome.offsets[first];
      outcome.pids[item] = outcome.pids[first];
      outcome.stamps[item] = outcome.stamps[first];
      outcome.indexes[item] = outcome.indexes[first];
    }
  }
}

/** The item is known: it is answered with what the record that came first got. */
function fillDuplicate(
  outcome: PushOutcome,
  item: number,
  offset: number,
  pid: number,
  stampUs: number,
  index: number,
): void {
  outcome.statuses[item] = itemStatus.duplicate;
  outcome.offsets[item] = offset;
  outcome.pids[item] = pid;
  outcome.stamps[item] = stampUs;
  outcome.indexes[item] = index;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function newOutcome(capacity: number): Mutable<PushOutcome> {
  return {
    ok: true,
    count: 0,
    statuses: new Uint8Array(capacity),
    offsets: new Float64Array(capacity),
    pids: new Float64Array(capacity),
    stamps: new Float64Array(capacity),
    indexes: new Uint32Array(capacity),
    dues: null,
  };
}

/** Slots of the scratch tables for `count` keys: a power of two, at most half full. */
function tableSize(count: number): number {
  let size = 4;
  while (size < count * 2) size *= 2;
  return size;
}

function sameSlice(items: PushItems, a: number, b: number, field: number): boolean {
  const { slices, bytes } = items;
  let p = slices[a * pushSlice.stride + field];
  let q = slices[b * pushSlice.stride + field];
  const length = slices[a * pushSlice.stride + field + 1] - p;
  if (slices[b * pushSlice.stride + field + 1] - q !== length) return false;
  if (p === q) return true;
  for (const end = p + length; p < end; p++, q++) if (bytes[p] !== bytes[q]) return false;
  return true;
}

function sameNames(items: PushItems, a: number, b: number): boolean {
  return sameSlice(items, a, b, pushSlice.partitionStart) && sameSlice(items, a, b, pushSlice.queueStart);
}
