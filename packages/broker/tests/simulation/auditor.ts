/**
 * The auditor hears of every decision (with what was asked, what came out, and when) and of every answer that left, keeps
 * what the broker must hold, and objects to whatever contradicts it.
 *
 * A decision is known by the log sequence it will be durable with. Answers that left are promises: what they saw may
 * never be lost. Of what was decided but not answered any prefix may survive a crash; which one, the recovered log says.
 *
 * An objection is an exception of class Violation. `compare` looks into the broker's state and holds it against the
 * model field by field, so that a wrong turn shows at once and not only when somebody is served by it.
 */
import { type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import { type AckOutcome, type BrokerState, cursorBit, idText, itemStatus, parseId } from '../../src/core/mod.ts';
import type {
  ConfiguredQueue,
  DeadLetterPage,
  DeadLetterView,
  PopRequest,
  QueueDetail,
  ReplayOutcome,
  ReplayTarget,
} from '../../src/runtime/mod.ts';
import { DueAudit } from './due-audit.ts';
import { EdgeAudit } from './edge-audit.ts';
import { type ExpectedAckItem, expectAck, idsKnownUs, isSameVerdict } from './expected-ack.ts';
import { certainlyLeased, DeliveryRates, givenUp, isGivenUp } from './expected-limits.ts';
import { claimableSince, claimed, type Delivery, leaseUsOf, objection, withExpiredPassed } from './expected-pop.ts';
import { mayBeCleaned, miscount, trimObjection } from './expected-retention.ts';
import {
  type ExpectedCursor,
  type ExpectedDeadLetter,
  ExpectedPartition,
  ExpectedQueue,
  type ExpectedRecord,
  type ExpectedSubscription,
  freshCursor,
  handedBack,
  hasLiveLease,
  periodOf,
} from './expected-state.ts';
import { GroupAudit } from './group-audit.ts';
import { ChangeLog } from './versioned.ts';

export class Violation extends Error {
  override readonly name = 'Violation';
}

/** Where and when a decision was made. */
export interface Moment {
  readonly nowUs: number;
  /** Log sequence with which it will be durable. */
  readonly sequence: number;
  readonly state: BrokerState;
}

export interface PushedItem {
  readonly queue: string;
  readonly partition: string;
  /** null = none was sent. */
  readonly id: string | null;
  readonly payload: string;
  /** Absent = at once. */
  readonly delayMs?: number;
}

/** One item of a push's answer. */
export interface PushedResult {
  readonly status: number;
  readonly offset: number;
  readonly pid: number;
  readonly stampUs: number;
  readonly index: number;
  /** The time it waits for, microseconds; 0 = none. */
  readonly dueUs: number;
}

/** A pop on its way: from the request until its answer left. */
export interface OpenPop {
  readonly request: PopRequest;
  readonly submittedUs: number;
  /** The client is gone. */
  isCancelled: boolean;
  /** It will not be decided any more. */
  isOver: boolean;
  /** What was claimed by it, as keys of cursors; known once it was decided. */
  claims: readonly { readonly partition: ExpectedPartition; readonly group: string }[];
}

export interface PopAnswer {
  readonly leaseStamp: number;
  readonly deliveries: readonly Delivery[];
  readonly conflation: boolean;
  readonly conflationConflict: boolean;
  readonly autopilot: { readonly partitions: number; readonly batch: number } | null;
}

export interface AckedItem extends ExpectedAckItem {
  /** −1 = no decimal number. */
  readonly pid: number;
  /** 0 = none, −1 = no lease of this broker. */
  readonly leaseStamp: number;
}

/** The start that a pinned pop asked for; it counts while the group is not registered. */
interface PinnedStart {
  readonly key: string;
  readonly mode: 'all' | 'new' | 'timestamp';
  readonly sinceUs: number;
  /** When such a pop was first sent. */
  readonly sentAtUs: number;
}

export interface AuditCounts {
  pushed: number;
  duplicates: number;
  delivered: number;
  redelivered: number;
  acked: number;
  deadLetters: number;
  replayed: number;
  givenUp: number;
  emptyPops: number;
  /** Changes that a crash took back. */
  takenBack: number;
  recoveries: number;
  /** Records that the broker removed, and partitions. */
  removed: number;
  cleaned: number;
}

function ensure(condition: boolean, promise: string): asserts condition {
  if (!condition) throw new Violation(promise);
}

function implicitOptions(): QueueOptions {
  return { ...configuredOptions(), leaseTime: 60, retentionSinkHoldMaxSeconds: 0 };
}

function configuredOptions(): QueueOptions {
  const options = {} as Record<string, number | boolean | string>;
  for (const [name, facts] of Object.entries(queueOptionTable)) options[name] = facts.default;
  return options as unknown as QueueOptions;
}

/** Options after a change: null puts one back to its default. */
function withOptions(base: QueueOptions, changes: object): QueueOptions {
  const options = { ...base } as unknown as Record<string, unknown>;
  const defaults = configuredOptions() as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(changes)) options[name] = value ?? defaults[name];
  return options as unknown as QueueOptions;
}

/** A queue that was made by use gets its labels from its name. */
function labelsByName(name: string): { namespace: string; task: string } {
  const labels = name.split('.');
  return { namespace: labels[0] ?? '', task: labels[1] ?? '' };
}

/** Where a group starts that asks like this. */
export function requestedStart(
  request: PopRequest,
  arrivedUs: number,
): { mode: 'all' | 'new' | 'timestamp'; sinceUs: number } {
  if (request.group === '__QUEUE_MODE__') return { mode: 'all', sinceUs: 0 };
  if (typeof request.subscriptionFrom === 'number') return { mode: 'timestamp', sinceUs: request.subscriptionFrom };
  if (request.subscriptionFrom === 'now' || request.subscriptionMode === 'new') {
    return { mode: 'new', sinceUs: arrivedUs };
  }
  return { mode: 'all', sinceUs: 0 };
}

export class Auditor {
  readonly counts: AuditCounts = {
    pushed: 0,
    duplicates: 0,
    delivered: 0,
    redelivered: 0,
    acked: 0,
    deadLetters: 0,
    replayed: 0,
    givenUp: 0,
    emptyPops: 0,
    takenBack: 0,
    recoveries: 0,
    removed: 0,
    cleaned: 0,
  };
  readonly queues = new Map<string, ExpectedQueue>();
  readonly partitions = new Map<number, ExpectedPartition>();
  /** By partition, group and offset: a record is given up by a group once. */
  readonly deadLetters = new Map<string, ExpectedDeadLetter>();
  readonly openPops = new Set<OpenPop>();
  readonly #changes = new ChangeLog();
  readonly #pinnedStarts: PinnedStart[] = [];
  /** Registrations that were seen once: a recovery may show one again whose entry survived unseen. */
  readonly #seenSubscriptions = new Map<number, string>();
  readonly #seenQueues = new Set<number>();
  /** Names of queues that ever had a maxSize. */
  readonly #limitedQueues = new Set<string>();
  #highestPid = 0;
  /** Everything up to this sequence was promised to somebody. */
  promisedThrough = 0;
  /** Broker time after the machine last slept: what became due meanwhile is seen with the next request only. */
  sleptAtUs = 0;
  /** A segment was damaged since the last start: partitions that met it stand still until the next. */
  mayStandStill = false;
  /** How long readiness may take to show, microseconds: reading from a slow disk takes time. */
  readonly #slackUs: number;
  readonly groups: GroupAudit = new GroupAudit({
    changes: this.#changes,
    queues: this.queues,
    ensure: (condition, promise) => ensure(condition, promise),
    sync: (moment) => {
      this.#changes.sequence = moment.sequence;
      this.#sync(moment, new Set());
    },
    takeOverRemovals: ({ state, nowUs }) => this.#takeOverRemovals(state, nowUs),
    known: (partition, group) => this.#unsought(partition, group),
    candidates: (partition, group, nowUs) => this.#candidates(partition, group, nowUs),
  });
  readonly due: DueAudit = new DueAudit({
    changes: this.#changes,
    partitions: this.partitions,
    ensure: (condition, promise) => ensure(condition, promise),
    begin: (moment) => this.#begin(moment, new Set()),
  });
  readonly edges: EdgeAudit = new EdgeAudit({
    changes: this.#changes,
    ensure: (condition, promise) => ensure(condition, promise),
  });
  readonly #rates = new DeliveryRates();

  /** The ids of a segment that was reclaimed lay in a file that was damaged. */
  mayForgetIds = false;
  /** Older ids were in no window at some time: they may be forgotten, also when a window was made longer since. */
  #forgottenBeforeUs = Number.NEGATIVE_INFINITY;
  /** The latest time of all decisions: a broker that starts again may begin a little before it. */
  #latestUs = 0;
  /** How long an empty partition stays; 0 = for ever. */
  readonly cleanupUs: number;

  constructor(slackUs: number, cleanupUs = 0) {
    this.#slackUs = slackUs;
    this.cleanupUs = cleanupUs;
  }

  // Answers and ends

  /** An answer left that saw everything up to a sequence. */
  answered(sequence: number): void {
    this.promisedThrough = Math.max(this.promisedThrough, sequence);
    this.#changes.settle(sequence);
  }

  /**
   * The folder was opened again. `lastSequence`: the last entry of its log, `lastDecided`: the last one with decisions;
   * marks of a clean end, also of a start that failed, may lie behind it.
   */
  recovered(lastSequence: number, lastDecided: number, state: BrokerState): void {
    ensure(
      lastSequence >= this.promisedThrough,
      `what was answered survives: entry ${this.promisedThrough} was seen, the log ends with ${lastSequence}`,
    );
    this.counts.takenBack += this.#changes.forgetAfter(lastDecided);
    this.counts.recoveries++;
    this.#rates.clear();
    // Nothing of what is left can be taken back any more.
    this.#changes.settle(lastDecided);
    this.compare({ state, nowUs: Number.POSITIVE_INFINITY, sequence: lastDecided });
    for (const pop of this.openPops) if (pop.isOver) this.openPops.delete(pop);
    this.groups.recovered();
  }

  // Decisions

  pushDecided(moment: Moment, items: readonly PushedItem[], results: readonly PushedResult[]): void {
    this.#begin(moment, new Set(items.map(({ queue }) => queue)));
    ensure(results.length === items.length, 'a push answers each item');
    const groups = new Map<string, number[]>();
    items.forEach(({ queue, partition }, i) => {
      const key = JSON.stringify([queue, partition]);
      groups.set(key, [...(groups.get(key) ?? []), i]);
    });
    const freshByQueue = new Map<ExpectedQueue, number>();
    for (const numbers of groups.values()) {
      const { queue: queueName, partition: name } = items[numbers[0]];
      const fresh = this.#checkGroup(moment, queueName, name, numbers, items, results);
      const queue = this.queues.get(queueName);
      if (queue !== undefined) freshByQueue.set(queue, (freshByQueue.get(queue) ?? 0) + fresh);
    }
    for (const [queue, fresh] of freshByQueue) {
      if (queue.options.maxSize === 0 || fresh === 0) continue;
      const depth = this.#leastDepth(queue, moment.nowUs);
      ensure(
        depth <= queue.options.maxSize,
        `${queue.name} holds at least ${depth} unfinished messages, its maxSize is ${queue.options.maxSize}`,
      );
    }
  }

  /** Returns how many records of one (queue, partition) were stored. */
  #checkGroup(
    moment: Moment,
    queueName: string,
    name: string,
    numbers: readonly number[],
    items: readonly PushedItem[],
    results: readonly PushedResult[],
  ): number {
    const { nowUs, state } = moment;
    const place = `${queueName}/${name}`;
    const queue = this.queues.get(queueName);
    const partition = queue?.partitions.get(name);
    const windowUs = (queue?.options.dedupWindowSeconds ?? 0) * 1_000_000;
    const first = new Map<string, number>();
    const stored: { item: PushedItem; result: PushedResult }[] = [];
    for (const i of numbers) {
      const item = items[i];
      const result = results[i];
      const earlier = item.id === null ? undefined : first.get(item.id);
      if (earlier !== undefined) {
        const same = results[earlier];
        ensure(
          result.status === itemStatus.duplicate && result.offset === same.offset && result.stampUs === same.stampUs,
          `a repeat inside a push to ${place} is a duplicate of the first, item ${i} is ${JSON.stringify(result)}`,
        );
        continue;
      }
      if (item.id !== null) first.set(item.id, i);
      let known = partition === undefined ? undefined : this.#remembered(partition, item.id, nowUs, windowUs);
      if (known !== undefined && this.#mayForget(known) && result.status === itemStatus.queued) known = undefined;
      if (known === undefined) {
        ensure(
          result.status === itemStatus.queued,
          `${place} does not remember ${item.id} within ${windowUs} µs: item ${i} is stored, not ${JSON.stringify(result)}`,
        );
        stored.push({ item, result });
      } else {
        ensure(
          result.status === itemStatus.duplicate && result.offset === known.offset && result.stampUs === known.stampUs,
          `${place} remembers ${item.id} at offset ${known.offset} since ${known.stampUs}: item ${i} is a duplicate, not ${JSON.stringify(result)}`,
        );
        ensure(
          idText(state.identity, result.stampUs, result.pid, result.index) === known.messageId,
          `a duplicate is answered with the id of the original`,
        );
        this.counts.duplicates++;
      }
    }
    if (stored.length === 0) return 0;
    ensure(queue !== undefined, `the queue ${queueName} exists after something was stored in it`);
    this.#store(moment, queue, name, stored);
    return stored.length;
  }

  /** Whether the id of a record may be unknown by now; `undefined`: nobody pushed it. */
  #mayForget(record: ExpectedRecord | undefined): boolean {
    return this.mayForgetIds || (record !== undefined && record.stampUs < this.#forgottenBeforeUs);
  }

  #remembered(
    partition: ExpectedPartition,
    id: string | null,
    nowUs: number,
    windowUs: number,
  ): ExpectedRecord | undefined {
    if (id === null || windowUs === 0) return undefined;
    const offset = partition.offsets.get(id)?.at(-1);
    const record = offset === undefined ? undefined : partition.records[offset];
    if (record === undefined || record.stampUs < nowUs - windowUs) return undefined;
    // A message id is known as long as its record is there.
    return record.hasOwnId || record.offset >= partition.logStart ? record : undefined;
  }

  #store(
    { nowUs, state }: Moment,
    queue: ExpectedQueue,
    name: string,
    stored: readonly { item: PushedItem; result: PushedResult }[],
  ): void {
    const { pid } = stored[0].result;
    let partition = queue.partitions.get(name);
    if (partition === undefined) {
      ensure(pid > this.#highestPid, `a new partition gets a new pid: ${pid} is not above ${this.#highestPid}`);
      partition = new ExpectedPartition(pid, name, queue);
      this.#changes.set(queue.partitions, name, partition);
      this.#changes.set(this.partitions, pid, partition);
      const before = this.#highestPid;
      this.#highestPid = pid;
      this.#changes.did(() => {
        this.#highestPid = before;
      });
    }
    const place = `${queue.name}/${name}`;
    const firstOffset = partition.last + 1;
    ensure(nowUs > partition.newestStampUs, `the stamps of ${place} rise`);
    stored.forEach(({ item, result }, i) => {
      ensure(
        result.pid === partition.pid && result.offset === firstOffset + i && result.index === i,
        `the next offset of ${place} is ${firstOffset + i} (pid ${partition.pid}), not ${JSON.stringify(result)}`,
      );
      ensure(result.stampUs === nowUs, `an append of ${place} has the stamp of its decision`);
      const messageId = idText(state.identity, nowUs, pid, i);
      const record = {
        offset: result.offset,
        id: item.id ?? messageId,
        hasOwnId: item.id !== null,
        messageId,
        payload: item.payload,
        stampUs: nowUs,
        index: i,
      };
      this.#changes.push(partition.records, record);
      this.due.stored(partition, record.offset, item.delayMs ?? 0, nowUs, result.dueUs);
      this.#changes.set(partition.offsets, record.id, [...(partition.offsets.get(record.id) ?? []), record.offset]);
    });
    this.#changes.push(partition.appends, { first: firstOffset, last: partition.last, stampUs: nowUs });
    this.counts.pushed += stored.length;
  }

  /** What the group furthest behind has at least to do: where the broker counts more is its own affair. */
  #leastDepth(queue: ExpectedQueue, nowUs: number): number {
    let total = 0;
    for (const partition of queue.partitions.values()) total += partition.records.length - partition.logStart;
    if (queue.subscriptions.size === 0) return total;
    let worst = 0;
    for (const [group, subscription] of queue.subscriptions) {
      if (!subscription.registered || subscription.mode !== 'all') continue;
      let pending = 0;
      for (const partition of queue.partitions.values()) {
        const committed = Math.max(...this.#candidates(partition, group, nowUs).map((cursor) => cursor.committed));
        pending += partition.last - Math.max(committed, partition.logStart - 1);
      }
      worst = Math.max(worst, pending);
    }
    return worst;
  }

  /** A push was refused because the queue is full. */
  pushRefused(items: readonly PushedItem[]): void {
    ensure(
      items.some(({ queue }) => this.#limitedQueues.has(queue)),
      'only a queue with a maxSize is ever full',
    );
  }

  popSubmitted(pop: OpenPop): void {
    this.openPops.add(pop);
    const { target, group } = pop.request;
    if (target.kind !== 'partition') return;
    const start = {
      key: JSON.stringify([target.queue, target.partition, group]),
      sentAtUs: pop.submittedUs,
      ...requestedStart(pop.request, pop.submittedUs),
    };
    const isKnown = this.#pinnedStarts.some(
      ({ key, mode, sinceUs }) => key === start.key && mode === start.mode && sinceUs === start.sinceUs,
    );
    if (!isKnown) this.#pinnedStarts.push(start);
  }

  popDecided(moment: Moment, pop: OpenPop, answer: PopAnswer): void {
    this.#begin(moment, namedQueue(pop.request));
    const { request } = pop;
    const { deliveries } = answer;
    ensure(
      answer.leaseStamp === (deliveries.length > 0 && !request.commitOnDelivery ? moment.nowUs : 0),
      'a lease is named by the stamp of its claim',
    );
    const queues = this.#queuesOf(request);
    // One that waited may end because its queue was deleted, or before its first look.
    if (request.target.kind !== 'partition' && (deliveries.length > 0 || !request.wait)) {
      for (const queue of queues) {
        const isRegistered = queue.subscriptions.get(request.group)?.registered === true;
        ensure(isRegistered, `a pop registers ${request.group} on ${queue.name}`);
      }
    }
    if (request.target.kind === 'queue' && queues.length > 0) this.#checkEchoes(queues[0], request, answer);
    this.#checkSizes(request, answer);
    const seen = new Set<number>();
    const claims: { partition: ExpectedPartition; group: string }[] = [];
    for (const delivery of deliveries) {
      ensure(!seen.has(delivery.pid), 'a pop delivers a partition once');
      seen.add(delivery.pid);
      claims.push({ partition: this.#checkDelivery(moment, request, queues, delivery), group: request.group });
    }
    pop.claims = claims;
    this.#checkLimits(moment, pop, answer);
    if (deliveries.length === 0) this.#checkEmpty(moment, pop, queues);
    if (pop.isCancelled) this.#mayHandBack(pop);
  }

  /** A group gets no more of a queue than the queue's options let it. */
  #checkLimits({ nowUs }: Moment, pop: OpenPop, { deliveries }: PopAnswer): void {
    const { group, commitOnDelivery } = pop.request;
    for (const queue of new Set(pop.claims.map(({ partition }) => partition.queue))) {
      const { maxLeasedPartitions } = queue.options;
      const leased = certainlyLeased(queue, group, nowUs);
      ensure(
        commitOnDelivery || maxLeasedPartitions === 0 || leased <= maxLeasedPartitions,
        `${group} has ${leased} partitions of ${queue.name} under lease, of at most ${maxLeasedPartitions}`,
      );
      const count = deliveries
        .filter(({ pid }) => this.partitions.get(pid)?.queue === queue)
        .reduce((sum, { records }) => sum + records.length, 0);
      const reason = this.#rates.delivered(queue, group, count, nowUs);
      ensure(reason === null, `${group} of ${queue.name}: ${reason}`);
    }
  }

  #queuesOf(request: PopRequest): ExpectedQueue[] {
    const { target } = request;
    if (target.kind === 'discover') {
      return [...this.queues.values()].filter(
        ({ namespace, task }) =>
          (target.namespace === null || target.namespace === namespace) &&
          (target.task === null || target.task === task),
      );
    }
    const queue = this.queues.get(target.queue);
    // A waiting pop ends when its queue is deleted.
    ensure(
      queue !== undefined || target.kind === 'partition' || request.wait,
      'a pop of any partition creates its queue',
    );
    return queue === undefined ? [] : [queue];
  }

  #checkEchoes(queue: ExpectedQueue, request: PopRequest, answer: PopAnswer): void {
    const conflation = queue.subscriptions.get(request.group)?.conflation === true;
    ensure(answer.conflation === conflation, `the answer says whether ${request.group} conflates`);
    ensure(
      answer.conflationConflict === (request.conflation && !conflation),
      'the answer says when conflation was asked for in vain',
    );
  }

  #checkSizes(request: PopRequest, { deliveries, autopilot, conflation }: PopAnswer): void {
    const batch = request.batch ?? autopilot?.batch ?? 200;
    const count = deliveries.reduce((sum, { records }) => sum + records.length, 0);
    ensure(count <= Math.max(1, batch), `a pop of batch ${batch} delivers no ${count} records`);
    const byDefault = conflation ? batch : (autopilot?.partitions ?? 1);
    const width = Math.min(Math.max(1, request.partitions ?? byDefault), 64);
    ensure(deliveries.length <= width, `a pop of width ${width} delivers no ${deliveries.length} partitions`);
  }

  #checkDelivery(
    { nowUs }: Moment,
    request: PopRequest,
    queues: readonly ExpectedQueue[],
    delivery: Delivery,
  ): ExpectedPartition {
    const partition = this.partitions.get(delivery.pid);
    ensure(partition !== undefined && queues.includes(partition.queue), `pid ${delivery.pid} belongs to the queue`);
    const { target, group } = request;
    const place = `${partition.queue.name}/${partition.name} of ${group}`;
    ensure(partition.name === delivery.partition, `${place} is delivered under its name`);
    if (target.kind === 'partition') ensure(partition.name === target.partition, `${place} was not asked for`);
    ensure(delivery.records.length > 0, `${place} is delivered with a record`);
    for (const delivered of delivery.records) this.#checkRecord(partition, delivered);
    const subscription = partition.queue.subscriptions.get(group);
    const facts = {
      nowUs,
      commitOnDelivery: request.commitOnDelivery,
      conflation: subscription?.conflation === true,
      isPaused: subscription?.isPaused === true,
      leaseUs: leaseUsOf(request, partition.queue.options.leaseTime, partition.queue.options.maxLeaseSeconds),
    };
    const objections: string[] = [];
    const next: ExpectedCursor[] = [];
    for (const cursor of this.#candidates(partition, group, nowUs)) {
      const reason = objection(partition, cursor, delivery, facts);
      if (reason === null) next.push(claimed(partition.queue, cursor, delivery, facts));
      else objections.push(reason);
    }
    const offsets = delivery.records.map(({ offset }) => offset);
    ensure(
      next.length > 0,
      `offsets ${offsets[0]} to ${offsets.at(-1)} of ${place} may not be delivered at ${nowUs}: ${[...new Set(objections)].join('; ')}`,
    );
    this.#changes.set(partition.cursors, group, distinct(next));
    this.counts.delivered += delivery.records.length;
    if (delivery.attempt > 1) this.counts.redelivered += delivery.records.length;
    return partition;
  }

  #checkRecord(partition: ExpectedPartition, delivered: Delivery['records'][number]): void {
    const place = `${partition.queue.name}/${partition.name} at ${delivered.offset}`;
    const record = partition.records[delivered.offset] as ExpectedRecord | undefined;
    ensure(record !== undefined, `${place} was never pushed`);
    ensure(delivered.id === record.id, `${place} has the transactionId ${record.id}, not ${delivered.id}`);
    ensure(delivered.messageId === record.messageId, `${place} has the id ${record.messageId}`);
    ensure(delivered.stampUs === record.stampUs, `${place} was pushed at ${record.stampUs}`);
    ensure(
      delivered.payload === record.payload,
      `${place} has the payload ${record.payload}, not ${delivered.payload}`,
    );
  }

  /** Where the group may be in the partition, as far as the answers so far tell. */
  #candidates(partition: ExpectedPartition, group: string, nowUs: number): readonly ExpectedCursor[] {
    // A group without a cursor may begin at any of thousands of places, and thousands lie behind each: once is enough.
    const walked = new Map<string, Set<number>>();
    return this.#known(partition, group, nowUs).flatMap((cursor) => {
      const shape = shapeOf(cursor);
      const offsets = walked.get(shape) ?? new Set<number>();
      walked.set(shape, offsets);
      return withExpiredPassed(partition, cursor, nowUs, this.#latestUs, offsets);
    });
  }

  /** The same, but for expired records that may have been passed over. */
  #known(partition: ExpectedPartition, group: string, nowUs: number): readonly ExpectedCursor[] {
    return this.groups.withSeeks(partition, group, this.#unsought(partition, group), nowUs);
  }

  #unsought(partition: ExpectedPartition, group: string): readonly ExpectedCursor[] {
    const known = partition.cursors.get(group);
    if (known === undefined) return this.#starts(partition, group).map((committed) => freshCursor(committed, 0));
    return known.flatMap((cursor) => (cursor.lease?.mayVanish ? [cursor, handedBack(cursor)] : [cursor]));
  }

  /** Positions at which a group may begin in a partition it has no cursor in. */
  #starts(partition: ExpectedPartition, group: string): number[] {
    const subscription = partition.queue.subscriptions.get(group);
    const starts = new Set<number>();
    if (subscription?.registered) {
      for (const { mode, sinceUs } of [subscription, ...(subscription.earlier ?? [])]) {
        starts.add(startOf(partition, mode, sinceUs));
      }
    }
    for (const start of this.groups.startsIn(partition, group)) starts.add(start);
    const key = JSON.stringify([partition.queue.name, partition.name, group]);
    for (const pinned of this.#pinnedStarts) {
      if (pinned.key !== key) continue;
      // Once the group is registered, the registration decides.
      if (subscription?.registered && pinned.sentAtUs > subscription.seenAtUs) continue;
      if (pinned.mode === 'all' || pinned.sinceUs < pinned.sentAtUs) {
        starts.add(startOf(partition, pinned.mode, pinned.sinceUs));
        continue;
      }
      // It starts with the end that was there at the moment of its decision, some time after it was sent.
      for (const append of partition.appends) if (append.stampUs >= pinned.sentAtUs) starts.add(append.first - 1);
      starts.add(partition.last);
    }
    return [...starts];
  }

  /** A pop that went empty must not have overlooked what was there long enough. */
  #checkEmpty({ nowUs }: Moment, pop: OpenPop, queues: readonly ExpectedQueue[]): void {
    this.counts.emptyPops++;
    const { request } = pop;
    const closingUs = request.wait ? Math.min(100_000, (request.timeoutMs * 1000) / 4) : 0;
    const limitUs = Math.min(nowUs, nowUs - closingUs) - this.#slackUs;
    if (pop.isCancelled || this.mayStandStill || pop.submittedUs > limitUs || pop.submittedUs < this.sleptAtUs) return;
    for (const queue of queues) {
      // Until there is room again it may rightly get nothing.
      if (queue.options.maxLeasedPartitions > 0 || queue.options.maxPerSecond > 0) continue;
      for (const { partition, sinceUs } of this.claimable(queue, request.group, nowUs)) {
        if (request.target.kind === 'partition' && request.target.partition !== partition.name) continue;
        ensure(
          sinceUs > limitUs,
          `a pop of ${request.group} that came at ${pop.submittedUs} ended empty at ${nowUs}, but ${queue.name}/${partition.name} was there to claim since ${sinceUs}`,
        );
      }
    }
  }

  /** Partitions that a registered group can certainly claim now, and since when. */
  claimable(queue: ExpectedQueue, group: string, nowUs: number): { partition: ExpectedPartition; sinceUs: number }[] {
    const subscription = queue.subscriptions.get(group);
    const found: { partition: ExpectedPartition; sinceUs: number }[] = [];
    if (subscription?.registered !== true || subscription.isPaused === true || queue.isPaused) return found;
    for (const partition of queue.partitions.values()) {
      if (partition.isPaused) continue;
      const since = this.#known(partition, group, nowUs).map((cursor) => claimableSince(partition, cursor, nowUs));
      if (since.length === 0 || since.includes(null)) continue;
      const resumedAtUs = Math.max(subscription.resumedAtUs ?? 0, queue.resumedAtUs, partition.resumedAtUs);
      found.push({ partition, sinceUs: Math.max(subscription.seenAtUs, resumedAtUs, ...(since as number[])) });
    }
    return found;
  }

  /** True when the group has nothing left to do in any partition of the queue. */
  isDrained(queue: ExpectedQueue, group: string, nowUs: number): boolean {
    return [...queue.partitions.values()].every((partition) => {
      const isAtEnd = (cursor: ExpectedCursor): boolean =>
        withExpiredPassed(partition, cursor, nowUs).some(({ committed }) => committed === partition.last);
      const cursors = partition.cursors.get(group);
      // Where it has been nowhere yet, one of the places where it may begin must be the end.
      return cursors?.every(isAtEnd) ?? this.#known(partition, group, nowUs).some(isAtEnd);
    });
  }

  /** The answer of a pop left. */
  popEnded(pop: OpenPop): void {
    this.openPops.delete(pop);
  }

  /** A group that is deleted and comes again has its whole rate at once. */
  groupDeleted(): void {
    this.#rates.clear();
  }

  /** A pop was refused, or its process died. Until the folder is opened again it may explain what it did before. */
  popFailed(pop: OpenPop): void {
    pop.isOver = true;
  }

  /** The process died, and with it everything it was asked. */
  processEnded(): void {
    this.#rates.clear();
    for (const pop of this.openPops) this.popFailed(pop);
    this.groups.processEnded();
  }

  /** The client of a pop is gone: what it claimed and nobody got is handed back, some time. */
  popCancelled(pop: OpenPop): void {
    if (pop.isCancelled || !this.openPops.has(pop)) return;
    pop.isCancelled = true;
    this.#mayHandBack(pop);
  }

  #mayHandBack(pop: OpenPop): void {
    this.#rates.clear();
    if (pop.request.commitOnDelivery) return;
    for (const { partition, group } of pop.claims) {
      const cursors = (partition.cursors.get(group) ?? []).map((cursor) =>
        cursor.lease === null ? cursor : { ...cursor, lease: { ...cursor.lease, mayVanish: true } },
      );
      this.#changes.set(partition.cursors, group, cursors);
    }
  }

  ackDecided(moment: Moment, group: string, items: readonly AckedItem[], outcome: AckOutcome): void {
    this.#begin(moment, new Set());
    ensure(outcome.count === items.length, 'an ack answers each item');
    const targets = new Map<string, number[]>();
    items.forEach(({ pid, leaseStamp }, i) => {
      const key = `${pid}:${leaseStamp}`;
      targets.set(key, [...(targets.get(key) ?? []), i]);
    });
    for (const numbers of targets.values()) this.#checkTarget(moment, group, items, numbers, outcome);
    this.counts.acked += items.length;
  }

  #checkTarget(
    { nowUs }: Moment,
    group: string,
    items: readonly AckedItem[],
    numbers: readonly number[],
    outcome: AckOutcome,
  ): void {
    const { pid, leaseStamp } = items[numbers[0]];
    const actual = numbers.map((i) => ({
      error: outcome.errors[i],
      released: outcome.leaseReleased[i] === 1,
      dlq: outcome.deadLettered[i] === 1,
      noop: outcome.noop[i] === 1,
    }));
    const partition = this.partitions.get(pid);
    if (partition === undefined) {
      const error = pid < 0 ? 1 : 2;
      ensure(
        actual.every((verdict) => verdict.error === error),
        `pid ${pid} is no partition: ${JSON.stringify(actual)}`,
      );
      return;
    }
    const asked = numbers.map((i) => items[i]);
    const matching: ReturnType<typeof expectAck>[] = [];
    const next: ExpectedCursor[] = [];
    const expectations: string[] = [];
    const mayForget = asked.some(({ id }) =>
      this.#mayForget(partition.records[partition.offsets.get(id)?.at(-1) ?? -1]),
    );
    /** Looks at one cursor. True when it may be one that the ack did not change. */
    const look = (cursor: ExpectedCursor | null, forgets: boolean): boolean => {
      const expected = expectAck(partition, cursor, leaseStamp, asked, nowUs, this.#forgottenBeforeUs, forgets);
      if (!expected.verdicts.every((verdict, i) => isSameVerdict(verdict, actual[i]))) {
        expectations.push(`${JSON.stringify(expected.verdicts)} for ${JSON.stringify(cursor)}`);
        return false;
      }
      matching.push(expected);
      if (expected.next === cursor) return true;
      if (expected.next !== null) next.push(expected.next);
      return false;
    };
    const consider = (cursor: ExpectedCursor | null): boolean => {
      const stays = look(cursor, false);
      return (mayForget && look(cursor, true)) || stays;
    };
    // Many bases lead to the same cursors, and each of these is looked at once.
    const seen = new Map<string, Map<number, boolean>>();
    for (const base of this.#known(partition, group, nowUs)) {
      const shape = shapeOf(base);
      const stays = seen.get(shape) ?? new Map<number, boolean>();
      seen.set(shape, stays);
      let baseStays = false;
      for (const cursor of withExpiredPassed(partition, base, nowUs, this.#latestUs)) {
        const { committed } = cursor;
        if (!stays.has(committed)) stays.set(committed, consider(cursor));
        baseStays ||= stays.get(committed) === true;
      }
      // Where nothing changed, it stays open how many expired records were passed over.
      if (baseStays) next.push(base);
    }
    // A group without a known cursor may not have one at all.
    if (!partition.cursors.has(group)) consider(null);
    const place = `${partition.queue.name}/${partition.name} of ${group}`;
    ensure(
      matching.length > 0,
      `an ack of ${JSON.stringify(asked)} on ${place} at ${nowUs} answered ${JSON.stringify(actual)}, expected ${expectations.join(' or ')}`,
    );
    for (const { offset, error } of matching[0].filed) {
      this.#file(partition, group, offset, error, matching[0].retriesBefore, nowUs);
    }
    const mayBeAbsent = matching.some(({ next: cursor }) => cursor === null);
    if (!mayBeAbsent) this.#changes.set(partition.cursors, group, distinct(next));
  }

  #file(
    partition: ExpectedPartition,
    group: string,
    offset: number,
    error: string,
    retryCount: number,
    nowUs: number,
  ): void {
    const key = deadLetterKey(partition.pid, group, offset);
    const { queue } = partition;
    const isAgain = this.deadLetters.has(key);
    ensure(!isAgain || this.groups.isRewound(queue.number, group), `a group gives a record up once: ${key}`);
    const row = {
      queue: queue.name,
      queueNumber: queue.number,
      pid: partition.pid,
      group,
      offset,
      error,
      retryCount,
      stampUs: nowUs,
    };
    this.#changes.set(this.deadLetters, key, row);
    this.counts.deadLetters++;
  }

  extendDecided(moment: Moment, leaseStamp: number, seconds: number, renewed: number, expiresAtUs: number): void {
    this.#begin(moment, new Set());
    const { nowUs } = moment;
    const untilUs = nowUs + Math.max(1, seconds) * 1_000_000;
    let least = 0;
    let most = 0;
    let earliestUs = Number.POSITIVE_INFINITY;
    for (const partition of this.partitions.values()) {
      for (const [group, cursors] of partition.cursors) {
        const live = cursors.filter((cursor) => cursor.lease?.stampUs === leaseStamp && hasLiveLease(cursor, nowUs));
        if (live.length === 0) continue;
        most++;
        if (live.length === cursors.length) least++;
        const extended = cursors.map((cursor) => {
          if (!live.includes(cursor) || cursor.lease === null) return cursor;
          const { maxLeaseSeconds } = partition.queue.options;
          const lastUs = maxLeaseSeconds > 0 ? leaseStamp + maxLeaseSeconds * 1_000_000 : untilUs;
          const endUs = Math.min(untilUs, lastUs);
          if (cursor.lease.expiresAtUs >= endUs) return cursor;
          return { ...cursor, lease: { ...cursor.lease, expiresAtUs: endUs }, changedAtUs: nowUs };
        });
        for (const cursor of extended) {
          if (cursor.lease?.stampUs === leaseStamp) earliestUs = Math.min(earliestUs, cursor.lease.expiresAtUs);
        }
        this.#changes.set(partition.cursors, group, distinct(extended));
      }
    }
    ensure(
      renewed >= least && renewed <= most,
      `${least} to ${most} leases are live under ${leaseStamp}, not ${renewed}`,
    );
    ensure(
      renewed === 0 ? expiresAtUs === 0 : least !== most || expiresAtUs === earliestUs,
      `an extension answers the earliest end, ${earliestUs}, not ${expiresAtUs}`,
    );
  }

  replayDecided(moment: Moment, row: DeadLetterView, target: ReplayTarget, outcome: ReplayOutcome): void {
    this.#begin(moment, new Set(target.queue === null ? [] : [target.queue]));
    const key = deadLetterKey(row.pid, row.group, row.offset);
    const expected = this.deadLetters.get(key);
    const isThere = expected?.stampUs === row.failedAtUs;
    ensure(isThere === (outcome.result !== 'gone'), `a dead letter is gone exactly when it was removed: ${key}`);
    if (outcome.result === 'gone') return;
    const record = this.partitions.get(row.pid)?.records[row.offset];
    ensure(record !== undefined, `a dead letter is of a record: ${key}`);
    const item = {
      queue: target.queue ?? row.queue,
      partition: target.partition ?? row.partition,
      id: `dlq:${row.id}`,
      payload: record.payload,
    };
    if (outcome.result === 'refused') {
      if (outcome.refusal.code === 'queue_full') this.pushRefused([item]);
      return;
    }
    ensure(outcome.queue === item.queue && outcome.partition === item.partition, `a replay goes where it was sent`);
    ensure(outcome.originalTransactionId === record.id && outcome.group === row.group, `a replay names its origin`);
    const parts = { stampUs: 0, number: 0, index: 0 };
    const bytes = new TextEncoder().encode(outcome.messageId);
    ensure(parseId(moment.state.identity, bytes, 0, bytes.length, parts), 'a replay answers a message id');
    const status = outcome.result === 'moved' ? itemStatus.queued : itemStatus.duplicate;
    const { stampUs, number: pid, index } = parts;
    this.pushDecided(moment, [item], [{ status, offset: outcome.offset, pid, stampUs, index, dueUs: 0 }]);
    if (outcome.result === 'moved') {
      this.#changes.delete(this.deadLetters, key);
      this.counts.replayed++;
    }
  }

  /** Rows were deleted: all that `isMeant` says, and no other. */
  deadLettersDeleted(
    moment: Moment,
    isMeant: (row: ExpectedDeadLetter, transactionId: string) => boolean,
    deleted: number,
  ): void {
    this.#begin(moment, new Set());
    let count = 0;
    for (const [key, row] of [...this.deadLetters]) {
      const record = this.partitions.get(row.pid)?.records[row.offset];
      if (!isMeant(row, record?.id ?? '')) continue;
      this.#changes.delete(this.deadLetters, key);
      count++;
    }
    ensure(count === deleted, `${count} dead letters are deleted, not ${deleted}`);
  }

  /** Pops file what was delivered too often; no answer tells of it. */
  #syncGivenUp({ state, nowUs }: Moment): void {
    for (const row of state.deadLetters.all()) {
      if (!isGivenUp(row)) continue;
      // A group that was moved back gives the same record up again: its newer row takes the place of the earlier one.
      const known = this.deadLetters.get(deadLetterKey(row.pid, row.group, row.offset));
      if (known?.stampUs === row.stampUs) continue;
      const partition = this.partitions.get(row.pid);
      ensure(partition !== undefined, `a dead letter belongs to a partition: pid ${row.pid}`);
      const cursors = this.#candidates(partition, row.group, row.stampUs);
      const conflation = partition.queue.subscriptions.get(row.group)?.conflation === true;
      const after = givenUp(cursors, row, conflation, row.stampUs);
      ensure(
        after.length > 0,
        `${row.group} may not give up offset ${row.offset} of pid ${row.pid} at ${row.stampUs}: "${row.error}" with ${JSON.stringify(cursors)}, now ${nowUs}`,
      );
      this.#changes.set(partition.cursors, row.group, distinct(after));
      this.#file(partition, row.group, row.offset, row.error, row.retryCount, row.stampUs);
      this.counts.givenUp++;
    }
  }

  configureDecided(
    moment: Moment,
    asked: { queue: string; namespace: string | null; task: string | null; mode: string; options: object },
    view: ConfiguredQueue,
  ): void {
    const { nowUs, state } = moment;
    this.#begin(moment, new Set([asked.queue]), true);
    const number = state.queues.get(asked.queue)?.number ?? -1;
    let queue = this.queues.get(asked.queue);
    if (queue === undefined) {
      // A pop may have made it a moment ago: then its options and labels are those of a queue made by use.
      const made = new ExpectedQueue(number, asked.queue, withOptions(configuredOptions(), asked.options), nowUs);
      const base = asked.mode === 'merge' ? implicitOptions() : configuredOptions();
      const used = new ExpectedQueue(number, asked.queue, withOptions(base, asked.options), nowUs);
      Object.assign(used, labelsByName(asked.queue));
      const isUsed =
        this.#isAwaited(asked.queue) &&
        sameOptions(view.options, used.options) &&
        view.namespace === (asked.namespace || used.namespace) &&
        view.task === (asked.task || used.task);
      queue = isUsed ? used : made;
      this.#addQueue(queue);
    } else {
      const base = asked.mode === 'merge' ? queue.options : configuredOptions();
      this.#setOptions(queue, withOptions(base, asked.options), nowUs);
    }
    const { options } = queue;
    if (options.maxSize > 0) this.#limitedQueues.add(queue.name);
    const { namespace, task } = queue;
    queue.namespace = asked.namespace || namespace;
    queue.task = asked.task || task;
    const changed = queue;
    this.#changes.did(() => {
      changed.namespace = namespace;
      changed.task = task;
    });
    ensure(sameOptions(view.options, options), `configure answers with the options in force`);
    ensure(view.namespace === queue.namespace && view.task === queue.task, 'configure answers with the labels');
    this.#sync(moment, new Set([asked.queue]));
  }

  #setOptions(queue: ExpectedQueue, options: QueueOptions, nowUs: number): void {
    this.#rates.clear();
    const before = { options: queue.options, ttls: queue.ttls, changedAtUs: queue.changedAtUs };
    queue.options = options;
    queue.ttls = [...queue.ttls, periodOf(options, nowUs)];
    queue.changedAtUs = nowUs;
    this.#changes.did(() => Object.assign(queue, before));
  }

  #addQueue(queue: ExpectedQueue): void {
    this.#seenQueues.add(queue.number);
    this.#changes.set(this.queues, queue.name, queue);
  }

  deleteDecided(moment: Moment, name: string, existed: boolean): void {
    // What else happened since the last decision is looked at afterwards: the queue is gone from the state already.
    this.#changes.sequence = moment.sequence;
    const queue = this.queues.get(name);
    ensure(queue === undefined || existed, `a queue that exists is deleted: ${name}`);
    if (queue !== undefined) {
      for (const partition of queue.partitions.values()) this.#changes.delete(this.partitions, partition.pid);
      for (const [key, row] of this.deadLetters) {
        if (row.queueNumber === queue.number) this.#changes.delete(this.deadLetters, key);
      }
      this.#changes.delete(this.queues, name);
    }
    this.#sync(moment, new Set());
  }

  detailDecided(moment: Moment, name: string, view: QueueDetail | null): void {
    this.#begin(moment, new Set());
    const queue = this.queues.get(name);
    ensure((view === null) === (queue === undefined), `a queue is shown when it exists: ${name}`);
    if (view === null || queue === undefined) return;
    let total = 0;
    for (const partition of queue.partitions.values()) total += partition.records.length - partition.logStart;
    ensure(view.messages.total === total, `${name} holds ${total} messages, not ${view.messages.total}`);
    ensure(view.partitionCount === queue.partitions.size, `${name} has ${queue.partitions.size} partitions`);
    ensure(sameOptions(view.options, queue.options), `${name} is shown with its options`);
    const filed = [...this.deadLetters.values()].filter(({ queueNumber }) => queueNumber === queue.number).length;
    ensure(view.messages.deadLetter === filed, `${name} has ${filed} dead letters, not ${view.messages.deadLetter}`);
  }

  /** `isWhole`: nothing else is going on, so the page must be exactly what is expected. */
  deadLettersRead(queue: string | null, group: string | null, page: DeadLetterPage, isWhole: boolean): void {
    for (const row of page.rows) {
      const expected = this.deadLetters.get(deadLetterKey(row.pid, row.group, row.offset));
      // The queue may have been deleted since the page was made.
      if (expected === undefined) {
        ensure(
          !isWhole && !this.partitions.has(row.pid),
          `a dead letter was filed by somebody: ${JSON.stringify(row)}`,
        );
        continue;
      }
      const record = this.partitions.get(row.pid)?.records[row.offset];
      ensure(
        record !== undefined && new TextDecoder().decode(row.payload) === record.payload,
        `a dead letter shows the payload that was pushed: pid ${row.pid} offset ${row.offset}`,
      );
      ensure(
        row.transactionId === record.id && row.messageId === record.messageId && row.error === expected.error,
        `a dead letter shows ids and error: ${JSON.stringify(row)}`,
      );
      ensure(
        row.retryCount === expected.retryCount,
        `a dead letter shows ${expected.retryCount} retries, not ${row.retryCount}`,
      );
    }
    if (!isWhole) return;
    const count = [...this.deadLetters.values()].filter(
      (row) => (queue === null || row.queue === queue) && (group === null || row.group === group),
    ).length;
    ensure(
      page.total === count && page.rows.length === Math.min(count, page.rows.length),
      `${count} dead letters exist, not ${page.total}`,
    );
  }

  // What happens without an answer

  #begin(moment: Moment, creating: ReadonlySet<string>, configures = false): void {
    this.#changes.sequence = moment.sequence;
    let windowUs = idsKnownUs;
    for (const { options } of this.queues.values())
      windowUs = Math.max(windowUs, options.dedupWindowSeconds * 1_000_000);
    this.#latestUs = Math.max(this.#latestUs, moment.nowUs);
    this.#forgottenBeforeUs = Math.max(this.#forgottenBeforeUs, moment.nowUs - windowUs);
    if (!configures) this.#sync(moment, creating);
  }

  /** Waiting pops create queues and register groups before they answer: what they did is taken over, if they could. */
  #sync(moment: Moment, creating: ReadonlySet<string>): void {
    const { state, nowUs } = moment;
    this.#takeOverRemovals(state, nowUs);
    for (const [name, queue] of this.queues) {
      ensure(state.queues.get(name)?.number === queue.number, `the queue ${name} exists until it is deleted`);
    }
    for (const queue of state.queues.values()) {
      let expected = this.queues.get(queue.name);
      if (expected === undefined) {
        const isExplained =
          creating.has(queue.name) || this.#seenQueues.has(queue.number) || this.#isAwaited(queue.name);
        ensure(isExplained, `somebody created the queue ${queue.name}`);
        expected = new ExpectedQueue(queue.number, queue.name, implicitOptions(), nowUs);
        Object.assign(expected, labelsByName(queue.name));
        // It may have been paused since it was made.
        expected.isPaused = queue.pausedAtUs > 0;
        this.#addQueue(expected);
      }
      ensure(sameOptions(queue.options, expected.options), `the queue ${queue.name} has the options it was given`);
      ensure(queue.pausedAtUs > 0 === expected.isPaused, `the queue ${queue.name} is paused when it was`);
      for (const subscription of queue.subscriptions) {
        const { number, group, mode, sinceUs, conflation, registered } = subscription;
        const before = expected.subscriptions.get(group);
        const isSame =
          before !== undefined &&
          before.mode === mode &&
          before.sinceUs === sinceUs &&
          before.conflation === conflation &&
          before.registered === registered;
        const isPaused = subscription.pausedAtUs > 0;
        if (before !== undefined) {
          ensure(isPaused === (before.isPaused === true), `${group} on ${queue.name} is paused when it was`);
        }
        if (isSame) continue;
        const pause = before === undefined ? { isPaused, resumedAtUs: nowUs } : before;
        const facts: ExpectedSubscription = {
          number,
          mode,
          sinceUs,
          conflation,
          registered,
          seenAtUs: nowUs,
          isPaused: pause.isPaused === true,
          resumedAtUs: pause.resumedAtUs ?? 0,
        };
        const text = JSON.stringify({ queue: queue.number, group, number, mode, sinceUs, conflation, registered });
        ensure(before?.registered !== true, `${group} stays on ${queue.name} as it registered: ${text}`);
        ensure(
          this.#seenSubscriptions.get(number) === text ||
            this.#explains(expected, group, facts, nowUs) ||
            this.groups.explains(expected, group, facts),
          `somebody registered a group on ${queue.name}: ${text}`,
        );
        this.#seenSubscriptions.set(number, text);
        this.#changes.set(expected.subscriptions, group, facts);
      }
      for (const group of expected.subscriptions.keys()) {
        ensure(
          queue.subscriptions.some((subscription) => subscription.group === group),
          `${group} stays on ${queue.name}`,
        );
      }
    }
    this.#syncGivenUp(moment);
  }

  /** The broker removes what has expired, and partitions that nobody uses, by itself: what is gone must be allowed to be. */
  #takeOverRemovals(state: BrokerState, nowUs: number): void {
    for (const partition of this.partitions.values()) {
      const { queue } = partition;
      if (!state.queues.has(queue.name)) continue;
      const place = `${queue.name}/${partition.name} (pid ${partition.pid})`;
      const lane = state.partitions.findPid(partition.pid);
      if (lane < 0) {
        const isFiled = [...this.deadLetters.values()].some(({ pid }) => pid === partition.pid);
        ensure(!isFiled && mayBeCleaned(partition, nowUs, this.cleanupUs), `${place} exists, at ${nowUs}`);
        this.#changes.delete(queue.partitions, partition.name);
        this.#changes.delete(this.partitions, partition.pid);
        this.counts.cleaned++;
        continue;
      }
      const logStart = state.partitions.logStart[lane];
      if (logStart === partition.logStart) continue;
      const reason = trimObjection(partition, logStart, nowUs, (at, group) =>
        this.#candidates(at, group, nowUs).map(({ committed }) => committed),
      );
      ensure(reason === null, `${place} may not begin at ${logStart} at ${nowUs}: ${reason}`);
      const before = partition.logStart;
      this.counts.removed += logStart - before;
      partition.logStart = logStart;
      this.#changes.did(() => {
        partition.logStart = before;
      });
    }
  }

  /** True when a pop is under way that creates the queue. */
  #isAwaited(queue: string): boolean {
    return [...this.openPops].some(({ request: { target } }) => target.kind === 'queue' && target.queue === queue);
  }

  #explains(queue: ExpectedQueue, group: string, facts: ExpectedSubscription, nowUs: number): boolean {
    return [...this.openPops].some(({ request, submittedUs }) => {
      if (request.group !== group) return false;
      const { target } = request;
      const registers = target.kind !== 'partition' || request.conflation;
      if (registers !== facts.registered || request.conflation !== facts.conflation) return false;
      if (target.kind === 'discover' ? !this.#queuesOf(request).includes(queue) : target.queue !== queue.name)
        return false;
      const start = requestedStart(request, submittedUs);
      if (start.mode !== facts.mode) return false;
      return start.mode === 'new'
        ? facts.sinceUs >= submittedUs && facts.sinceUs <= nowUs
        : start.sinceUs === facts.sinceUs;
    });
  }

  // The state itself

  /**
   * Holds the state against the model, field by field. The state must not be in the middle of a turn. `nowUs`: expired
   * records may have been passed over up to then. `sequence`: the log's last entry.
   */
  compare({ state, nowUs, sequence }: Moment): void {
    this.#changes.sequence = sequence;
    if (nowUs < Number.POSITIVE_INFINITY) this.#latestUs = Math.max(this.#latestUs, nowUs);
    this.#sync({ state, nowUs, sequence }, new Set());
    ensure(
      state.partitions.count === this.partitions.size,
      `${this.partitions.size} partitions exist, not ${state.partitions.count}`,
    );
    for (const partition of this.partitions.values()) this.#comparePartition(state, partition, nowUs);
    this.edges.compare(state);
    const wrong = miscount(state);
    ensure(wrong === null, wrong ?? '');
    const rows = [...state.deadLetters.all()];
    ensure(rows.length === this.deadLetters.size, `${this.deadLetters.size} dead letters exist, not ${rows.length}`);
    for (const { pid, group, offset, error, stampUs, retryCount } of rows) {
      const expected = this.deadLetters.get(deadLetterKey(pid, group, offset));
      ensure(
        expected !== undefined &&
          expected.error === error &&
          expected.stampUs === stampUs &&
          expected.retryCount === retryCount,
        `the dead letter of pid ${pid} at ${offset} for ${group} is as it was filed`,
      );
    }
  }

  #comparePartition(state: BrokerState, partition: ExpectedPartition, nowUs: number): void {
    const place = `${partition.queue.name}/${partition.name}`;
    const { partitions, cursors } = state;
    const lane = partitions.findPid(partition.pid);
    ensure(lane >= 0, `${place} (pid ${partition.pid}) exists`);
    ensure(
      partitions.nextOffset[lane] === partition.last + 1,
      `${place} ends with ${partition.last}, not ${partitions.nextOffset[lane] - 1}`,
    );
    ensure(
      partitions.lastStampUs[lane] === partition.newestStampUs,
      `${place} was written at ${partition.newestStampUs}`,
    );
    ensure(state.pausedPartitions.has(partition.pid) === partition.isPaused, `${place} is paused when it was`);
    this.due.compare(state, partition);
    const seen = new Set<string>();
    for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
      const group = state.subscriptions.get(cursors.subscription[row])?.group;
      // The rows of deleted groups are given back by and by.
      if (group === undefined) continue;
      ensure(!seen.has(group), `a group has one cursor in ${place}`);
      seen.add(group);
      if ((cursors.flags[row] & cursorBit.placed) === 0) continue;
      const claim = cursors.claim[row];
      const actual = {
        committed: cursors.committed[row],
        lease:
          claim >= 0 && cursors.leaseStamp[claim] !== 0
            ? {
                stampUs: cursors.leaseStamp[claim],
                end: cursors.leaseEnd[claim],
                expiresAtUs: cursors.expiresAtUs[claim],
              }
            : null,
        retryCount: claim < 0 ? 0 : cursors.retryCount[claim],
        attempt: claim < 0 ? 0 : cursors.attemptCount[claim],
      };
      const text = JSON.stringify(actual);
      const candidates = this.#candidates(partition, group, nowUs);
      const matching = candidates.filter((cursor) => visible(cursor) === text);
      ensure(
        matching.length > 0,
        `${group} is in ${place} at ${text}, expected ${[...new Set(candidates.map(visible))].join(' or ')}`,
      );
      // Once it was seen, it is known.
      const isKnown = partition.cursors.has(group) || this.groups.isSought(partition, group);
      if (isKnown) this.#changes.set(partition.cursors, group, distinct(matching));
    }
    for (const [group, candidates] of partition.cursors) {
      ensure(seen.has(group), `${group} has a cursor in ${place}: ${visible(candidates[0])}`);
    }
  }
}

/** What of a cursor can be seen in a state. */
function visible(cursor: ExpectedCursor): string {
  const { committed, lease, retryCount, attemptCount } = cursor;
  return JSON.stringify({
    committed,
    lease: lease === null ? null : { stampUs: lease.stampUs, end: lease.end, expiresAtUs: lease.expiresAtUs },
    retryCount,
    attempt: attemptCount,
  });
}

function startOf(partition: ExpectedPartition, mode: 'all' | 'new' | 'timestamp', sinceUs: number): number {
  if (mode === 'all') return -1;
  const first = partition.appends.find(({ stampUs }) => stampUs >= sinceUs);
  return first === undefined ? partition.last : first.first - 1;
}

function namedQueue({ target }: PopRequest): ReadonlySet<string> {
  return new Set(target.kind === 'queue' ? [target.queue] : []);
}

/** A group that went back and gives a record up again files it anew, in the place of its earlier row. */
function deadLetterKey(pid: number, group: string, offset: number): string {
  return `${pid} ${offset} ${group}`;
}

function sameOptions(a: QueueOptions, b: QueueOptions): boolean {
  return (Object.keys(queueOptionTable) as (keyof QueueOptions)[]).every((name) => a[name] === b[name]);
}

/** Equal for cursors that differ by nothing but their place. */
function shapeOf(cursor: ExpectedCursor): string {
  return JSON.stringify({ ...cursor, committed: 0 });
}

function distinct(cursors: readonly ExpectedCursor[]): readonly ExpectedCursor[] {
  if (cursors.length < 2) return cursors;
  const byText = new Map(cursors.map((cursor) => [JSON.stringify(cursor), cursor]));
  return [...byText.values()];
}
