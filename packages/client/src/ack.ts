/** Settling messages and keeping leases. */
import { badArgument, objectIn, pathSegment } from './answers.ts';
import { errorText } from './log.ts';
import type { Transport } from './transport.ts';
import type { AckItem, AckResult, AckStatus, ExtendResult } from './wire.ts';

/** What an ack needs of a message: one that was delivered, or what a program kept of it. */
export interface Ackable {
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** This or `id` is required. */
  readonly transactionId?: string;
  /** A UUID of version 7. */
  readonly id?: string;
  /** Without it the ack counts whoever holds the lease. */
  readonly leaseId?: string;
  /** The group; null: queue mode. */
  readonly consumerGroup?: string | null;
  /** Instead of the status of the call. */
  readonly _status?: AckStatus | boolean;
  /** Instead of the error of the call. */
  readonly _error?: string;
}

/** Names the group of an ack and, for other statuses than `completed`, the reason. */
export interface AckContext {
  /** Default: the group in which the message was delivered. */
  readonly group?: string | null;
  /** Kept with the message if it becomes a dead letter. */
  readonly error?: string;
}

/** What the ack of one message came to. */
export interface SingleAckOutcome extends Omit<AckResult, 'error'> {
  /** Why it was refused; absent on success. */
  readonly error?: string;
}

/** What the ack of several messages came to. */
export interface AckOutcome {
  /** True when every message was settled as asked. */
  readonly success: boolean;
  /** How many messages were in the call. */
  readonly processed: number;
  /** One per message, in input order. */
  readonly results: readonly AckResult[];
  /** The first refusal's text; absent on success. */
  readonly error?: string;
}

/** What a renewal came to. */
export interface RenewOutcome {
  /** The lease; empty or absent: none. */
  readonly leaseId: string;
  /** False: no live lease has this id, or the broker could not be asked. */
  readonly success: boolean;
  /** The earliest new end of the lease as an ISO time; null when nothing was extended. */
  readonly newExpiresAt: string | null;
  /** Partitions whose lease was extended. */
  readonly renewed: number;
  /** Why there was no renewal; absent on success. */
  readonly error?: string;
}

export async function ackMessages(
  transport: Transport,
  messages: readonly Ackable[],
  status: AckStatus | boolean,
  context: AckContext,
): Promise<AckOutcome> {
  if (messages.length === 0) return { success: true, processed: 0, results: [] };
  const items = messages.map((message) =>
    ackItem(message, statusWord(message._status ?? status), message._error ?? context.error),
  );
  return sendAcks(transport, context.group === undefined ? commonGroup(messages) : context.group, items);
}

/** Sends acknowledgements of one group. An answer of an unknown shape counts as a refusal of all of them. */
export async function sendAcks(
  transport: Transport,
  group: string | null,
  items: readonly AckItem[],
): Promise<AckOutcome> {
  const body = { acknowledgments: items, consumerGroup: group };
  const answer = await transport.send({ method: 'POST', path: '/api/v1/ack/batch', body });
  const rows: readonly Partial<AckResult>[] = Array.isArray(answer.body) ? answer.body : [];
  const results = items.map((item, index) => ackResult(item, index, rows[index]));
  const refusal = results.find((result) => !result.success);
  const outcome = { success: refusal === undefined, processed: items.length, results };
  return refusal?.error == null ? outcome : { ...outcome, error: refusal.error };
}

/** @throws LaneError `bad_argument` when the message cannot be named. */
export function ackItem(message: Ackable, status: AckStatus, error?: string): AckItem {
  const { transactionId = message.id, partitionId, leaseId } = message;
  if (transactionId === undefined || partitionId === undefined) {
    throw badArgument('a message needs a partitionId and a transactionId (or id) to be acked');
  }
  return {
    transactionId,
    partitionId,
    status,
    ...(leaseId === undefined ? {} : { leaseId }),
    ...(error === undefined ? {} : { error }),
  };
}

/** Makes a lease end so many seconds from now at the earliest. */
export async function extendLease(transport: Transport, leaseId: string, seconds: number): Promise<ExtendResult> {
  const path = `/api/v1/lease/${pathSegment(leaseId)}/extend`;
  return objectIn(await transport.send({ method: 'POST', path, body: { seconds } }));
}

/** The same; never throws: what went wrong is in the outcome. */
export async function renewLease(transport: Transport, leaseId: string, seconds: number): Promise<RenewOutcome> {
  const none = { leaseId, success: false, newExpiresAt: null, renewed: 0 };
  try {
    const result: Partial<ExtendResult> = await extendLease(transport, leaseId, seconds);
    if (result.success !== true) return { ...none, error: result.error ?? 'no live lease has this id' };
    return { leaseId, success: true, newExpiresAt: result.newExpiresAt ?? null, renewed: result.renewed ?? 0 };
  } catch (error) {
    return { ...none, error: errorText(error) };
  }
}

function statusWord(status: AckStatus | boolean): AckStatus {
  return typeof status === 'string' ? status : status ? 'completed' : 'failed';
}

function commonGroup(messages: readonly Ackable[]): string | null {
  const group = messages[0].consumerGroup ?? null;
  if (messages.every((message) => (message.consumerGroup ?? null) === group)) return group;
  throw badArgument('messages of two groups cannot be acked in one call');
}

function ackResult(item: AckItem, index: number, row: Partial<AckResult> | null | undefined): AckResult {
  const success = row?.success === true;
  return {
    index,
    transactionId: item.transactionId,
    success,
    error: success ? null : (row?.error ?? 'the broker did not confirm the ack'),
    leaseReleased: row?.leaseReleased === true,
    dlq: row?.dlq === true,
    noop: row?.noop === true,
  };
}
