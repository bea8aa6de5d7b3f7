/**
 * What every decision is given. Decisions read the state and emit records through the journal, which applies each at
 * once; they change nothing else. What they cannot see because it lies on disk they report as a need; the runtime
 * fetches it and asks again.
 */
import { limits } from '@lanemq/protocol';
import type { BrokerState } from './broker-state.ts';
import type { Refusal } from './outcomes.ts';
import { defaultOptions, labelsOf, type Queue } from './queue.ts';
import type { Journal } from './records.ts';
import type { Schedule } from './schedule.ts';

/** A block as decisions read it. Implemented by codec's BlockReader; valid until the next `open`. */
export interface BlockView {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly at: number;
  readonly length: number;
  readonly firstOffset: number;
  readonly stampUs: number;
  readonly count: number;
  readonly flags: number;
  readonly idStart: number;
  readonly idEnd: number;
  readonly payloadStart: number;
  readonly payloadEnd: number;
  /** −1 = the record has no headers. */
  readonly headersStart: number;
  readonly headersEnd: number;
  hashHigh(index: number): number;
  hashLow(index: number): number;
  sizeOf(index: number): number;
  select(index: number): unknown;
}

/** Blocks that can be read now. A miss is noted as a need of the operation. */
export interface Blocks {
  /** The block of the lane that holds `offset`; undefined = it has to be loaded. */
  open(lane: number, pid: number, offset: number): BlockView | undefined;
}

/** Results of an id look-up other than an offset. */
export const idLookup = { absent: -1, missing: -2 } as const;

/** Finds records by transactionId. A miss is noted as a need of the operation. */
export interface Ids {
  /** Of the record that `find` found last: stamp and number in its append. They are known also when its block is gone. */
  readonly found: { readonly stampUs: number; readonly index: number };
  /** Offset of the newest record of the partition with this id and a stamp ≥ sinceUs, or one of `idLookup`. */
  find(lane: number, pid: number, hashHigh: number, hashLow: number, sinceUs: number): number;
  /** First offset of the lane's first append with a stamp ≥ stampUs, or one of `idLookup`. */
  firstFrom(lane: number, pid: number, stampUs: number): number;
}

export interface DecisionContext {
  readonly state: BrokerState;
  readonly schedule: Schedule;
  readonly journal: Journal;
  readonly blocks: Blocks;
  readonly ids: Ids;
  /** Broker time of this command; also its stamp: greater than every stamp given before. */
  readonly nowUs: number;
}

/** The decision cannot be made before its needs are met; nothing was changed. */
export const needsLoad = { ok: 'needs-load' } as const;
export type NeedsLoad = typeof needsLoad;

const nameBytesMax = limits.nameBudgetBytes - limits.tenantBytes;

/** Refusal when names are over the budget; sizes in UTF-8 bytes. `other` is the partition or the group. */
export function nameRefusal(
  queueBytes: number,
  otherBytes: number,
  otherField: 'partition' | 'consumerGroup',
): Refusal | null {
  if (queueBytes + otherBytes <= nameBytesMax) return null;
  const queueIsLong = queueBytes > nameBytesMax || queueBytes >= otherBytes;
  const field = queueIsLong ? 'queue' : otherField;
  const bytes = queueIsLong ? queueBytes : otherBytes;
  return {
    ok: false,
    code: 'name_too_long',
    message: `${field} has ${bytes} bytes: tenant (${limits.tenantBytes}) + queue + the longer of partition and consumerGroup must not exceed ${limits.nameBudgetBytes} bytes`,
  };
}

/** The queue of this name; created with implicit options when there is none. */
export function ensureQueue(context: DecisionContext, name: string): Queue {
  const { state, journal } = context;
  const existing = state.queues.get(name);
  if (existing !== undefined) return existing;
  journal.queue({
    number: state.nextQueueNumber,
    name,
    ...labelsOf(name),
    options: defaultOptions(true),
    createdAtUs: context.nowUs,
  });
  return state.queues.get(name) as Queue;
}
