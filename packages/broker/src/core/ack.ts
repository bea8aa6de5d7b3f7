/**
 * Acknowledging: results of delivered records move their group's cursor.
 *
 * The items of one call are split into targets, one per (partition, lease id). Each target is all or nothing and
 * independent of the others. A target is decided in three steps: fence (does the caller hold what it speaks of),
 * resolve (which offset does each item name), settle (where does the cursor go). Everything is worked out for all
 * targets before the first record is emitted, because a look-up may have to wait for the disk.
 */
import { resolve, unresolved } from './ack-resolve.ts';
import { Settlement } from './ack-settlement.ts';
import { AckTargets, type ItemNumbers } from './ack-targets.ts';
import type { AckItems } from './commands.ts';
import { cursorBit } from './cursor-table.ts';
import { type DecisionContext, type NeedsLoad, nameRefusal, needsLoad } from './decision.ts';
import { type AckOutcome, ackError, type Refusal } from './outcomes.ts';
import type { CursorRecord } from './records.ts';

const targets = new AckTargets();
/** Plans of the targets of a call: the same objects each time. */
const plans: Settlement[] = [];

export function decideAck(
  context: DecisionContext,
  group: string,
  groupBytes: number,
  items: AckItems,
): AckOutcome | Refusal | NeedsLoad {
  const tooLong = nameRefusal(0, groupBytes, 'consumerGroup');
  if (tooLong !== null) return tooLong;
  const outcome = emptyOutcome(items.count);
  targets.split(items, outcome);
  // Two targets of one call may mean the same cursor, with and without a lease: the later one sees what the earlier did.
  const planned = targets.sharePartitions ? new Map<number, CursorRecord>() : null;
  let complete = true;
  let planCount = 0;
  for (let target = 0; target < targets.count; target++) {
    if (planCount === plans.length) plans.push(new Settlement());
    const result = planTarget(context, group, items, target, plans[planCount], planned, outcome);
    if (result === 'needs-load') complete = false;
    else if (result === 'planned') planCount++;
  }
  if (!complete) return needsLoad;
  let filed = 0;
  for (let plan = 0; plan < planCount; plan++) filed = plans[plan].emit(filed);
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

/** Offsets of the items of the target that is planned: the same array each time. */
let offsetsReused = new Float64Array(64);

function noOffsets(count: number): Float64Array {
  if (count > offsetsReused.length) offsetsReused = new Float64Array(count * 2);
  return offsetsReused.fill(unresolved, 0, count);
}

function refuseAll({ order, begin, count }: ItemNumbers, outcome: AckOutcome, error: number): 'nothing' {
  for (let i = begin; i < begin + count; i++) outcome.errors[order[i]] = error;
  return 'nothing';
}

const span = { lane: 0, pid: 0, from: 0, to: 0 };

/** Plans one target, in `plan`; 'nothing' when it changes nothing. */
function planTarget(
  context: DecisionContext,
  group: string,
  items: AckItems,
  target: number,
  plan: Settlement,
  planned: Map<number, CursorRecord> | null,
  outcome: AckOutcome,
): 'planned' | 'nothing' | 'needs-load' {
  const { partitions, cursors } = context.state;
  const pid = targets.pids[target];
  const leaseStamp = targets.leaseStamps[target];
  const numbers = targets.itemsOf(target);
  const lane = context.state.laneOf(pid);
  if (lane < 0) return refuseAll(numbers, outcome, ackError.noPartition);
  const queue = context.state.queueOfLane(lane);
  const subscription = queue.subscription(group);
  const row = subscription === undefined ? -1 : cursors.find(partitions.firstCursor[lane], subscription.number);
  if (subscription === undefined || row < 0 || (cursors.flags[row] & cursorBit.touched) === 0) {
    return refuseAll(numbers, outcome, ackError.stale);
  }
  const { record } = plan;
  const earlier = planned?.get(row);
  if (earlier === undefined) cursors.read(row, pid, record);
  else Object.assign(record, earlier);
  record.consumed = 0;
  record.batchDone = false;
  if (leaseStamp !== 0 && !(record.leaseStamp === leaseStamp && record.expiresAtUs >= context.nowUs)) {
    if (record.memoStamp === leaseStamp) return repeatAck(context, items, numbers, lane, record, outcome);
    return refuseAll(numbers, outcome, ackError.lease);
  }
  span.lane = lane;
  span.pid = pid;
  // What was removed under the lease is found by its id alone.
  span.from = Math.max(record.committed + 1, partitions.logStart[lane]);
  span.to = record.leaseStamp !== 0 ? record.leaseEnd : partitions.nextOffset[lane] - 1;
  const { due } = context.state;
  // What was not due was not delivered: nobody can have done it.
  if (due.size > 0 && record.leaseStamp === 0) {
    span.to = Math.min(span.to, due.firstWaiting(pid, span.from, context.nowUs, 0) - 1);
  }
  const offsets = noOffsets(numbers.count);
  if (!resolve(context, items, numbers, span, offsets)) return 'needs-load';
  plan.settle(context, items, numbers, queue, subscription, span.to, offsets, outcome);
  planned?.set(row, record);
  return 'planned';
}

/** An ack that comes again after it released its lease: what it settled then is a success now. */
function repeatAck(
  context: DecisionContext,
  items: AckItems,
  numbers: ItemNumbers,
  lane: number,
  record: CursorRecord,
  outcome: AckOutcome,
): 'nothing' | 'needs-load' {
  span.lane = lane;
  span.pid = record.pid;
  const from = record.memoFrom;
  span.from = Math.max(from, context.state.partitions.logStart[lane]);
  span.to = Math.min(record.memoFrom + record.memoCount - 1, record.committed);
  const offsets = noOffsets(numbers.count);
  if (!resolve(context, items, numbers, span, offsets)) return 'needs-load';
  for (let i = 0; i < numbers.count; i++) {
    const item = numbers.order[numbers.begin + i];
    if (offsets[i] >= from && offsets[i] <= span.to) outcome.leaseReleased[item] = 1;
    else outcome.errors[item] = ackError.lease;
  }
  return 'nothing';
}
