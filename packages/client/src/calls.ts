/**
 * One function per route: arguments into a request, the answer into typed data. No state; what is repeated and when
 * is the transport's matter.
 */
import type { QueueOptions } from '@lanemq/protocol';
import { LaneError } from './errors.ts';
import { newTransactionId } from './transaction-id.ts';
import type { Answer, Transport } from './transport.ts';
import type {
  AckItem,
  AckResult,
  AckStatus,
  ChangedPartition,
  DeadLetterPage,
  DueChange,
  DuePage,
  ExtendResult,
  FetchedPartition,
  FoundOffset,
  GroupDeletion,
  GroupStart,
  Message,
  PauseResult,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  QueueRow,
  ReplayResult,
  SeekResult,
} from './wire.ts';

/** A message to push, with the key that makes repeats harmless. */
export interface PushItem<T> {
  /** What to store. `data` is another name of it; `payload` wins when both are there. */
  readonly payload?: T;
  readonly data?: T;
  /** Remembered by the partition inside its dedup window; minted (UUIDv7) when absent. */
  readonly transactionId?: string;
  readonly traceId?: string;
  /** Not delivered, nor what is behind it in its partition, for so long: whole milliseconds. Not together with `dueAt`. */
  readonly delayMs?: number;
  /** The same as a time: ISO-8601, or milliseconds since 1970. At most 366 days ahead. */
  readonly dueAt?: string | number;
}

/** What to pop and how. */
export interface PopOptions {
  /** Most messages of the call, over all partitions. Unset or 0: the broker chooses. */
  readonly batch?: number;
  /** Most partitions of the call, 1 to 64. Unset: the broker chooses. */
  readonly partitions?: number;
  /** False: do not let the broker choose what is unset; an unset batch is then 1. Default true. */
  readonly autopilot?: boolean;
  /** Wait for messages when there are none. Default true. */
  readonly wait?: boolean;
  /** How long to wait, in milliseconds, at most 60,000. Default 30,000. */
  readonly timeoutMs?: number;
  /** Length of the lease. Default: the queue's `leaseTime`. */
  readonly leaseSeconds?: number;
  /** Where a group starts that the queue has never seen: with what is there, or with what comes. Default: the broker's. */
  readonly subscriptionMode?: 'all' | 'new';
  /** `now`, or an ISO time to start from; for a group the queue has never seen. */
  readonly subscriptionFrom?: string;
  /** Settle at delivery instead of leasing: at most once. */
  readonly commitOnDelivery?: boolean;
  /** Deliver only the newest message of each partition; a property of the group. */
  readonly conflation?: boolean;
  /** Closes the long poll. */
  readonly signal?: AbortSignal;
}

/** Where a pop looks. */
export interface PopTarget {
  readonly queue: string;
  /** null = any partition of the queue. */
  readonly partition: string | null;
  /** null = the queue's default group. */
  readonly group: string | null;
}

/** Names the group of an ack and, for other statuses than `completed`, the reason. */
export interface AckContext {
  /** Default: the group in which the message was delivered. */
  readonly group?: string | null;
  /** Kept with the message if it becomes a dead letter. */
  readonly error?: string;
}

/** What the ack of several messages came to. */
export interface AckOutcome {
  /** True when every message was settled as asked. */
  readonly success: boolean;
  /** The first refusal's text; null on success. */
  readonly error: string | null;
  /** One per message, in input order. */
  readonly results: readonly AckResult[];
}

/** The options of a queue to change; null puts one back to its default. */
export type QueueOptionChanges = { readonly [K in keyof QueueOptions]?: QueueOptions[K] | null };

/** How a configure treats what it does not name. */
export interface ConfigureSettings {
  /** `merge` keeps the options that are not named, `replace` resets them. Default `merge`. */
  readonly mode?: 'merge' | 'replace';
  readonly namespace?: string;
  readonly task?: string;
}

/** Which dead letters to list. */
export interface DeadLetterFilter {
  readonly queue?: string;
  readonly group?: string;
  /** Size of the page, 1 to 1,000. Default 100. */
  readonly limit?: number;
  /** Rows to skip. Default 0. */
  readonly offset?: number;
}

/** Which messages that wait for their time to list: those of the queue, or of its partition that was named. */
export interface DueFilter {
  /** Due at this time or later, and before that one: ISO-8601, or milliseconds since 1970. */
  readonly from?: string | number;
  readonly until?: string | number;
  /** Size of the page, 1 to 1,000. Default 100. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly after?: string;
}

/** A time as push takes it. */
export type DueTime = { readonly delayMs: number } | { readonly dueAt: string | number };

/** One partition to read, and from where. */
export interface FetchEntry {
  /** Default: `Default`. */
  readonly partition?: string;
  /** The first offset to read. Default 0. */
  readonly offset?: number;
  /** Payload bytes of this partition's records; the first comes whatever it weighs. Default 1 MiB, at most 8 MiB. */
  readonly maxBytes?: number;
}

/** Limits of a fetch as a whole. */
export interface FetchOptions {
  /** Payload bytes of all records. Default: the broker's limit. */
  readonly maxBytes?: number;
  /** Wait so long, at most 30,000 ms, until there are `minBytes`. Default 0. */
  readonly maxWaitMs?: number;
  /** Default 1. */
  readonly minBytes?: number;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

const popGraceMs = 5000;
const popTimeoutMsDefault = 30_000;

export async function pushItems<T>(
  transport: Transport,
  queue: string,
  partition: string | null,
  items: readonly (T | PushItem<T>)[],
  signal?: AbortSignal,
): Promise<PushResult[]> {
  if (items.length === 0) return [];
  const body = { items: items.map((item) => wireItem(queue, partition ?? 'Default', item)) };
  const answer = await transport.send({ method: 'POST', path: '/api/v1/push', body, signal });
  const results = arrayIn<PushResult>(answer, answer.body, items.length);
  const refused = results.filter((result) => !isStored(result.status)).length;
  if (refused > 0) {
    const message = `${refused} of ${results.length} pushed items were not stored`;
    throw new LaneError({ code: 'items_refused', status: answer.status, message, results });
  }
  return results;
}

export async function popMessages<T>(
  transport: Transport,
  target: PopTarget,
  options: PopOptions,
): Promise<Message<T>[]> {
  const wait = options.wait ?? true;
  const timeoutMs = options.timeoutMs ?? popTimeoutMsDefault;
  const pinned = target.partition === null ? '' : `/partition/${pathSegment(target.partition || 'Default')}`;
  const answer = await transport.send({
    method: 'GET',
    path: `/api/v1/pop/queue/${pathSegment(target.queue)}${pinned}?${popQuery(target, options, wait, timeoutMs)}`,
    signal: options.signal,
    waiting: wait,
    ...(wait ? { timeoutMs: timeoutMs + popGraceMs } : {}),
  });
  if (answer.body === null) return [];
  return arrayIn<Message<T>>(answer, (answer.body as { messages?: unknown }).messages);
}

export async function ackMessages(
  transport: Transport,
  messages: readonly Message[],
  status: AckStatus | boolean,
  context: AckContext,
): Promise<AckOutcome> {
  if (messages.length === 0) return { success: true, error: null, results: [] };
  const group = context.group === undefined ? commonGroup(messages) : context.group;
  const word = typeof status === 'string' ? status : status ? 'completed' : 'failed';
  const items = messages.map((message) => ackItem(message, word, context.error));
  return sendAcks(transport, group, items);
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
  return { success: refusal === undefined, error: refusal === undefined ? null : refusal.error, results };
}

export function ackItem(message: Message, status: AckStatus, error?: string): AckItem {
  const { transactionId, partitionId, leaseId } = message;
  return error === undefined
    ? { transactionId, partitionId, leaseId, status }
    : { transactionId, partitionId, leaseId, status, error };
}

export async function extendLease(transport: Transport, leaseId: string, seconds: number): Promise<ExtendResult> {
  const path = `/api/v1/lease/${pathSegment(leaseId)}/extend`;
  const answer = await transport.send({ method: 'POST', path, body: { seconds } });
  return objectIn<ExtendResult>(answer);
}

export async function configureQueue(
  transport: Transport,
  queue: string,
  options: QueueOptionChanges,
  settings: ConfigureSettings,
): Promise<QueueConfiguration> {
  const body = { queue, options, ...settings };
  return objectIn(await transport.send({ method: 'POST', path: '/api/v1/configure', body }));
}

/** Where a seek puts a group. What lies outside of what a partition holds is cut to its ends. */
export type SeekTarget =
  | { readonly toEnd: true }
  | { readonly toBeginning: true }
  /** ISO-8601: the first message of that time or later is next. */
  | { readonly timestamp: string }
  /** The next message to read. */
  | { readonly offset: number };

export function groupPath(group: string, queue: string | null, partition: string | null = null): string {
  const ofQueue = queue === null ? '' : `/queues/${pathSegment(queue)}`;
  const ofPartition = partition === null ? '' : `/partitions/${pathSegment(partition || 'Default')}`;
  return `/api/v1/consumer-groups/${pathSegment(group)}${ofQueue}${ofPartition}`;
}

export async function seekGroup(
  transport: Transport,
  group: string,
  queue: string,
  partition: string | null,
  target: SeekTarget,
): Promise<SeekResult> {
  const path = `${groupPath(group, queue, partition)}/seek`;
  return objectIn(await transport.send({ method: 'POST', path, body: target }));
}

export async function deleteGroup(
  transport: Transport,
  group: string,
  queue: string | null,
  deleteMetadata: boolean,
): Promise<GroupDeletion> {
  const path = `${groupPath(group, queue)}?deleteMetadata=${deleteMetadata}`;
  return objectIn(await transport.send({ method: 'DELETE', path }));
}

export async function startGroupFrom(transport: Transport, group: string, timestamp: string): Promise<GroupStart> {
  const path = `${groupPath(group, null)}/subscription`;
  return objectIn(await transport.send({ method: 'POST', path, body: { subscriptionTimestamp: timestamp } }));
}

/** Pauses or resumes a group on a queue, one partition of the queue, or all of it. */
export async function setPaused(transport: Transport, target: PopTarget, paused: boolean): Promise<PauseResult> {
  const { queue, partition, group } = target;
  if (partition !== null && group !== null) {
    throw new LaneError({ code: 'bad_argument', message: 'pause a partition or a group, not both at once' });
  }
  const ofPartition = partition === null ? '' : `/partitions/${pathSegment(partition || 'Default')}`;
  const place =
    group === null ? `/api/v1/resources/queues/${pathSegment(queue)}${ofPartition}` : groupPath(group, queue);
  return objectIn(await transport.send({ method: 'POST', path: `${place}/${paused ? 'pause' : 'resume'}` }));
}

export async function deleteQueue(transport: Transport, queue: string): Promise<QueueDeletion> {
  const path = `/api/v1/resources/queues/${pathSegment(queue)}`;
  return objectIn(await transport.send({ method: 'DELETE', path }));
}

export async function listQueues(transport: Transport): Promise<QueueRow[]> {
  const answer = await transport.send({ method: 'GET', path: '/api/v1/resources/queues' });
  return arrayIn(answer, objectIn<{ queues?: unknown }>(answer).queues);
}

export async function listDeadLetters<T>(transport: Transport, filter: DeadLetterFilter): Promise<DeadLetterPage<T>> {
  const query = new URLSearchParams();
  if (filter.queue !== undefined) query.set('queue', filter.queue);
  if (filter.group !== undefined) query.set('consumerGroup', filter.group);
  query.set('limit', String(filter.limit ?? 100));
  query.set('offset', String(filter.offset ?? 0));
  const answer = await transport.send({ method: 'GET', path: `/api/v1/dlq?${query}` });
  const page = objectIn<DeadLetterPage<T>>(answer);
  return { messages: arrayIn(answer, page.messages), total: page.total };
}

export async function fetchRecords<T>(
  transport: Transport,
  queue: string,
  entries: readonly FetchEntry[],
  options: FetchOptions,
): Promise<FetchedPartition<T>[]> {
  const { signal, ...limits } = options;
  const waitMs = options.maxWaitMs ?? 0;
  const answer = await transport.send({
    method: 'POST',
    path: '/api/v1/fetch',
    body: { entries: entries.map((entry) => ({ queue, offset: 0, ...entry })), ...limits },
    signal,
    ...(waitMs > 0 ? { waiting: true, timeoutMs: waitMs + popGraceMs } : {}),
  });
  return arrayIn(answer, objectIn<{ entries?: unknown }>(answer).entries, entries.length);
}

export async function fetchOffsets(
  transport: Transport,
  queue: string,
  entries: readonly { readonly partition?: string; readonly timestamp: number | string }[],
): Promise<FoundOffset[]> {
  const body = { entries: entries.map((entry) => ({ queue, ...entry })) };
  const answer = await transport.send({ method: 'POST', path: '/api/v1/fetch/offsets', body });
  return arrayIn(answer, objectIn<{ entries?: unknown }>(answer).entries, entries.length);
}

/** All pages. The safeTime is that of the first: what was written during the others is found again from there. */
export async function changedPartitions(
  transport: Transport,
  queue: string,
  since: string | null,
): Promise<{ partitions: ChangedPartition[]; safeTime: string }> {
  const partitions: ChangedPartition[] = [];
  let safeTime: string | null = null;
  for (let after: string | null = null; ; ) {
    const body = { entries: [{ queue, since, after }] };
    const answer: Answer = await transport.send({ method: 'POST', path: '/api/v1/partitions/changed', body });
    const page: { safeTime: string; entries?: unknown } = objectIn(answer);
    const [entry] = arrayIn<{ partitions?: unknown; next: string | null; error?: string }>(answer, page.entries, 1);
    if (entry.error !== undefined) {
      throw new LaneError({ code: 'not_found', status: answer.status, message: `${queue}: ${entry.error}` });
    }
    for (const partition of arrayIn<ChangedPartition>(answer, entry.partitions)) partitions.push(partition);
    safeTime ??= page.safeTime;
    if (entry.next === null) return { partitions, safeTime };
    after = entry.next;
  }
}

/** Another destination of a replay; what is left out stays the message's own. */
export interface ReplayTarget {
  readonly queue?: string;
  readonly partition?: string;
}

/** Which dead letters a redrive takes, and how. */
export interface RedriveOptions {
  /** Part of the error text. */
  readonly error?: string;
  /** Bounds of the time of failure, inclusive, ISO 8601. */
  readonly from?: string;
  readonly to?: string;
  /** Most messages to move. */
  readonly max?: number;
  readonly perSecond?: number;
  readonly destination?: ReplayTarget;
}

export async function listDue(
  transport: Transport,
  queue: string,
  partition: string | null,
  filter: DueFilter,
): Promise<DuePage> {
  const query = new URLSearchParams({ queue });
  if (partition !== null) query.set('partition', partition || 'Default');
  for (const name of ['from', 'until', 'limit', 'after'] as const) {
    if (filter[name] !== undefined) query.set(name, String(filter[name]));
  }
  const answer = await transport.send({ method: 'GET', path: `/api/v1/due?${query}` });
  const page = objectIn<DuePage>(answer);
  return { ...page, messages: arrayIn(answer, page.messages) };
}

/** Moves a message that waits to another time; null cancels it. Without a partition, `id` is its message id. */
export async function changeDue(
  transport: Transport,
  queue: string,
  partition: string | null,
  id: string,
  time: DueTime | null,
): Promise<DueChange> {
  const place =
    partition === null ? '' : `queues/${pathSegment(queue)}/partitions/${pathSegment(partition || 'Default')}/`;
  const path = `/api/v1/due/${place}${pathSegment(id)}`;
  return objectIn(
    await transport.send(time === null ? { method: 'DELETE', path } : { method: 'POST', path, body: time }),
  );
}

export async function replayDeadLetter(transport: Transport, id: string, target: ReplayTarget): Promise<ReplayResult> {
  const path = `/api/v1/dlq/${pathSegment(id)}/replay`;
  return objectIn(await transport.send({ method: 'POST', path, body: target }));
}

export async function purgeDeadLetters(transport: Transport, queue: string, group: string | null): Promise<number> {
  const query = new URLSearchParams({ queue });
  if (group !== null) query.set('consumerGroup', group);
  const answer = await transport.send({ method: 'DELETE', path: `/api/v1/dlq?${query}` });
  return objectIn<{ deleted: number }>(answer).deleted;
}

/** With `dryRun` nothing is moved. */
export async function redriveDeadLetters<Answer>(
  transport: Transport,
  queue: string,
  group: string | null,
  options: RedriveOptions,
  dryRun: boolean,
): Promise<Answer> {
  const body = { ...options, queue, consumerGroup: group, dryRun };
  return objectIn<Answer>(await transport.send({ method: 'POST', path: '/api/v1/dlq/redrive', body }));
}

interface WireItem {
  readonly queue: string;
  readonly partition: string;
  readonly transactionId: string;
  readonly payload: unknown;
  readonly traceId?: string;
  readonly delayMs?: number;
  readonly dueAt?: string | number;
}

function wireItem<T>(queue: string, partition: string, item: T | PushItem<T>): WireItem {
  const envelope = envelopeOf(item);
  const payload = envelope === null ? item : 'payload' in envelope ? envelope.payload : envelope.data;
  // A payload that JSON cannot say would vanish from the body, and the broker would blame the whole push.
  if (payload === undefined) {
    throw new LaneError({ code: 'bad_argument', message: 'a pushed item has no payload (undefined is not JSON)' });
  }
  const transactionId = envelope?.transactionId ?? newTransactionId();
  const { traceId, delayMs, dueAt } = envelope ?? {};
  return {
    queue,
    partition,
    transactionId,
    payload,
    ...(traceId === undefined ? {} : { traceId }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(dueAt === undefined ? {} : { dueAt }),
  };
}

/** An object with a `payload` or `data` key describes a message; every other value is the payload itself. */
function envelopeOf<T>(item: T | PushItem<T>): PushItem<T> | null {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return null;
  return 'payload' in item || 'data' in item ? (item as PushItem<T>) : null;
}

/** `buffered` is a word of older brokers for an accepted item. */
function isStored(status: string): boolean {
  return status === 'queued' || status === 'duplicate' || status === 'buffered';
}

function popQuery(target: PopTarget, options: PopOptions, wait: boolean, timeoutMs: number): URLSearchParams {
  const query = new URLSearchParams();
  const autopilot = options.autopilot ?? true;
  const batch = options.batch ?? 0;
  const { partitions } = options;
  if (batch > 0) query.set('batch', String(batch));
  else if (!autopilot) query.set('batch', '1');
  query.set('wait', String(wait));
  query.set('timeout', String(timeoutMs));
  if (target.group !== null) query.set('consumerGroup', target.group);
  const bothSet = batch > 0 && partitions !== undefined;
  if (partitions !== undefined && (partitions > 1 || (autopilot && !bothSet))) {
    query.set('partitions', String(partitions));
  }
  if (options.leaseSeconds !== undefined) query.set('leaseSeconds', String(options.leaseSeconds));
  if (options.subscriptionMode !== undefined) query.set('subscriptionMode', options.subscriptionMode);
  if (options.subscriptionFrom !== undefined) query.set('subscriptionFrom', options.subscriptionFrom);
  if (options.commitOnDelivery === true) query.set('autoAck', 'true');
  if (options.conflation === true) query.set('conflation', 'true');
  if (autopilot && !bothSet) query.set('autopilot', 'true');
  return query;
}

/**
 * Percent-encodes a name for a path. The names `.` and `..` cannot be sent by fetch, which takes them out of the
 * path in every spelling, and would then call another route.
 */
function pathSegment(name: string): string {
  try {
    if (name !== '' && name !== '.' && name !== '..') return encodeURIComponent(name);
  } catch {
    // Half of a surrogate pair: there is no UTF-8 for it.
  }
  throw new LaneError({ code: 'bad_argument', message: `the name ${JSON.stringify(name)} cannot stand in a path` });
}

function commonGroup(messages: readonly Message[]): string | null {
  const group = messages[0].consumerGroup;
  if (messages.every((message) => message.consumerGroup === group)) return group;
  throw new LaneError({ code: 'bad_argument', message: 'messages of two groups cannot be acked in one call' });
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

function arrayIn<Row>(answer: Answer, value: unknown, length?: number): Row[] {
  if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
  const expected = length === undefined ? 'a list' : `a list of ${length}`;
  const message = `the answer does not hold ${expected} where the contract has one`;
  throw new LaneError({ code: 'bad_answer', status: answer.status, message });
}

function objectIn<Shape>(answer: Answer): Shape {
  if (typeof answer.body === 'object' && answer.body !== null) return answer.body as Shape;
  throw new LaneError({ code: 'bad_answer', status: answer.status, message: 'the answer is not a JSON object' });
}
