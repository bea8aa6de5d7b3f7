/**
 * Due messages once more, for the auditor: what waits until when, what was cancelled, and what that means for those who
 * are to get what lies behind it.
 */
import type { BrokerState } from '../../src/core/mod.ts';
import type { ChangedDue, DueChangeRequest, DuePage } from '../../src/runtime/mod.ts';
import type { Moment } from './auditor.ts';
import type { ExpectedPartition } from './expected-state.ts';
import type { ChangeLog } from './versioned.ts';

export interface DueAuditHost {
  readonly changes: ChangeLog;
  readonly partitions: ReadonlyMap<number, ExpectedPartition>;
  ensure(condition: boolean, promise: string): void;
  /** Takes over what the broker did by itself since. */
  begin(moment: Moment): void;
}

/** True while the record may not be delivered because its time has not come. */
export function isWaiting(partition: ExpectedPartition, offset: number, nowUs: number): boolean {
  const due = partition.due.get(offset);
  return due !== undefined && !due.isCancelled && due.dueUs > nowUs;
}

export function isCancelled(partition: ExpectedPartition, offset: number): boolean {
  return partition.due.get(offset)?.isCancelled === true;
}

/** The first offset from `from` on that waits and holds up what is behind it; one behind the last record when none does. */
export function firstWaiting(partition: ExpectedPartition, from: number, nowUs: number, ttlCounts: boolean): number {
  let offset = from;
  while (offset <= partition.last) {
    const isOver = ttlCounts && partition.queue.isExpired(partition.records[offset].stampUs, nowUs);
    if (isWaiting(partition, offset, nowUs) && !isOver) break;
    offset++;
  }
  return offset;
}

/** The newest record at or behind `from` that a conflating group may get; −1 when there is none. */
export function newestVisible(partition: ExpectedPartition, from: number, nowUs: number): number {
  const { queue, records } = partition;
  let offset = firstWaiting(partition, from, nowUs, true) - 1;
  while (offset >= from) {
    if (isCancelled(partition, offset)) offset--;
    else if (records[offset].stampUs + queue.delayUs <= nowUs) return offset;
    else offset = partition.appendOf(offset).first - 1;
  }
  return -1;
}

export class DueAudit {
  readonly #host: DueAuditHost;
  readonly counts = { due: 0, moved: 0, cancelled: 0, tooLate: 0 };

  constructor(host: DueAuditHost) {
    this.#host = host;
  }

  /** A record was stored that was to wait so long; `dueUs` is what the answer said, 0 = nothing. */
  stored(partition: ExpectedPartition, offset: number, delayMs: number, nowUs: number, dueUs: number): void {
    const expected = delayMs > 0 ? nowUs + delayMs * 1000 : 0;
    this.#host.ensure(dueUs === expected, `a delay of ${delayMs} ms from ${nowUs} ends at ${expected}, not ${dueUs}`);
    if (expected === 0) return;
    this.#host.changes.set(partition.due, offset, { dueUs: expected, isCancelled: false });
    this.counts.due++;
  }

  changed(moment: Moment, request: DueChangeRequest, { pid, offset, dueUs, changed }: ChangedDue): void {
    const { ensure, changes, partitions, begin } = this.#host;
    begin(moment);
    const { nowUs } = moment;
    const partition = partitions.get(pid);
    const record = partition?.records[offset];
    const text = `${JSON.stringify(request)} at ${nowUs}`;
    ensure(record !== undefined, `there is a message to change for ${text}`);
    if (partition === undefined || record === undefined) return;
    ensure(
      record.id === request.name || record.messageId === request.name,
      `the message that is named is meant: ${text}`,
    );
    const before = partition.due.get(offset);
    if (request.due === null && before?.isCancelled === true) {
      ensure(!changed, `a message is cancelled once: ${text}`);
      return;
    }
    ensure(isWaiting(partition, offset, nowUs), `only a message that waits is changed: ${text}`);
    const askedUs = request.due === null ? 0 : request.due < 0 ? nowUs - request.due - 1 : request.due;
    const expected = request.due === null ? 0 : Math.max(askedUs, nowUs);
    ensure(dueUs === expected, `the message waits until ${expected}, not ${dueUs}: ${text}`);
    ensure(changed === (expected !== before?.dueUs), `the answer says whether something changed: ${text}`);
    changes.set(partition.due, offset, { dueUs: expected, isCancelled: request.due === null });
    const { dueChangedAtUs } = partition;
    partition.dueChangedAtUs = nowUs;
    changes.did(() => {
      partition.dueChangedAtUs = dueChangedAtUs;
    });
    if (request.due === null) this.counts.cancelled++;
    else this.counts.moved++;
  }

  /** A change by message id was refused because the message did not wait, some time before this moment. */
  tooLate(request: DueChangeRequest, nowUs: number): void {
    for (const partition of this.#host.partitions.values()) {
      const record = partition.records.find(({ messageId }) => messageId === request.name);
      if (record === undefined) continue;
      const waits = isWaiting(partition, record.offset, nowUs) && record.offset >= partition.logStart;
      this.#host.ensure(!waits, `a message that waits can be changed: ${JSON.stringify(request)} at ${nowUs}`);
      this.counts.tooLate++;
    }
  }

  /** A list without filters, read in one page that was made at some time before now. */
  listed(page: DuePage): void {
    for (const row of page.rows) {
      const partition = this.#host.partitions.get(row.pid);
      const record = partition?.records[row.offset];
      // Its queue may have been deleted since.
      if (record === undefined) continue;
      const isIt = record.id === row.transactionId && record.messageId === row.messageId;
      this.#host.ensure(isIt, `a message is listed under its ids: ${JSON.stringify(row)}`);
      this.#host.ensure(partition?.due.has(row.offset) === true, `what is listed has a time: ${JSON.stringify(row)}`);
    }
    const times = page.rows.map(({ dueUs }) => dueUs);
    this.#host.ensure(
      times.every((dueUs, i) => i === 0 || dueUs >= times[i - 1]),
      'the list is in the order of the times',
    );
  }

  /** Holds the table of the state against what is expected of one partition. */
  compare(state: BrokerState, partition: ExpectedPartition): void {
    const { due } = state;
    const place = `${partition.queue.name}/${partition.name}`;
    for (const [offset, expected] of partition.due) {
      if (offset < partition.logStart) continue;
      const row = due.find(partition.pid, offset);
      if (expected.isCancelled) {
        this.#host.ensure(row >= 0 && due.isCancelled(row), `${place} at ${offset} stays cancelled`);
      } else if (expected.dueUs > state.lastStampUs) {
        const actual = row >= 0 && !due.isCancelled(row) ? due.dueUsOf(row) : 0;
        this.#host.ensure(
          actual === expected.dueUs,
          `${place} at ${offset} waits until ${expected.dueUs}, not ${actual}`,
        );
      }
    }
    for (let row = due.next(partition.pid, 0); row >= 0; row = due.next(partition.pid, due.offsetOf(row) + 1)) {
      const offset = due.offsetOf(row);
      const expected = partition.due.get(offset);
      const isIt =
        expected !== undefined &&
        expected.isCancelled === due.isCancelled(row) &&
        (expected.isCancelled || expected.dueUs === due.dueUsOf(row));
      this.#host.ensure(
        isIt || offset < partition.logStart,
        `${place} at ${offset} has no other time than it was given`,
      );
    }
  }
}
