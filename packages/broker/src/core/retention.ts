/**
 * What may be removed from a partition, and removing it. Whole appends only, oldest first, by the stamp of the append:
 *
 *   retentionSeconds            older appends, consumed or not       } when retentionEnabled
 *   completedRetentionSeconds   older appends all groups consumed    }
 *   maxWaitTimeSeconds          older appends, leased or not
 *
 * Offsets never change: what goes lies before the partition's start, which moves. A record that a dead letter refers to
 * stays readable for it.
 */
import type { BrokerState } from './broker-state.ts';
import { cursorBit } from './cursor-table.ts';
import type { DecisionContext } from './decision.ts';
import type { Queue } from './queue.ts';

/** Which appends of one partition may go at one moment. One object is used for one partition after the other. */
export interface ExpiryRule {
  /** Appends older than this go. */
  ageBeforeUs: number;
  /** Appends older than this go as far as all groups consumed them: */
  completedBeforeUs: number;
  /** up to this offset, by the groups that have a position; −1 = none has one, */
  completedThrough: number;
  /** and, by those that have none here yet, below this stamp. */
  completedUntilUs: number;
}

const rule: ExpiryRule = { ageBeforeUs: 0, completedBeforeUs: 0, completedThrough: -1, completedUntilUs: 0 };

export function expiryRule(state: BrokerState, queue: Queue, lane: number, nowUs: number): Readonly<ExpiryRule> {
  rule.ageBeforeUs = queue.ageUs > 0 ? nowUs - queue.ageUs : 0;
  rule.completedBeforeUs = queue.completedUs > 0 ? nowUs - queue.completedUs : 0;
  rule.completedThrough = -1;
  rule.completedUntilUs = Number.POSITIVE_INFINITY;
  if (queue.completedUs > 0) findCompleted(state, queue, lane);
  return rule;
}

function findCompleted(state: BrokerState, queue: Queue, lane: number): void {
  const { partitions, cursors } = state;
  let lowest = Number.POSITIVE_INFINITY;
  for (const subscription of queue.subscriptions) {
    const row = cursors.find(partitions.firstCursor[lane], subscription.number);
    if (row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0) lowest = Math.min(lowest, cursors.committed[row]);
    // A registered group without a position here has consumed nothing of what it is to see.
    else if (subscription.registered) {
      const seesFromUs = subscription.mode === 'all' ? 0 : subscription.sinceUs;
      rule.completedUntilUs = Math.min(rule.completedUntilUs, seesFromUs);
    }
  }
  // What nobody ever consumed is kept.
  rule.completedThrough = lowest === Number.POSITIVE_INFINITY ? -1 : lowest;
}

/** True when the rule lets the append with this stamp and last offset go. */
export function isExpired(by: Readonly<ExpiryRule>, stampUs: number, lastOffset: number): boolean {
  if (stampUs < by.ageBeforeUs) return true;
  return stampUs < by.completedBeforeUs && stampUs < by.completedUntilUs && lastOffset <= by.completedThrough;
}

/** True when the rule lets all of the partition go: then nothing has to be looked up. */
export function isWhollyExpired(by: Readonly<ExpiryRule>, state: BrokerState, lane: number): boolean {
  const { partitions } = state;
  return isExpired(by, partitions.lastStampUs[lane], partitions.nextOffset[lane] - 1);
}

/** Appends at the start of a partition that were found to have expired. */
export interface Trim {
  readonly lane: number;
  readonly pid: number;
  /** Where the partition begins now, and where it is to begin. */
  readonly from: number;
  readonly to: number;
  /** Stamp of the last append that goes. */
  readonly lastStampUs: number;
  readonly bytes: number;
  /** Stamp of the append at `to`; 0 when there is none. */
  readonly keptSinceUs: number;
}

/** Removes what was found, unless the partition or its groups moved meanwhile. True when it went. */
export function decideTrim(context: DecisionContext, trim: Trim): boolean {
  const { state, journal, nowUs } = context;
  const { partitions } = state;
  const lane = state.laneOf(trim.pid);
  if (lane < 0 || partitions.logStart[lane] !== trim.from) return false;
  const by = expiryRule(state, state.queueOfLane(lane), lane, nowUs);
  // What expired by age stays expired. A group may have gone back, though, and options may have changed.
  if (!isExpired(by, trim.lastStampUs, trim.to - 1)) return false;
  const whole = trim.to === partitions.nextOffset[lane];
  // What came after the last one that goes was written only now: it is looked at again.
  if (!whole && trim.keptSinceUs === 0) return false;
  journal.logStart({
    pid: trim.pid,
    logStart: trim.to,
    records: trim.to - trim.from,
    bytes: whole ? partitions.retainedBytes[lane] : trim.bytes,
    keptSinceUs: whole ? 0 : trim.keptSinceUs,
  });
  return true;
}

/** Removes all that a partition holds, if all of it has expired. True when it did. */
export function decideTrimWhole(context: DecisionContext, queue: Queue, lane: number): boolean {
  const { state, journal, nowUs } = context;
  const { partitions } = state;
  if (!isWhollyExpired(expiryRule(state, queue, lane, nowUs), state, lane)) return false;
  journal.logStart({
    pid: partitions.pid[lane],
    logStart: partitions.nextOffset[lane],
    records: partitions.nextOffset[lane] - partitions.logStart[lane],
    bytes: partitions.retainedBytes[lane],
    keptSinceUs: 0,
  });
  return true;
}

/**
 * True when the partition may be deleted: it is empty, was not written and not consumed from for as long as `idleUs`,
 * nobody holds a lease in it or has paused it, and no dead letter came from it.
 */
export function isAbandoned(state: BrokerState, lane: number, nowUs: number, idleUs: number): boolean {
  const { partitions, cursors } = state;
  const sinceUs = nowUs - idleUs;
  if (!partitions.isEmpty(lane) || partitions.lastStampUs[lane] > sinceUs) return false;
  if (state.deadLetters.countOfPid(partitions.pid[lane]) > 0) return false;
  if (state.pausedPartitions.has(partitions.pid[lane])) return false;
  for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
    if (cursors.memoStamp[row] > sinceUs) return false;
    const claim = cursors.claim[row];
    if (claim < 0) continue;
    if (cursors.leaseStamp[claim] > sinceUs || cursors.expiresAtUs[claim] > sinceUs) return false;
    if (cursors.heldUntilUs[claim] > nowUs) return false;
  }
  return true;
}

/** Deletes those of the queue's partitions that are abandoned. `lanes` need not be in any order. */
export function decideCleanup(
  context: DecisionContext,
  queue: Queue,
  lanes: readonly number[],
  idleUs: number,
): readonly number[] {
  const { state, journal, nowUs } = context;
  const pids: number[] = [];
  for (const lane of lanes) {
    if (state.partitions.queueNumber[lane] !== queue.number) continue;
    if (isAbandoned(state, lane, nowUs, idleUs)) pids.push(state.partitions.pid[lane]);
  }
  if (pids.length === 0) return pids;
  pids.sort((a, b) => a - b);
  journal.partitionsDeleted(queue.number, pids);
  return pids;
}

/** True while somebody may ask for a record of the block: it is kept, or a dead letter refers to it. Once false, for ever. */
export function isLive(state: BrokerState, pid: number, firstOffset: number, count: number): boolean {
  const lane = state.laneOf(pid);
  if (lane < 0) return false;
  if (firstOffset + count > state.partitions.logStart[lane]) return true;
  return state.deadLetters.refersTo(pid, firstOffset, firstOffset + count);
}
