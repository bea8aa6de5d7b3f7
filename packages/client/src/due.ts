/** Messages that wait for a time of their own: list them, move them, cancel them. */
import { arrayIn, objectIn, pathSegment, queryOf } from './answers.ts';
import type { Transport } from './transport.ts';
import type { DueChange, DuePage } from './wire.ts';

/** Which messages that wait for their time to list: those of the queue, or of its partition that was named. */
export interface DueFilter {
  /** Due at this time or later: ISO-8601, or milliseconds since 1970. */
  readonly from?: string | number;
  /** Due before this time. */
  readonly until?: string | number;
  /** Size of the page, 1 to 1,000. Default 100. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly after?: string;
}

/** A time as push takes it: milliseconds from now, or ISO-8601 or milliseconds since 1970. */
export type DueTime = { readonly delayMs: number } | { readonly dueAt: string | number };

export async function listDue(
  transport: Transport,
  queue: string,
  partition: string | null,
  filter: DueFilter,
): Promise<DuePage> {
  const { from, until, limit, after } = filter;
  const query = queryOf({ queue, partition, from, until, limit, after });
  const answer = await transport.send({ method: 'GET', path: `/api/v1/due${query}` });
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
  const place = partition === null ? '' : `queues/${pathSegment(queue)}/partitions/${pathSegment(partition)}/`;
  const path = `/api/v1/due/${place}${pathSegment(id)}`;
  return objectIn(
    await transport.send(time === null ? { method: 'DELETE', path } : { method: 'POST', path, body: time }),
  );
}
