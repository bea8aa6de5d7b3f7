/** Leasing messages: what is asked, and what comes back. */
import { arrayIn, badArgument, objectIn, pathSegment } from './answers.ts';
import type { ClientContext } from './context.ts';
import { LaneError } from './errors.ts';
import { Message } from './message.ts';
import { type StandardSchema, validated } from './schema.ts';
import type { WireMessage } from './wire.ts';

/** Where messages are looked for. */
export interface PopTarget {
  /** Empty: by `namespace` and `task`. */
  readonly queue: string;
  /** null: any partition of the queue. */
  readonly partition: string | null;
  /** null: the queue's default group. */
  readonly group: string | null;
  readonly namespace: string | null;
  readonly task: string | null;
}

/** How they are asked for. */
export interface PopSettings {
  /** 0: the broker chooses. */
  readonly batch: number;
  readonly partitions: number | null;
  readonly autopilot: boolean;
  readonly wait: boolean;
  readonly timeoutMillis: number;
  readonly leaseSeconds: number | null;
  readonly subscriptionMode: string | null;
  readonly subscriptionFrom: string | null;
  readonly commitOnDelivery: boolean;
  readonly conflation: boolean;
}

/** What the broker chose where it was left to it. */
export interface AutopilotChoice {
  /** The partitions. */
  readonly partitions?: number;
  /** Messages of a pop. */
  readonly batch?: number;
  /** How long to pause after an empty poll. */
  readonly waitMillis?: number;
}

export interface PopAnswer {
  readonly messages: readonly WireMessage[];
  /** null: the answer does not say. */
  readonly autopilot: AutopilotChoice | null;
}

const popGraceMillis = 5000;

export function affinityKeyOf(target: PopTarget): string {
  const group = target.group ?? '__QUEUE_MODE__';
  if (target.queue === '') return `${target.namespace ?? ''}:${target.task ?? ''}:${group}`;
  return `${target.queue}:${target.partition ?? '*'}:${group}`;
}

/** @throws LaneError; `conflation_unsupported` when conflation was asked for and is not in force. */
export async function popMessages(
  context: ClientContext,
  target: PopTarget,
  settings: PopSettings,
  signal: AbortSignal | undefined,
): Promise<PopAnswer> {
  const { wait, timeoutMillis } = settings;
  const answer = await context.transport.send({
    method: 'GET',
    path: `${popPath(target)}?${popQuery(target, settings)}`,
    signal,
    waiting: wait,
    affinityKey: affinityKeyOf(target),
    ...(wait ? { timeoutMillis: timeoutMillis + popGraceMillis } : {}),
  });
  if (answer.body === null) return { messages: [], autopilot: null };
  const body = objectIn<PopBody>(answer);
  const messages = arrayIn<WireMessage>(answer, body.messages);
  if (settings.conflation) checkConflation(context, target, body, answer.status);
  return { messages, autopilot: autopilotOf(body.autopilot) };
}

/** A message as handlers get it. @throws LaneError `bad_payload`. */
export async function readMessage<T>(
  context: ClientContext,
  schema: StandardSchema | null,
  wire: WireMessage,
): Promise<Message<T>> {
  const data = schema === null ? wire.data : await validated(schema, wire.data);
  return new Message<T>(context, wire, data as T);
}

interface PopBody {
  readonly messages?: unknown;
  readonly conflation?: unknown;
  readonly conflationConflict?: unknown;
  readonly autopilot?: unknown;
}

function checkConflation(context: ClientContext, target: PopTarget, body: PopBody, status: number): void {
  if (body.conflation === true) return;
  if (body.conflationConflict !== true) {
    const message = 'conflation was asked for, and the broker does not say that it is in force';
    throw new LaneError({ code: 'conflation_unsupported', status, message });
  }
  const name = JSON.stringify([target.queue, target.group]);
  if (context.warnedConflicts.has(name)) return;
  context.warnedConflicts.add(name);
  context.log.warn('conflation.conflict', { queue: target.queue, group: target.group });
}

function autopilotOf(value: unknown): AutopilotChoice | null {
  if (typeof value !== 'object' || value === null) return null;
  const { partitions, batch, waitMs } = value as Record<'partitions' | 'batch' | 'waitMs', unknown>;
  return {
    ...(typeof partitions === 'number' ? { partitions } : {}),
    ...(typeof batch === 'number' ? { batch } : {}),
    ...(typeof waitMs === 'number' ? { waitMillis: waitMs } : {}),
  };
}

function popPath(target: PopTarget): string {
  if (target.queue !== '') {
    const pinned = target.partition === null ? '' : `/partition/${pathSegment(target.partition || 'Default')}`;
    return `/api/v1/pop/queue/${pathSegment(target.queue)}${pinned}`;
  }
  if (target.namespace !== null || target.task !== null) return '/api/v1/pop';
  throw badArgument('a pop needs the name of a queue, or a namespace or task');
}

function popQuery(target: PopTarget, settings: PopSettings): URLSearchParams {
  const query = new URLSearchParams();
  const { autopilot, batch, partitions } = settings;
  if (batch > 0) query.set('batch', String(batch));
  else if (!autopilot) query.set('batch', '1');
  query.set('wait', String(settings.wait));
  query.set('timeout', String(settings.timeoutMillis));
  if (target.group !== null) query.set('consumerGroup', target.group);
  const bothSet = batch > 0 && partitions !== null;
  if (partitions !== null && (partitions > 1 || (autopilot && !bothSet))) query.set('partitions', String(partitions));
  if (target.queue === '') {
    if (target.namespace !== null) query.set('namespace', target.namespace);
    if (target.task !== null) query.set('task', target.task);
  }
  if (settings.leaseSeconds !== null) query.set('leaseSeconds', String(settings.leaseSeconds));
  if (settings.subscriptionMode !== null) query.set('subscriptionMode', settings.subscriptionMode);
  if (settings.subscriptionFrom !== null) query.set('subscriptionFrom', settings.subscriptionFrom);
  if (settings.commitOnDelivery) query.set('autoAck', 'true');
  if (settings.conflation) query.set('conflation', 'true');
  if (autopilot && !bothSet) query.set('autopilot', 'true');
  return query;
}
