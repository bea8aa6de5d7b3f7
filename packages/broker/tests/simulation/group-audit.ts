/**
 * What the auditor knows of seeks, deleted and moved groups, and pauses.
 *
 * A seek may be decided in several steps, and in the middle of it the broker may end. While one is open every cursor it
 * concerns may have been moved already or not; both are candidates, and answers strike out those they contradict.
 */
import type { DeleteGroupOutcome, GroupRow, PauseOutcome, PauseRequest, SeekOutcome } from '../../src/runtime/mod.ts';
import type { Moment } from './auditor.ts';
import {
  type ExpectedCursor,
  type ExpectedPartition,
  type ExpectedQueue,
  type ExpectedSubscription,
  freshCursor,
} from './expected-state.ts';
import type { ChangeLog } from './versioned.ts';

export type SoughtTarget =
  | { readonly kind: 'end' }
  | { readonly kind: 'beginning' }
  | { readonly kind: 'offset'; readonly offset: number }
  | { readonly kind: 'time'; readonly stampUs: number };

export interface SentSeek {
  readonly group: string;
  readonly queue: string;
  readonly partition: string | null;
  readonly target: SoughtTarget;
}

export interface SentGroupDelete {
  readonly group: string;
  readonly queue: string | null;
  readonly keepRegistration: boolean;
}

/** A seek from its request until its answer left, or the folder was opened again. */
export interface OpenSeek {
  readonly request: SentSeek;
  readonly submittedUs: number;
  /** All of it was done. */
  isDecided: boolean;
  /** The broker ended before its answer left: what of it survived, the recovered log says. */
  isOver: boolean;
  /** Cursors as they were when it was sent. */
  readonly before: ReadonlyMap<ExpectedPartition, readonly ExpectedCursor[] | undefined>;
}

export interface GroupAuditHost {
  readonly changes: ChangeLog;
  readonly queues: ReadonlyMap<string, ExpectedQueue>;
  ensure(condition: boolean, promise: string): void;
  /** Takes over what waiting pops did since. */
  sync(moment: Moment): void;
  /** Takes over what the broker removed since. */
  takeOverRemovals(moment: Moment): void;
  /** Where a group may be, seeks that are open left aside. */
  known(partition: ExpectedPartition, group: string): readonly ExpectedCursor[];
  candidates(partition: ExpectedPartition, group: string, nowUs: number): readonly ExpectedCursor[];
}

export class GroupAudit {
  readonly #host: GroupAuditHost;
  readonly #seeks = new Set<OpenSeek>();
  /** Groups that went back at least once: they may give up a record again. */
  readonly #rewound = new Set<string>();
  readonly #starts = new Map<ExpectedPartition, Map<string, Set<number>>>();
  readonly #moves: { readonly group: string; readonly sinceUs: number }[] = [];
  readonly counts = { seeks: 0, deletedGroups: 0, movedStarts: 0, pauses: 0, listedGroups: 0 };

  constructor(host: GroupAuditHost) {
    this.#host = host;
  }

  isRewound(queueNumber: number, group: string): boolean {
    return this.#rewound.has(`${queueNumber} ${group}`);
  }

  // Seeks

  seekSubmitted(request: SentSeek, submittedUs: number): OpenSeek {
    const before = new Map<ExpectedPartition, readonly ExpectedCursor[] | undefined>();
    const queue = this.#host.queues.get(request.queue);
    for (const partition of queue?.partitions.values() ?? [])
      before.set(partition, partition.cursors.get(request.group));
    const seek: OpenSeek = { request, submittedUs, isDecided: false, isOver: false, before };
    this.#seeks.add(seek);
    return seek;
  }

  seekDecided(moment: Moment, seek: OpenSeek, { missing, partitions: count }: SeekOutcome): void {
    const { ensure, changes } = this.#host;
    const { request, before } = seek;
    this.#host.sync(moment);
    const queue = this.#host.queues.get(request.queue);
    if (missing === 'queue') {
      // It may also have been deleted, and made again, while the seek was under way.
      // One whose partitions were all cleaned up meanwhile counts as none.
      const wasThere = [...before.keys()].some(
        (each) => each.queue === queue && queue.partitions.get(each.name) === each,
      );
      ensure(!wasThere || queue === undefined, `the queue ${request.queue} has partitions`);
      seek.isDecided = true;
      return;
    }
    if (queue === undefined) {
      ensure(false, `a seek of the unknown queue ${request.queue} finds nothing`);
      return;
    }
    if (missing === 'partition') {
      const partition = queue.partitions.get(request.partition ?? '');
      ensure(partition === undefined || !before.has(partition), `${queue.name}/${request.partition} is there`);
      seek.isDecided = true;
      return;
    }
    const concerned = [...queue.partitions.values()].filter(({ name }) => (request.partition ?? name) === name);
    const certain = concerned.filter((partition) => before.has(partition));
    ensure(
      count >= certain.length && count <= concerned.length,
      `a seek of ${queue.name} moves ${certain.length} to ${concerned.length} partitions, not ${count}`,
    );
    this.#rewound.add(`${queue.number} ${request.group}`);
    for (const partition of concerned) {
      const known = this.#host.known(partition, request.group);
      const moved = this.#moved(partition, known, seek, moment.nowUs);
      const isUntouched = before.has(partition) && before.get(partition) === partition.cursors.get(request.group);
      const next = isUntouched ? moved : [...known, ...moved];
      if (isUntouched || partition.cursors.has(request.group)) changes.set(partition.cursors, request.group, next);
      else this.#mayStart(partition, request.group, moved);
    }
    seek.isDecided = true;
    this.counts.seeks++;
  }

  /** A partition that was born while the seek was under way: it has a cursor there, or none yet. */
  #mayStart(partition: ExpectedPartition, group: string, moved: readonly ExpectedCursor[]): void {
    const byGroup = this.#starts.get(partition) ?? new Map<string, Set<number>>();
    const starts = byGroup.get(group) ?? new Set();
    for (const { committed } of moved) starts.add(committed);
    this.#starts.set(partition, byGroup.set(group, starts));
  }

  /** Positions that a seek may have given the group where no other position of it is known. */
  startsIn(partition: ExpectedPartition, group: string): Iterable<number> {
    return this.#starts.get(partition)?.get(group) ?? [];
  }

  /** Its answer left, or it was refused with nothing done. */
  seekEnded(seek: OpenSeek): void {
    this.#seeks.delete(seek);
  }

  /** The broker does not know what became of it. */
  seekFailed(seek: OpenSeek): void {
    seek.isOver = true;
  }

  processEnded(): void {
    for (const seek of this.#seeks) seek.isOver = true;
  }

  /** The folder was opened again and compared: what is left of seeks is known. */
  recovered(): void {
    for (const seek of this.#seeks) if (seek.isOver) this.#seeks.delete(seek);
  }

  /** True while an open seek may make or move the group's cursor. */
  isSought(partition: ExpectedPartition, group: string): boolean {
    return [...this.#seeks].some((seek) => concerns(seek, partition, group));
  }

  /** These cursors, and where open seeks may have put them. */
  withSeeks(
    partition: ExpectedPartition,
    group: string,
    known: readonly ExpectedCursor[],
    nowUs: number,
  ): readonly ExpectedCursor[] {
    if (this.#seeks.size === 0) return known;
    let found = known;
    for (const seek of this.#seeks) {
      if (concerns(seek, partition, group)) found = [...found, ...this.#moved(partition, found, seek, nowUs)];
    }
    return found;
  }

  #moved(
    partition: ExpectedPartition,
    known: readonly ExpectedCursor[],
    seek: OpenSeek,
    nowUs: number,
  ): ExpectedCursor[] {
    const bases: (ExpectedCursor | null)[] = known.length > 0 ? [...known] : [null];
    // What differs in nothing that a seek leaves alone becomes one.
    const memos = new Map(bases.map((cursor) => [JSON.stringify(cursor?.memo ?? null), cursor?.memo ?? null]));
    return positions(partition, seek).flatMap((committed) =>
      [...memos.values()].map((memo) => ({
        ...freshCursor(committed, Math.min(nowUs, Number.MAX_SAFE_INTEGER)),
        memo,
      })),
    );
  }

  /** A group that nobody popped for is known to a queue after a seek. */
  explains(queue: ExpectedQueue, group: string, facts: ExpectedSubscription): boolean {
    if (facts.registered) {
      return (
        facts.mode === 'timestamp' && this.#moves.some((move) => move.group === group && move.sinceUs === facts.sinceUs)
      );
    }
    const isSought = [...this.#seeks].some(
      ({ request, isDecided, isOver }) =>
        request.group === group && request.queue === queue.name && (!isDecided || isOver),
    );
    return isSought && facts.mode === 'all' && facts.sinceUs === 0 && !facts.conflation;
  }

  // Deleting and moving

  deleteDecided(
    moment: Moment,
    { group, queue: name, keepRegistration }: SentGroupDelete,
    outcome: DeleteGroupOutcome,
  ): void {
    const { changes, queues, ensure } = this.#host;
    changes.sequence = moment.sequence;
    // What was removed before may have been completed by this group.
    this.#host.takeOverRemovals(moment);
    for (const queue of queues.values()) {
      if (name !== null && queue.name !== name) continue;
      const subscription = queue.subscriptions.get(group);
      const isKnown = outcome.queues.includes(queue.name);
      ensure(subscription === undefined || isKnown, `${group} is deleted from ${queue.name}, where it is known`);
      if (!isKnown) continue;
      this.#rewound.add(`${queue.number} ${group}`);
      for (const partition of queue.partitions.values()) changes.delete(partition.cursors, group);
      if (subscription === undefined) continue;
      if (keepRegistration && subscription.registered) {
        changes.set(queue.subscriptions, group, { ...subscription, earlier: [], seenAtUs: moment.nowUs });
      } else changes.delete(queue.subscriptions, group);
    }
    this.#host.sync(moment);
    this.counts.deletedGroups++;
  }

  startMoved(moment: Moment, group: string, sinceUs: number, count: number): void {
    const { changes, queues, ensure } = this.#host;
    changes.sequence = moment.sequence;
    this.#moves.push({ group, sinceUs });
    let least = 0;
    for (const queue of queues.values()) {
      const subscription = queue.subscriptions.get(group);
      if (subscription?.registered !== true || group === '__QUEUE_MODE__') continue;
      least++;
      const { mode, sinceUs: before, earlier = [] } = subscription;
      // Appends that came while it began elsewhere, and records that expired, have given it positions already.
      const started = [...earlier, { mode, sinceUs: before }];
      const seenAtUs = moment.nowUs;
      changes.set(queue.subscriptions, group, {
        ...subscription,
        mode: 'timestamp',
        sinceUs,
        earlier: started,
        seenAtUs,
      });
    }
    ensure(count >= least, `${least} registrations of ${group} are moved, not ${count}`);
    this.#host.sync(moment);
    this.counts.movedStarts++;
  }

  // Pauses

  pauseDecided(moment: Moment, request: PauseRequest, { missing, changed, pausedAtUs }: PauseOutcome): void {
    const { changes, queues, ensure } = this.#host;
    changes.sequence = moment.sequence;
    const queue = queues.get(request.queue);
    if (missing !== null || queue === undefined) {
      ensure(missing !== 'queue' || queue === undefined, `the queue ${request.queue} can be paused`);
      this.#host.sync(moment);
      return;
    }
    ensure(pausedAtUs > 0 === request.paused, 'a pause answers whether it is paused');
    const { partition: name, group, paused } = request;
    const at = { isPaused: paused, resumedAtUs: paused ? 0 : moment.nowUs };
    if (name !== null) {
      const partition = queue.partitions.get(name);
      ensure(partition !== undefined, `${queue.name}/${name} is known when it is paused`);
      if (partition !== undefined) this.#setPause(partition, at, changed);
    } else if (group !== null) {
      const subscription = queue.subscriptions.get(group);
      // A pop may have made it a moment ago; then it is taken over as it is.
      if (subscription !== undefined) {
        ensure(((subscription.isPaused === true) !== paused) === changed, `pausing ${group} says whether it changed`);
        changes.set(queue.subscriptions, group, { ...subscription, ...at });
      }
    } else this.#setPause(queue, at, changed);
    this.#host.sync(moment);
    this.counts.pauses++;
  }

  #setPause(
    what: { isPaused: boolean; resumedAtUs: number },
    at: { isPaused: boolean; resumedAtUs: number },
    changed: boolean,
  ): void {
    const before = { isPaused: what.isPaused, resumedAtUs: what.resumedAtUs };
    this.#host.ensure((before.isPaused !== at.isPaused) === changed, 'a pause says whether it changed anything');
    Object.assign(what, at);
    this.#host.changes.did(() => Object.assign(what, before));
  }

  // Lists

  rowsListed(moment: Moment, rows: readonly GroupRow[]): void {
    const { ensure } = this.#host;
    this.#host.changes.sequence = moment.sequence;
    this.#host.sync(moment);
    for (const row of rows) {
      const queue = this.#host.queues.get(row.queue);
      const subscription = queue?.subscriptions.get(row.group);
      ensure(queue !== undefined && subscription !== undefined, `${row.group} of ${row.queue} is listed and exists`);
      if (queue === undefined || subscription === undefined) continue;
      const place = `${row.group} on ${row.queue}`;
      ensure(row.pending >= 0 && row.partitionsBehind >= 0, `the lag of ${place} is not negative`);
      ensure(row.partitionsBehind <= queue.partitions.size, `${place} lags in no more partitions than there are`);
      ensure(row.pausedAtUs > 0 === (subscription.isPaused === true), `${place} is listed as paused when it is`);
      this.counts.listedGroups++;
      if (!subscription.registered || !row.isCountExact) continue;
      let [least, most, fewest, greatest] = [0, 0, 0, 0];
      for (const partition of queue.partitions.values()) {
        const left = this.#host
          .candidates(partition, row.group, moment.nowUs)
          .map(({ committed }) => partition.last - Math.max(committed, partition.logStart - 1));
        least += Math.min(...left);
        most += Math.max(...left);
        fewest += Math.min(...left) > 0 ? 1 : 0;
        greatest += Math.max(...left) > 0 ? 1 : 0;
      }
      ensure(row.pending >= least && row.pending <= most, `${place} lags by ${least} to ${most}, not ${row.pending}`);
      ensure(
        row.partitionsBehind >= fewest && row.partitionsBehind <= greatest,
        `${place} lags in ${fewest} to ${greatest} partitions, not ${row.partitionsBehind}`,
      );
    }
  }
}

function concerns({ request, isDecided, isOver }: OpenSeek, partition: ExpectedPartition, group: string): boolean {
  if (isDecided && !isOver) return false;
  if (request.group !== group || request.queue !== partition.queue.name) return false;
  return request.partition === null || request.partition === partition.name;
}

/** Where a seek may put a group, given that records came while it was under way. */
function positions(partition: ExpectedPartition, { request: { target }, submittedUs }: OpenSeek): number[] {
  const found = new Set<number>();
  let first = partition.appends.findIndex(({ stampUs }) => stampUs >= submittedUs);
  if (first < 0) first = partition.appends.length;
  for (let count = first; count <= partition.appends.length; count++) {
    const appends = partition.appends.slice(0, count);
    const last = appends.at(-1)?.last ?? -1;
    switch (target.kind) {
      case 'end':
        found.add(last);
        break;
      case 'beginning':
        found.add(-1);
        break;
      case 'offset':
        found.add(Math.max(-1, Math.min(last, target.offset - 1)));
        break;
      case 'time': {
        const append = appends.find(({ stampUs }) => stampUs >= target.stampUs);
        found.add(append === undefined ? last : append.first - 1);
        break;
      }
    }
  }
  // Never before what was kept, which may have become less while the seek was under way.
  const starts = partition.appends.map((append) => append.first).filter((first) => first <= partition.logStart);
  return [
    ...new Set([...found].flatMap((at) => [0, ...starts, partition.logStart].map((start) => Math.max(at, start - 1)))),
  ];
}
