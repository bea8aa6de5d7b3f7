/**
 * Due messages: records that are delivered at a time of their own at the earliest. Such a record has its place in its
 * partition at once, and holds up what comes behind it there until its time has come.
 *
 * Until then it can be given another time, or be cancelled: it keeps its offset then, and no group gets it. Once its time
 * has come it is a record like any other.
 */
import { limits } from '@lanemq/protocol';
import type { PushItems } from './commands.ts';
import { type DecisionContext, idLookup, type NeedsLoad, needsLoad } from './decision.ts';
import { type IdParts, parseId } from './ids.ts';
import type { Refusal } from './outcomes.ts';
import { usPerMs } from './queue.ts';
import { offsetOfId, offsetOfMessageId } from './record-lookup.ts';

const delayUsMax = limits.dueDelayMsMax * usPerMs;

/** The time an item of a push waits for, with `nowUs` as its stamp; 0 = none. */
export function dueUsOf(due: Float64Array, item: number, nowUs: number): number {
  const given = due[item];
  if (Number.isNaN(given)) return 0;
  const dueUs = given < 0 ? nowUs - given - 1 : given;
  return dueUs > nowUs ? dueUs : 0;
}

/** Refusal when an item is to wait longer than anything may. */
export function tooDistantRefusal(items: PushItems, due: Float64Array, nowUs: number): Refusal | null {
  for (let item = 0; item < items.count; item++) {
    if (dueUsOf(due, item, nowUs) - nowUs <= delayUsMax) continue;
    const field = due[item] < 0 ? 'delayMs' : 'dueAt';
    return { ok: false, code: 'bad_body', message: `bad push body: item ${item} has a "${field}" ${tooDistantText}` };
  }
  return null;
}

const tooDistantText = `that is too far away: a message waits at most ${limits.dueDelayMsMax} ms (366 days)`;

/** Refusal when so many more records that wait do not fit. */
export function tooManyDueRefusal(context: DecisionContext, more: number): Refusal | null {
  const { waiting } = context.state.due;
  if (more === 0 || waiting + more <= limits.dueMessagesMax) return null;
  return {
    ok: false,
    code: 'too_many_due',
    message: `${waiting} messages wait for their time, the limit is ${limits.dueMessagesMax}: ${more} more do not fit, nothing was stored`,
    retryAfterSeconds: 1,
  };
}

/** Names a record of a lane: by its transactionId or its message id, as UTF-8 with the keyed hash of it. */
export interface RecordName {
  readonly bytes: Uint8Array;
  readonly hashHigh: number;
  readonly hashLow: number;
}

const parts: IdParts = { stampUs: 0, number: 0, index: 0 };

/**
 * Offset of the record with this message id, else of the newest one with this transactionId; or one of `idLookup`. Message
 * ids are the broker's and name one record each, also when a producer took one for a transactionId later.
 */
function offsetOfName(context: DecisionContext, lane: number, pid: number, name: RecordName): number {
  const { bytes, hashHigh, hashLow } = name;
  if (parseId(context.state.identity, bytes, 0, bytes.length, parts) && parts.number === pid) {
    const offset = offsetOfMessageId(context, lane, pid, parts);
    if (offset !== idLookup.absent) return offset;
  }
  const offset = offsetOfId(context, lane, pid, hashHigh, hashLow, 0, bytes, 0, bytes.length);
  const isKept = offset >= context.state.partitions.logStart[lane];
  return isKept || offset === idLookup.missing ? offset : idLookup.absent;
}

/** What became of a record that was moved or cancelled. */
export interface DueChange {
  readonly offset: number;
  /** The time it waits for, microseconds; one that is not ahead: it is due. 0 = it is cancelled. */
  readonly dueUs: number;
  /** False when it was so already. */
  readonly changed: boolean;
}

/** Gives a waiting record another time, or cancels it (`change` null). `change` is a time or a delay, as in PushItems. */
export function decideDueChange(
  context: DecisionContext,
  pid: number,
  name: RecordName,
  change: number | null,
): DueChange | Refusal | NeedsLoad {
  const { state, nowUs } = context;
  const { due } = state;
  const lane = state.laneOf(pid);
  if (lane < 0) return { ok: false, code: 'not_found', message: `no partition has the id ${pid}` };
  const offset = offsetOfName(context, lane, pid, name);
  if (offset === idLookup.missing) return needsLoad;
  if (offset === idLookup.absent) {
    return { ok: false, code: 'not_found', message: `partition ${pid} holds no message with this id` };
  }
  const row = due.find(pid, offset);
  const isCancelled = row >= 0 && due.isCancelled(row);
  if (isCancelled && change === null) return { offset, dueUs: 0, changed: false };
  if (isCancelled) return notWaiting(`the message at offset ${offset} was cancelled, it cannot get another time`);
  if (row < 0 || !due.isWaiting(row, nowUs)) {
    const verb = change === null ? 'cancelled' : 'moved';
    return notWaiting(
      `the message at offset ${offset} waits for no time (its time has come, or it never had one): only a message that still waits can be ${verb}`,
    );
  }
  if (change === null) return cancel(context, pid, offset);
  const askedUs = change < 0 ? nowUs - change - 1 : change;
  if (askedUs - nowUs > delayUsMax) {
    return {
      ok: false,
      code: 'bad_request',
      message: `${change < 0 ? 'delayMs' : 'dueAt'} has a value ${tooDistantText}`,
    };
  }
  const dueUs = Math.max(askedUs, nowUs);
  if (dueUs === due.dueUsOf(row)) return { offset, dueUs, changed: false };
  context.journal.dueChanged(pid, offset, dueUs);
  return { offset, dueUs, changed: true };
}

function cancel(context: DecisionContext, pid: number, offset: number): DueChange | Refusal {
  const { cancelled } = context.state.due;
  if (cancelled >= limits.cancelledMessagesMax) {
    return {
      ok: false,
      code: 'too_many_due',
      message: `${cancelled} cancelled messages are kept, which is the limit: retention of their queues, or deleting one, makes room; the message still waits, and can be moved`,
      retryAfterSeconds: 60,
    };
  }
  context.journal.dueChanged(pid, offset, 0);
  return { offset, dueUs: 0, changed: true };
}

function notWaiting(message: string): Refusal {
  return { ok: false, code: 'not_waiting', message };
}
