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
import type { AckItems } from './commands.ts';
import { cursorBit } from './cursor-table.ts';
import { type DecisionContext, type NeedsLoad, nameRefusal, needsLoad } from './decision.ts';
import { type AckOutcome, ackError, type Refusal } from './outcomes.ts';
import { CursorRecord } from './records.ts';

interface Target {
  readonly pid: number;
  readonly leaseStamp: number;
  /** Item numbers, in input order. */
  readonly items: number[];
  /** Another target of this call with the same partition. */
  readonly nextOfPid: Target | null;
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
  const byPid = new Map<number, Target>();
  let last: Target | null = null;
  for (let item = 0; item < items.count; item++) {
    const pid = items.pids[item];
    if (pid < 0) {
      outcome.errors[item] = ackError.notAPartitionId;
      continue;
    }
    const leaseStamp = items.leaseStamps[item];
    if (last === null || last.pid !== pid || last.leaseStamp !== leaseStamp) {
      const first: Target | null = byPid.get(pid) ?? null;
      last = first;
      while (last !== null && last.leaseStamp !== leaseStamp) last = last.nextOfPid;
      if (last === null) {
        last = { pid, leaseStamp, items: [], nextOfPid: first };
        byPid.set(pid, last);
        targets.push(last);
      }
    }
    last.items.push(item);
  }
  return targets;
}

/** Offsets of the items of the target that is planned: the same array each time. */
let offsetsReused = new Float64Array(64);

function noOffsets(count: number): Float64Array {
  if (count > offsetsReused.length) offsetsReused = new Float64Array(count * 2);
  return offsetsReused.fill(unresolved, 0, count);
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
  // What was removed under the lease is found by its id alone.
  const from = Math.max(record.committed + 1, partitions.logStart[lane]);
  const to = record.leaseStamp !== 0 ? record.leaseEnd : partitions.nextOffset[lane] - 1;
  const offsets = noOffsets(target.items.length);
  const span = { lane, pid: target.pid, from, to };
  if (!resolve(context, items, target.items, span, offsets)) return undefined;
  return new Settlement(context, items, target.items, queue, subscription, record, offsets, outcome);
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
  const offsets = noOffsets(target.items.length);
  const span = { lane, pid: target.pid, from: Math.max(from, context.state.partitions.logStart[lane]), to };
  if (!resolve(context, items, target.items, span, offsets)) return undefined;
  target.items.forEach((item, i) => {
    if (offsets[i] >= from && offsets[i] <= to) outcome.leaseReleased[item] = 1;
    else outcome.errors[item] = ackError.lease;
  });
  return null;
}
