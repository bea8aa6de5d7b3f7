/** What bounds delivery, once more: records given up after maxDeliveries, partitions under lease, records per second. */
import { type ExpectedCursor, type ExpectedPartition, type ExpectedQueue, hasLiveLease } from './expected-state.ts';

/** The text of a dead letter that a pop filed because of maxDeliveries. */
const givenUpText = /^delivered (\d+) times without being settled \(maxDeliveries (\d+)\): /;

export interface FiledRow {
  readonly offset: number;
  readonly error: string;
  readonly retryCount: number;
}

/** True when a pop filed it, and no ack. */
export function isGivenUp({ error }: FiledRow): boolean {
  return givenUpText.test(error);
}

/** The cursors after a pop gave a record up; empty when it may not have. */
export function givenUp(
  cursors: readonly ExpectedCursor[],
  row: FiledRow,
  conflation: boolean,
  nowUs: number,
): ExpectedCursor[] {
  const [, delivered, max] = givenUpText.exec(row.error) ?? [];
  const isAtLimit = (cursor: ExpectedCursor): boolean =>
    !hasLiveLease(cursor, nowUs) &&
    cursor.attemptCount >= Number(max) &&
    cursor.attemptCount === Number(delivered) &&
    cursor.attemptOffset === row.offset &&
    cursor.retryCount === row.retryCount &&
    row.error.includes('lease ended') === (cursor.lease !== null) &&
    (conflation ? row.offset > cursor.committed : row.offset === cursor.committed + 1);
  return cursors.filter(isAtLimit).map((cursor) => {
    const { memo, lease, committed } = cursor;
    const isOfLease = memo !== null && memo.stampUs === lease?.stampUs;
    return {
      ...cursor,
      committed: row.offset,
      lease: null,
      retryCount: 0,
      attemptOffset: -1,
      attemptCount: 0,
      heldUntilUs: 0,
      memo: isOfLease ? { ...memo, end: Math.min(memo.end, committed) } : memo,
      changedAtUs: nowUs,
    };
  });
}

/** Offset whose deliveries are counted when records up to `end` are delivered. */
export function countedOffset(queue: ExpectedQueue, cursor: ExpectedCursor, end: number, conflation: boolean): number {
  return conflation && queue.options.maxDeliveries > 0 ? end : cursor.committed + 1;
}

/** Partitions that the group has under lease for certain. */
export function certainlyLeased(queue: ExpectedQueue, group: string, nowUs: number): number {
  const isLeased = (partition: ExpectedPartition): boolean => {
    const cursors = partition.cursors.get(group) ?? [];
    return (
      cursors.length > 0 && cursors.every((cursor) => hasLiveLease(cursor, nowUs) && cursor.lease?.mayVanish !== true)
    );
  };
  return [...queue.partitions.values()].filter(isLeased).length;
}

interface Counted {
  readonly atUs: number;
  readonly count: number;
}

/** Records delivered in the last second, by queue and group, as long as none may have been handed back. */
export class DeliveryRates {
  readonly #delivered = new Map<string, Counted[]>();

  /** A text when more than the rate allows were delivered in a second. */
  delivered(queue: ExpectedQueue, group: string, count: number, nowUs: number): string | null {
    const rate = queue.options.maxPerSecond;
    if (rate === 0 || count === 0) return null;
    const key = JSON.stringify([queue.number, group]);
    const recent = (this.#delivered.get(key) ?? []).filter(({ atUs }) => atUs > nowUs - 1_000_000);
    recent.push({ atUs: nowUs, count });
    this.#delivered.set(key, recent);
    const total = recent.reduce((sum, each) => sum + each.count, 0);
    const most = rate + Math.max(1, rate / 10);
    return total > most ? `${total} records in a second are more than ${most}` : null;
  }

  /** What was delivered until now may have been given back, or the rate is another one. */
  clear(): void {
    this.#delivered.clear();
  }
}
