/**
 * Replay: a dead letter's payload is pushed again, with the transactionId `dlq:<row id>`, and its row removed, in one log
 * entry. It is a push like any other: every group of the destination gets the message, with no failures charged.
 */
import { hashPushItems, recordFlag } from '../codec/mod.ts';
import {
  type BlockView,
  type DeadLetterRecord,
  type DecisionContext,
  idText,
  itemStatus,
  type NeedsLoad,
  needsLoad,
  PushDecider,
  type PushItems,
  type PushOutcome,
  pushSlice,
  type Refusal,
} from '../core/mod.ts';
import type { PayloadCipher, Scheduler } from '../ports/mod.ts';
import { encryptItems } from './encrypt-items.ts';
import type { Operation } from './operations.ts';
import type { Store } from './store.ts';
import { utf8, utf8Text } from './text.ts';
import type { TurnHost } from './turn-budget.ts';

/** What changes of dead letters need from the shard they run in. */
export interface DeadLetterHost extends TurnHost {
  readonly context: DecisionContext;
  readonly hasher: Store['hasher'];
  readonly scheduler: Scheduler;
  readonly cipher: PayloadCipher | null;
  /** Names of queues whose payloads are stored encrypted. */
  readonly encryptedQueues: ReadonlySet<string>;
  nowUs(): number;
  isDiskFull(): boolean;
  submit(operation: Operation): void;
  countPushed(outcome: PushOutcome): void;
}

/** Another destination than where the message came from; null = the same. */
export interface ReplayTarget {
  readonly queue: string | null;
  readonly partition: string | null;
}

/** Where a message went, or where the destination has it already. */
export interface Replayed {
  readonly result: 'moved' | 'duplicate';
  /** The dead letter's row id. */
  readonly id: string;
  readonly queue: string;
  readonly partition: string;
  readonly group: string;
  readonly originalTransactionId: string;
  /** Id and offset of the new message, or of the one that was there. */
  readonly messageId: string;
  readonly offset: number;
}

export type ReplayOutcome =
  | Replayed
  | { readonly result: 'gone' }
  | { readonly result: 'refused'; readonly refusal: Refusal };

export const gone = { result: 'gone' } as const;

const decider = new PushDecider();

function refused(code: Refusal['code'], message: string): ReplayOutcome {
  return { result: 'refused', refusal: { ok: false, code, message } };
}

export function decideReplay(
  host: DeadLetterHost,
  row: DeadLetterRecord,
  target: ReplayTarget,
): ReplayOutcome | NeedsLoad {
  const { context } = host;
  const { state, blocks, journal } = context;
  const source = state.queueByNumber.get(row.queueNumber);
  const lane = state.laneOf(row.pid);
  if (source === undefined || lane < 0) return gone;
  if (host.isDiskFull()) return refused('storage_full', 'storage is full: nothing is pushed until space is free again');
  const view = blocks.open(lane, row.pid, row.offset);
  if (view === undefined) return needsLoad;
  const payload = clearPayload(host, view, row.offset);
  if (payload === null) {
    return refused(
      'encryption_key_missing',
      'the payload is encrypted, and the broker has no key: start it with LANEMQ_ENCRYPTION_KEY',
    );
  }
  const original = transactionIdOf(host, view, row);
  const id = idText(state.identity, row.stampUs, row.pid, row.index);
  const queue = target.queue ?? source.name;
  const partition = target.partition ?? row.partition ?? state.partitions.nameText(lane);
  const headers = view.headersStart < 0 ? noHeaders : view.bytes.subarray(view.headersStart, view.headersEnd);
  const plain = oneItem(queue, partition, `dlq:${id}`, payload, headers);
  const items = encryptItems(plain, host.encryptedQueues, host.cipher);
  if (items === 'no-key') {
    return refused(
      'encryption_key_missing',
      `queue ${queue} has encryptionEnabled, but the broker has no key: start it with LANEMQ_ENCRYPTION_KEY`,
    );
  }
  hashPushItems(items, host.hasher);
  const outcome = decider.decide(context, items, host.encryptedQueues);
  if (outcome.ok === 'needs-load') return outcome;
  if (outcome.ok === false) return { result: 'refused', refusal: outcome };
  if (outcome.statuses[0] === itemStatus.error) return refused('body_too_large', 'the payload is too large to store');
  host.countPushed(outcome);
  const isMoved = outcome.statuses[0] === itemStatus.queued;
  if (isMoved) journal.deadLetterRemoved({ stampUs: row.stampUs, index: row.index, pid: row.pid });
  return {
    result: isMoved ? 'moved' : 'duplicate',
    id,
    queue,
    partition,
    group: row.group,
    originalTransactionId: original,
    messageId: idText(state.identity, outcome.stamps[0], outcome.pids[0], outcome.indexes[0]),
    offset: outcome.offsets[0],
  };
}

/** A copy of the payload as it was pushed; null when it is encrypted and there is no key. */
function clearPayload(host: DeadLetterHost, view: BlockView, offset: number): Uint8Array | null {
  view.select(offset - view.firstOffset);
  const { bytes, payloadStart, payloadEnd, flags } = view;
  if ((flags & recordFlag.encrypted) === 0) return new Uint8Array(bytes.subarray(payloadStart, payloadEnd));
  return host.cipher === null ? null : host.cipher.decrypt(bytes, payloadStart, payloadEnd);
}

/** The transactionId of the record that a row refers to; `view` is its block. */
export function transactionIdOf(host: DeadLetterHost, view: BlockView, row: DeadLetterRecord): string {
  const index = row.offset - view.firstOffset;
  view.select(index);
  if (view.idStart >= 0) return utf8Text(view.bytes.subarray(view.idStart, view.idEnd));
  return idText(host.context.state.identity, view.stampUs, row.pid, index);
}

const noHeaders = new Uint8Array(0);

function oneItem(
  queue: string,
  partition: string,
  transactionId: string,
  payload: Uint8Array,
  headers: Uint8Array,
): PushItems {
  // In the order of the fields of pushSlice.
  const parts = [utf8(queue), utf8(partition), utf8(transactionId), payload, headers];
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  const slices = new Int32Array(pushSlice.stride);
  let at = 0;
  parts.forEach((part, i) => {
    bytes.set(part, at);
    slices[i * 2] = at;
    at += part.length;
    slices[i * 2 + 1] = at;
  });
  return { bytes, count: 1, slices, hashes: new Uint32Array(4) };
}
