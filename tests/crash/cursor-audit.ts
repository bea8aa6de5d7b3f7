/**
 * The promises to one group in one partition, checked over everything that was seen of it.
 *
 * The cursor itself cannot be seen. What can be said about it at any time is a floor (what answered acks have settled)
 * and a ceiling (what any ack that had begun may have settled); a delivery must start between the two.
 */
import type { AckTarget, CursorHistory, DeadLetterRow, ExtendOperation, PopOperation, Run } from './history.ts';

export interface CursorCase {
  readonly cursor: CursorHistory;
  readonly start: 'all' | 'new';
  readonly retryLimit: number;
  readonly filesDeadLetters: boolean;
  /** False: `cursor.deadLetters` says nothing. */
  readonly deadLettersListed: boolean;
  /** The last offset of the partition when the group has been drained, else −1. */
  readonly drainedThrough: number;
  /** Pops of the group, in any partition of the queue, that got no answer. */
  readonly lostPops: readonly PopOperation[];
  readonly extensionsOf: (leaseId: string) => readonly ExtendOperation[];
  readonly toleranceMs: number;
  readonly report: (rule: string, text: string) => void;
}

/** From `atMs` on, `offset` and everything below it is settled (a floor) or may be settled (a ceiling). */
interface Mark {
  readonly atMs: number;
  readonly offset: number;
}

/** A case with what the checks look up often. */
interface IndexedCase extends CursorCase {
  readonly runOfLease: ReadonlyMap<string, Run>;
  /** Those without a lease under ''. */
  readonly targetsOfLease: ReadonlyMap<string, readonly AckTarget[]>;
  /** Moments at which the runs and the lost pops began, ascending. */
  readonly runBegins: readonly number[];
  readonly lostBegins: readonly number[];
}

/** Checks one cursor and reports what no correct broker could have done. */
export function auditCursor(given: CursorCase): void {
  const { runs, targets } = given.cursor;
  runs.sort((a, b) => a.pop.beganAtMs - b.pop.beganAtMs);
  const runOfLease = new Map(runs.map((run) => [run.leaseId, run]));
  const targetsOfLease = new Map<string, AckTarget[]>();
  for (const target of targets) {
    const list = targetsOfLease.get(target.leaseId);
    if (list === undefined) targetsOfLease.set(target.leaseId, [target]);
    else list.push(target);
  }
  const runBegins = runs.map((run) => run.pop.beganAtMs);
  const lostBegins = given.lostPops.map((pop) => pop.beganAtMs).sort((a, b) => a - b);
  const facts: IndexedCase = { ...given, runOfLease, targetsOfLease, runBegins, lostBegins };
  auditPlaces(facts);
  auditAttempts(facts);
  auditHolders(facts);
  auditFencing(facts);
  auditExtensions(facts);
  auditDeadLetters(facts);
}

function auditPlaces(facts: IndexedCase): void {
  const { cursor, report } = facts;
  const floors: Mark[] = [];
  const ceilings: Mark[] = [];
  for (const target of cursor.targets) {
    floors.push({ atMs: target.operation.endedAtMs, offset: settledAtLeast(target) });
    ceilings.push({ atMs: target.operation.beganAtMs, offset: settledAtMost(target, facts.filesDeadLetters) });
  }
  for (const run of cursor.runs) {
    if (!run.pop.request.commitOnDelivery) continue;
    floors.push({ atMs: run.pop.endedAtMs, offset: run.lastOffset });
    ceilings.push({ atMs: run.pop.beganAtMs, offset: run.lastOffset });
  }
  const lossy = facts.lostPops.some((pop) => pop.request.commitOnDelivery);
  const reached = ceilings.reduce((highest, mark) => Math.max(highest, mark.offset), -1);
  if (reached < facts.drainedThrough && cursor.runs.length > 0 && !lossy) {
    report('kept', `nothing is left to deliver, although no ack can have settled more than offset ${reached}`);
  }
  const floorAt = highestAt(floors);
  const ceilingAt = highestAt(ceilings);
  const start = facts.start === 'new' ? Math.min(...cursor.runs.map((run) => run.firstOffset)) - 1 : -1;
  for (const run of cursor.runs) {
    const floor = floorAt(run.pop.beganAtMs);
    if (run.firstOffset <= floor) {
      report('settled', `${runText(run)} although everything up to ${floor} was settled before it began`);
    }
    const ceiling = Math.max(start, ceilingAt(run.pop.endedAtMs));
    if (run.firstOffset > ceiling + 1 && !lossy) {
      report('order', `${runText(run)} although nothing above ${ceiling} can have been settled`);
    }
  }
}

/** The highest offset that an answered ack has certainly settled; −1 when none. */
function settledAtLeast(target: AckTarget): number {
  let below = -1;
  for (const item of target.items)
    if (item.result?.noop === true && item.result.success) below = Math.max(below, item.offset);
  const signal = lowestSignal(target);
  let settled = below;
  for (const item of target.items) {
    if (item.result?.success !== true) continue;
    if (item.status === 'completed' && item.offset < signal) settled = Math.max(settled, item.offset);
    if (item.offset === signal && item.result.deadLettered) settled = Math.max(settled, item.offset);
  }
  return settled;
}

/** The highest offset that an ack, from its beginning on, may have settled; −1 when none. */
function settledAtMost(target: AckTarget, filesDeadLetters: boolean): number {
  const { outcome } = target.operation;
  if (outcome === 'refused') return -1;
  let highest = -1;
  for (const item of target.items) {
    if (outcome === 'answered' && item.result?.success !== true) continue;
    if (item.status !== 'retry') highest = Math.max(highest, item.offset);
  }
  if (outcome !== 'answered') return highest;
  const signal = lowestSignal(target);
  if (signal === Number.POSITIVE_INFINITY) return highest;
  const mayPassSignal = target.items.some(
    (item) =>
      item.offset === signal &&
      item.result?.success === true &&
      (item.status === 'dlq' || item.result.deadLettered || (item.status === 'failed' && !filesDeadLetters)),
  );
  return mayPassSignal ? highest : settledAtLeast(target);
}

function lowestSignal(target: AckTarget): number {
  let lowest = Number.POSITIVE_INFINITY;
  for (const item of target.items) {
    if (item.result?.success === true && !item.result.noop && item.status !== 'completed') {
      lowest = Math.min(lowest, item.offset);
    }
  }
  return lowest;
}

/** A function that finds the highest mark set before a moment. */
function highestAt(marks: Mark[]): (atMs: number) => number {
  marks.sort((a, b) => a.atMs - b.atMs);
  const highest: number[] = [];
  for (const mark of marks) highest.push(Math.max(mark.offset, highest.at(-1) ?? -1));
  const times = marks.map((mark) => mark.atMs);
  return (atMs) => {
    const count = countBelow(times, atMs);
    return count === 0 ? -1 : highest[count - 1];
  };
}

function countBelow(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

function auditAttempts(facts: IndexedCase): void {
  const { runs } = facts.cursor;
  const runsOfStart = new Map<number, Run[]>();
  for (const run of runs) {
    if (run.pop.request.commitOnDelivery) {
      if (run.attempt !== 1) facts.report('attempt', `${runText(run)}, committed on delivery: must be attempt 1`);
      continue;
    }
    const lost = countBelow(facts.lostBegins, run.pop.endedAtMs);
    const others = countBelow(facts.runBegins, run.pop.endedAtMs) - 1;
    if (!Number.isSafeInteger(run.attempt) || run.attempt < 1 || run.attempt > 1 + others + lost) {
      facts.report('attempt', `${runText(run)} after ${others} deliveries and ${lost} pops without an answer`);
    }
    // The same first offset twice means that nothing moved in between, so the number must have risen.
    const earlier = runsOfStart.get(run.firstOffset);
    if (earlier === undefined) {
      runsOfStart.set(run.firstOffset, [run]);
      continue;
    }
    for (const other of earlier) {
      if (other.pop.endedAtMs < run.pop.beganAtMs && other.attempt >= run.attempt) {
        facts.report('attempt', `${runText(run)} after attempt ${other.attempt} of the same head`);
      }
    }
    earlier.push(run);
  }
}

function auditHolders(facts: IndexedCase): void {
  const { runs } = facts.cursor;
  for (let i = 0; i < runs.length; i++) {
    const end = leaseEndsNotBefore(facts, runs[i]);
    for (let j = i + 1; j < runs.length && runs[j].pop.beganAtMs < end; j++) {
      const first = runs[i];
      const second = runs[j];
      if (second.pop.endedAtMs >= end || first.pop.endedAtMs >= leaseEndsNotBefore(facts, second)) continue;
      facts.report('holder', `${runText(second)} while lease ${first.leaseId} on ${first.firstOffset} was live`);
    }
  }
}

/** The earliest moment at which the lease of a run may have ended, whatever was decided when. */
function leaseEndsNotBefore(facts: IndexedCase, run: Run, except?: AckTarget): number {
  if (run.pop.request.commitOnDelivery) return run.pop.beganAtMs;
  let expiresAtMs = run.pop.beganAtMs + run.pop.request.leaseMs;
  for (const extension of facts.extensionsOf(run.leaseId)) {
    if (extension.outcome !== 'answered' || !extension.granted) continue;
    // Only an extension that ended while the lease was certainly live is certain to be this partition's, too.
    if (extension.endedAtMs >= expiresAtMs - facts.toleranceMs) continue;
    expiresAtMs = Math.max(expiresAtMs, extension.beganAtMs + extension.extensionMs);
  }
  let end = expiresAtMs - facts.toleranceMs;
  for (const leaseId of [run.leaseId, '']) {
    for (const target of facts.targetsOfLease.get(leaseId) ?? []) {
      if (target === except || target.operation.endedAtMs < run.pop.beganAtMs || !mayRelease(target)) continue;
      end = Math.min(end, target.operation.beganAtMs);
    }
  }
  return end;
}

/** The latest moment at which the lease of a run can have been live. */
function leaseEndsNotAfter(facts: IndexedCase, run: Run, before?: ExtendOperation): number {
  let end = run.pop.endedAtMs + run.pop.request.leaseMs;
  for (const extension of facts.extensionsOf(run.leaseId)) {
    const mayCount = extension.outcome === 'answered' ? extension.granted : extension.outcome !== 'refused';
    if (before !== undefined && extension.beganAtMs >= before.beganAtMs) continue;
    if (mayCount) end = Math.max(end, extension.endedAtMs + extension.extensionMs);
  }
  return end + facts.toleranceMs;
}

function mayRelease(target: AckTarget): boolean {
  const { outcome } = target.operation;
  if (outcome === 'refused') return false;
  return outcome !== 'answered' || target.items.some((item) => item.result?.leaseReleased === true);
}

function auditFencing(facts: IndexedCase): void {
  const { cursor, report } = facts;
  for (const target of cursor.targets) {
    const { operation } = target;
    if (target.leaseId === '' || operation.outcome !== 'answered') continue;
    const run = facts.runOfLease.get(target.leaseId);
    const counted = target.items.some((item) => item.result?.success === true && !item.result.noop);
    if (run === undefined) {
      if (counted) report('holder', `an ack with lease ${target.leaseId}, never given for this partition, counted`);
      continue;
    }
    if (!counted) {
      auditRefusedAck(facts, target, run);
      continue;
    }
    // An ack that released the lease may be repeated for ever, so a first one excuses the second.
    const repeats = (facts.targetsOfLease.get(target.leaseId) ?? []).some(
      (other) => other !== target && other.operation.beganAtMs < operation.endedAtMs && mayRelease(other),
    );
    if (repeats) continue;
    if (operation.beganAtMs > leaseEndsNotAfter(facts, run)) {
      report('holder', `an ack with lease ${target.leaseId} counted after the lease had ended`);
    }
    const successor = cursor.runs
      .slice(countBelow(facts.runBegins, run.pop.endedAtMs), countBelow(facts.runBegins, operation.beganAtMs))
      .find((other) => other !== run && other.pop.endedAtMs < operation.beganAtMs);
    if (successor !== undefined) {
      report('holder', `an ack with lease ${target.leaseId} counted although ${runText(successor)} came after it`);
    }
  }
}

function auditRefusedAck(facts: IndexedCase, target: AckTarget, run: Run): void {
  const { operation } = target;
  const leaseError = target.items.find((item) => item.result?.error?.includes('lease') === true);
  if (leaseError === undefined || operation.beganAtMs < run.pop.endedAtMs) return;
  if (operation.endedAtMs < leaseEndsNotBefore(facts, run, target)) {
    facts.report('kept', `lease ${target.leaseId} was refused (${leaseError.result?.error}) while it must be live`);
  }
}

function auditExtensions(facts: IndexedCase): void {
  for (const run of facts.cursor.runs) {
    if (run.pop.request.commitOnDelivery) continue;
    for (const extension of facts.extensionsOf(run.leaseId)) {
      if (extension.outcome !== 'answered' || extension.beganAtMs < run.pop.endedAtMs) continue;
      if (extension.granted) {
        if (extension.beganAtMs > leaseEndsNotAfter(facts, run, extension)) {
          facts.report('holder', `lease ${run.leaseId} was extended after it had ended`);
        }
        continue;
      }
      if (extension.endedAtMs < leaseEndsNotBefore(facts, run)) {
        facts.report('kept', `lease ${run.leaseId} could not be extended while it must be live`);
      }
    }
  }
}

function auditDeadLetters(facts: IndexedCase): void {
  const { cursor, report } = facts;
  const rows = new Map<number, DeadLetterRow>();
  for (const row of cursor.deadLetters) {
    if (rows.has(row.offset)) report('identity', `offset ${row.offset} was dead-lettered twice`);
    rows.set(row.offset, row);
    if (!facts.filesDeadLetters && !cursor.targets.some((target) => mayFile(target, row.offset, 'dlq'))) {
      report('invented', `offset ${row.offset} is a dead letter of a queue that files none`);
    }
    if (!cursor.targets.some((target) => mayFile(target, row.offset, 'any'))) {
      report('invented', `offset ${row.offset} is a dead letter, but no ack can have made it one`);
    }
  }
  for (const target of cursor.targets) {
    for (const item of target.items) {
      if (item.result?.deadLettered !== true) continue;
      if (item.status !== 'dlq' && item.status !== 'failed') {
        report('invented', `offset ${item.offset} was answered as dead-lettered to an ack with status ${item.status}`);
      }
      if (facts.deadLettersListed && !rows.has(item.offset)) {
        report('kept', `offset ${item.offset} was answered as dead-lettered and is not in the list`);
      }
      if (item.status === 'failed') auditBudget(facts, target, item.offset);
    }
  }
}

function mayFile(target: AckTarget, offset: number, status: 'dlq' | 'any'): boolean {
  if (target.operation.outcome === 'refused') return false;
  return target.items.some(
    (item) =>
      item.offset === offset &&
      (item.status === 'dlq' || (status === 'any' && item.status === 'failed')) &&
      (target.operation.outcome !== 'answered' || item.result?.deadLettered === true),
  );
}

function auditBudget(facts: IndexedCase, target: AckTarget, offset: number): void {
  const charges = facts.cursor.targets.filter(
    (other) =>
      other !== target &&
      other.operation.outcome !== 'refused' &&
      other.operation.beganAtMs < target.operation.endedAtMs &&
      other.items.some((item) => item.status === 'failed'),
  ).length;
  if (charges < facts.retryLimit) {
    facts.report('invented', `offset ${offset} was dead-lettered after ${charges} earlier failures, before its time`);
  }
}

function runText(run: Run): string {
  const offsets = run.firstOffset === run.lastOffset ? `${run.firstOffset}` : `${run.firstOffset}-${run.lastOffset}`;
  return `offset ${offsets} was delivered (attempt ${run.attempt}, lease ${run.leaseId || 'none'})`;
}
