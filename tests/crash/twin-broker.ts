/**
 * A slow, obvious broker in memory: the rules of the contract that the workload uses, written down once more as plainly
 * as possible. It exists to prove the net: the workload must pass on it, whatever connections break, and must fail on a
 * twin with a planted fault.
 *
 * `kill` breaks all open calls, as a crash of a durable broker does: what was decided stays, the answers are lost.
 */
import { type Answer, queueModeGroup, type RequestParts } from '../e2e/broker-client.ts';
import { passed } from '../e2e/clock.ts';
import type { Requester } from './audited-client.ts';
import type { SeededRandom } from './seeded-random.ts';

export const plantedFaults = [
  'a crash forgets the last records',
  'a crash forgets the last acks',
  'a crash forgets leases',
  'a crash forgets transactionIds',
  'a crash forgets dead letters',
  'a crash forgets options',
  'a crash forgets registrations',
  'an ended lease still counts',
  'a lease does not keep others out',
  'a failed message is passed over',
  'a batch ack settles what lies above a failure',
  'the attempt is not counted',
  'the wrong payload is delivered',
  'a refused push is stored',
] as const;
export type PlantedFault = (typeof plantedFaults)[number];

interface StoredRecord {
  readonly messageId: string;
  readonly transactionId: string;
  readonly payload: unknown;
  readonly createdAtMs: number;
  readonly createdAt: string;
}

interface Lease {
  readonly id: string;
  readonly end: number;
  expiresAtMs: number;
}

interface Cursor {
  committed: number;
  lease: Lease | null;
  retryCount: number;
  attemptOffset: number;
  attemptCount: number;
  released: { id: string; from: number; to: number } | null;
}

interface Partition {
  readonly name: string;
  readonly pid: number;
  readonly records: StoredRecord[];
  readonly offsets: Map<string, number>;
  readonly cursors: Map<string, Cursor>;
}

interface DeadLetterEntry {
  readonly partition: Partition;
  readonly group: string;
  readonly offset: number;
  readonly record: StoredRecord;
}

/** The options that the workload sets. */
interface Options {
  retryLimit?: number;
  deadLetterQueue?: boolean;
  dlqAfterMaxRetries?: boolean;
  delayedProcessing?: number;
  retentionSeconds?: number;
}

interface PushLine {
  readonly queue: string;
  readonly partition: string;
  readonly transactionId?: string;
  readonly payload: unknown;
}

interface Queue {
  readonly name: string;
  options: Options;
  readonly partitions: Map<string, Partition>;
  /** Start of each registered group: 0 for `all`, a time for `new`. */
  readonly groups: Map<string, number>;
  deadLetters: DeadLetterEntry[];
}

interface AckLine {
  readonly partitionId: string;
  readonly transactionId: string;
  readonly leaseId: string | null;
  readonly status: string;
}

interface AckBody extends AckLine {
  /** Absent in a body with a single item. */
  readonly acknowledgments?: readonly AckLine[];
  readonly consumerGroup: string | null;
}

interface AckAnswer {
  success: boolean;
  error: string | null;
  leaseReleased: boolean;
  dlq: boolean;
  noop: boolean;
}

const leaseError = 'invalid or expired lease';
const staleError = 'transaction is unresolvable, already committed, or acknowledgment is stale';
const pollMs = 5;
const callMsMax = 4;
const refusedPercent = 8;

export class TwinBroker implements Requester {
  readonly #random: SeededRandom;
  readonly #fault: PlantedFault | null;
  readonly #queues = new Map<string, Queue>();
  readonly #partitions: Partition[] = [];
  #idsGiven = 0;
  #lastStamp = 0;
  #life = 0;

  constructor(random: SeededRandom, fault: PlantedFault | null) {
    this.#random = random;
    this.#fault = fault;
  }

  /** All calls that are open fail; what they did stays. A planted fault may forget something. */
  kill(): void {
    this.#life++;
    for (const queue of this.#queues.values()) this.#forgetSome(queue);
  }

  #forgetSome(queue: Queue): void {
    if (this.#fault === 'a crash forgets options') queue.options = {};
    if (this.#fault === 'a crash forgets registrations') queue.groups.clear();
    if (this.#fault === 'a crash forgets dead letters') queue.deadLetters = [];
    for (const partition of queue.partitions.values()) {
      if (this.#fault === 'a crash forgets transactionIds') partition.offsets.clear();
      if (this.#fault === 'a crash forgets the last records') {
        for (const { transactionId } of partition.records.splice(-2)) partition.offsets.delete(transactionId);
      }
      for (const cursor of partition.cursors.values()) {
        if (this.#fault === 'a crash forgets leases') cursor.lease = null;
        if (this.#fault === 'a crash forgets the last acks') cursor.committed = Math.max(-1, cursor.committed - 2);
      }
    }
  }

  async request<Body>(method: string, path: string, parts: RequestParts): Promise<Answer<Body>> {
    const life = this.#life;
    const check = (): void => {
      if (this.#life !== life) throw new Error('the connection broke');
    };
    await passed(this.#random.integer(callMsMax));
    check();
    const url = new URL(path, 'http://twin');
    const sent: unknown = parts.json ?? (parts.bytes === undefined ? undefined : JSON.parse(String(parts.bytes)));
    let body = this.#decide(method, url, sent);
    if (url.pathname.includes('/pop/') && url.searchParams.get('wait') === 'true') {
      const endMs = performance.now() + Number(url.searchParams.get('timeout'));
      while (body === undefined && performance.now() < endMs) {
        await passed(pollMs);
        check();
        body = this.#decide(method, url, sent);
      }
    }
    await passed(this.#random.integer(callMsMax));
    check();
    const status = body === undefined ? 204 : url.pathname.endsWith('/push') ? 201 : 200;
    if (body === refusal) return { status: 429, headers: {}, bytes: Buffer.from('overloaded'), body: body as Body };
    // A broker answers with bytes: nothing may be shared with its state.
    const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body));
    return {
      status,
      headers: {},
      bytes,
      body: (body === undefined ? undefined : JSON.parse(bytes.toString())) as Body,
    };
  }

  #decide(method: string, url: URL, sent: unknown): unknown {
    const path = url.pathname.split('/').map(decodeURIComponent);
    if (path[3] === 'push') return this.#push((sent as { items: readonly PushLine[] }).items);
    if (path[3] === 'pop') return this.#pop(path[5], path[7] ?? null, url.searchParams);
    if (path[3] === 'lease') return this.#extend(path[4], (sent as { seconds: number }).seconds * 1000);
    if (path[3] === 'configure') {
      const { queue, options } = sent as { queue: string; options: Options };
      Object.assign(this.#queue(queue).options, options);
      return {};
    }
    if (path[3] === 'ack') return this.#ack(sent as AckBody);
    if (path[3] === 'dlq') return this.#deadLetters(url.searchParams);
    if (path[3] === 'resources') return this.#queueRows();
    throw new Error(`the twin has no ${method} ${url.pathname}`);
  }

  #queue(name: string): Queue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = { name, options: {}, partitions: new Map(), groups: new Map(), deadLetters: [] };
      this.#queues.set(name, queue);
    }
    return queue;
  }

  #push(items: readonly PushLine[]): unknown {
    const refused = this.#random.chance(refusedPercent);
    if (refused && this.#fault !== 'a refused push is stored') return refusal;
    const stamps = new Map<Partition, number>();
    const answers = items.map((item) => {
      const partition = this.#partition(this.#queue(item.queue), item.partition);
      const known = partition.offsets.get(item.transactionId ?? '');
      if (known !== undefined) {
        const { messageId, transactionId } = partition.records[known];
        return { message_id: messageId, transaction_id: transactionId, status: 'duplicate', offset: known };
      }
      const stamp = stamps.get(partition) ?? Math.max(Date.now(), this.#lastStamp + 1);
      stamps.set(partition, stamp);
      this.#lastStamp = stamp;
      const messageId = `m-${this.#idsGiven++}`;
      const transactionId = item.transactionId ?? messageId;
      const createdAt = new Date(stamp).toISOString();
      const offset = partition.records.length;
      partition.records.push({
        messageId,
        transactionId,
        payload: item.payload,
        createdAtMs: Date.now(),
        createdAt,
      });
      partition.offsets.set(transactionId, offset);
      return { message_id: messageId, transaction_id: transactionId, status: 'queued', offset };
    });
    return refused ? refusal : answers;
  }

  #partition(queue: Queue, name: string): Partition {
    let partition = queue.partitions.get(name);
    if (partition === undefined) {
      partition = { name, pid: this.#partitions.length, records: [], offsets: new Map(), cursors: new Map() };
      queue.partitions.set(name, partition);
      this.#partitions.push(partition);
    }
    return partition;
  }

  #pop(queueName: string, pinned: string | null, query: URLSearchParams): unknown {
    const queue = this.#queue(queueName);
    const group = query.get('consumerGroup') ?? queueModeGroup;
    if (pinned === null && !queue.groups.has(group)) {
      const isNew = group !== queueModeGroup && (query.get('subscriptionMode') ?? 'new') === 'new';
      queue.groups.set(group, isNew ? Date.now() : 0);
    }
    const commit = query.get('autoAck') === 'true';
    const leaseId = commit ? '' : `l-${this.#idsGiven++}`;
    const messages: unknown[] = [];
    let room = Number(query.get('batch'));
    let partitionsLeft = pinned === null ? Number(query.get('partitions')) : 1;
    for (const partition of queue.partitions.values()) {
      if (room === 0 || partitionsLeft === 0) break;
      if (pinned !== null && partition.name !== pinned) continue;
      const cursor = this.#cursor(queue, partition, group);
      if (
        cursor.lease !== null &&
        cursor.lease.expiresAtMs >= Date.now() &&
        this.#fault !== 'a lease does not keep others out'
      )
        continue;
      const from = cursor.committed + 1;
      let to = from;
      const visibleMs = Date.now() - (queue.options.delayedProcessing ?? 0) * 1000;
      while (to < partition.records.length && to - from < room && partition.records[to].createdAtMs <= visibleMs) to++;
      if (to === from) continue;
      partitionsLeft--;
      room -= to - from;
      const attempt = commit ? 1 : this.#claim(cursor, from, to, leaseId, Number(query.get('leaseSeconds')) * 1000);
      if (commit) cursor.committed = to - 1;
      for (let offset = from; offset < to; offset++) {
        messages.push(this.#messageOf(partition, offset, { attempt, leaseId, group }));
      }
    }
    return messages.length === 0 ? undefined : { success: true, messages };
  }

  #claim(cursor: Cursor, from: number, to: number, leaseId: string, leaseMs: number): number {
    const again = cursor.attemptOffset === from && this.#fault !== 'the attempt is not counted';
    cursor.attemptCount = again ? cursor.attemptCount + 1 : 1;
    cursor.attemptOffset = from;
    cursor.lease = { id: leaseId, end: to - 1, expiresAtMs: Date.now() + leaseMs };
    return cursor.attemptCount;
  }

  #messageOf(
    partition: Partition,
    offset: number,
    facts: { attempt: number; leaseId: string; group: string },
  ): unknown {
    const record = partition.records[offset];
    const wrong = this.#fault === 'the wrong payload is delivered' && this.#random.chance(1);
    return {
      id: record.messageId,
      transactionId: record.transactionId,
      data: wrong ? { id: 'another' } : record.payload,
      createdAt: record.createdAt,
      partitionId: String(partition.pid),
      partition: partition.name,
      leaseId: facts.leaseId,
      consumerGroup: facts.group,
      deliveryAttempt: facts.attempt,
      offset,
    };
  }

  #cursor(queue: Queue, partition: Partition, group: string): Cursor {
    let cursor = partition.cursors.get(group);
    if (cursor === undefined) {
      const since = queue.groups.get(group) ?? 0;
      let first = partition.records.findIndex((record) => record.createdAtMs >= since);
      if (first === -1) first = partition.records.length;
      const none = { lease: null, retryCount: 0, attemptOffset: -1, attemptCount: 0, released: null };
      cursor = { committed: first - 1, ...none };
      partition.cursors.set(group, cursor);
    }
    return cursor;
  }

  #ack(sent: AckBody): AckAnswer[] {
    const lines = sent.acknowledgments ?? [sent];
    const group = sent.consumerGroup ?? queueModeGroup;
    const answers: AckAnswer[] = lines.map(() => ({
      success: false,
      error: staleError,
      leaseReleased: false,
      dlq: false,
      noop: false,
    }));
    const targets = new Map<string, number[]>();
    for (const [index, line] of lines.entries()) {
      const key = `${line.partitionId} ${line.leaseId ?? ''}`;
      targets.set(key, [...(targets.get(key) ?? []), index]);
    }
    for (const indexes of targets.values()) this.#ackTarget(group, lines, answers, indexes);
    return answers;
  }

  #ackTarget(group: string, lines: readonly AckLine[], answers: AckAnswer[], indexes: readonly number[]): void {
    const { partitionId, leaseId } = lines[indexes[0]];
    const partition = this.#partitions[Number(partitionId)];
    const cursor = partition.cursors.get(group);
    if (cursor === undefined) return;
    const isLive = cursor.lease !== null && cursor.lease.expiresAtMs >= Date.now() && cursor.lease.id === leaseId;
    if (leaseId !== null && !isLive && this.#fault !== 'an ended lease still counts') {
      for (const index of indexes) this.#answerWithoutLease(cursor, partition, lines[index], answers[index]);
      return;
    }
    const end = cursor.lease === null ? partition.records.length - 1 : cursor.lease.end;
    const resolved: { index: number; offset: number }[] = [];
    for (const index of indexes) {
      const offset = partition.offsets.get(lines[index].transactionId) ?? Number.POSITIVE_INFINITY;
      const answer = answers[index];
      if (offset > end) continue;
      if (offset > cursor.committed) resolved.push({ index, offset });
      else if (lines[index].status !== 'completed') continue;
      else answer.noop = true;
      answer.success = true;
      answer.error = null;
    }
    this.#settle(
      group,
      partition,
      cursor,
      resolved.map((each) => ({ ...each, line: lines[each.index], answer: answers[each.index] })),
    );
    for (const index of indexes) answers[index].leaseReleased = cursor.lease === null;
  }

  #answerWithoutLease(cursor: Cursor, partition: Partition, line: AckLine, answer: AckAnswer): void {
    const { released } = cursor;
    const offset = partition.offsets.get(line.transactionId) ?? -1;
    const repeats =
      released !== null && released.id === line.leaseId && offset >= released.from && offset <= released.to;
    answer.success = repeats && offset <= cursor.committed;
    answer.leaseReleased = answer.success;
    answer.error = answer.success ? null : leaseError;
  }

  #settle(
    group: string,
    partition: Partition,
    cursor: Cursor,
    items: readonly { offset: number; line: AckLine; answer: AckAnswer }[],
  ): void {
    const queue = [...this.#queues.values()].find((each) => each.partitions.get(partition.name) === partition);
    if (queue === undefined || items.length === 0) return;
    const signals = cursor.lease === null ? [] : items.filter(({ line }) => line.status !== 'completed');
    const signal = Math.min(Number.POSITIVE_INFINITY, ...signals.map(({ offset }) => offset));
    const below = items.filter(
      ({ line, offset }) =>
        line.status === 'completed' &&
        (offset < signal || this.#fault === 'a batch ack settles what lies above a failure'),
    );
    const completed = Math.max(cursor.committed, ...below.map(({ offset }) => offset));
    if (signal === Number.POSITIVE_INFINITY) {
      this.#commit(cursor, completed);
      return;
    }
    const strongest = strongestAt(items, signal);
    const limit = queue.options.retryLimit ?? 3;
    const isSpent = cursor.retryCount >= limit;
    if (this.#fault === 'a failed message is passed over' && this.#random.chance(60)) {
      this.#release(cursor, signal);
      return;
    }
    if (strongest === 'retry' || (strongest === 'failed' && !isSpent)) {
      this.#release(cursor, completed);
      if (strongest === 'failed') cursor.retryCount++;
      return;
    }
    const end = cursor.lease?.end ?? signal;
    const reached = this.#fileFrom({ queue, partition, group, items, signal, end, isSpent });
    this.#release(cursor, reached.committed);
    if (!reached.keepsCount) cursor.retryCount = 0;
  }

  /** Files the message at the signal and settles what may be settled above it (contract 5.4, settle above). */
  #fileFrom(facts: {
    queue: Queue;
    partition: Partition;
    group: string;
    items: readonly { offset: number; line: AckLine; answer: AckAnswer }[];
    signal: number;
    end: number;
    isSpent: boolean;
  }): { committed: number; keepsCount: boolean } {
    const { queue, items, signal, end, isSpent } = facts;
    const files = queue.options.deadLetterQueue !== false || queue.options.dlqAfterMaxRetries !== false;
    const file = (offset: number): void => {
      const dlq = items.some((item) => item.offset === offset && item.line.status === 'dlq');
      if (!files && !dlq) return;
      const record = facts.partition.records[offset];
      queue.deadLetters.push({ partition: facts.partition, group: facts.group, offset, record });
      for (const item of items) if (item.offset === offset && item.line.status !== 'completed') item.answer.dlq = true;
    };
    file(signal);
    let offset = signal + 1;
    for (; offset <= end; offset++) {
      const status = strongestAt(items, offset);
      if (status === 'retry') break;
      if (status === 'failed' && !isSpent) return { committed: offset - 1, keepsCount: true };
      if (status === 'failed' || status === 'dlq') file(offset);
      const completedAbove = items.some((item) => item.line.status === 'completed' && item.offset > offset);
      if (status === null && !completedAbove) break;
    }
    return { committed: offset - 1, keepsCount: false };
  }

  #commit(cursor: Cursor, committed: number): void {
    if (cursor.lease !== null && committed < cursor.lease.end) {
      if (committed > cursor.committed) cursor.attemptOffset = committed + 1;
      cursor.committed = committed;
      return;
    }
    this.#release(cursor, committed);
    cursor.retryCount = 0;
    cursor.attemptOffset = -1;
  }

  #release(cursor: Cursor, committed: number): void {
    if (cursor.lease !== null) {
      cursor.released = { id: cursor.lease.id, from: cursor.committed + 1, to: cursor.lease.end };
    }
    cursor.lease = null;
    cursor.committed = committed;
  }

  #extend(leaseId: string, extensionMs: number): unknown {
    let renewed = 0;
    for (const partition of this.#partitions) {
      for (const { lease } of partition.cursors.values()) {
        if (lease === null || lease.id !== leaseId || lease.expiresAtMs < Date.now()) continue;
        lease.expiresAtMs = Math.max(lease.expiresAtMs, Date.now() + extensionMs);
        renewed++;
      }
    }
    return { success: renewed > 0, renewed };
  }

  #deadLetters(query: URLSearchParams): unknown {
    const rows = this.#queue(query.get('queue') ?? '').deadLetters.map((entry) => ({
      partition: entry.partition.name,
      consumerGroup: entry.group,
      offset: entry.offset,
      transactionId: entry.record.transactionId,
      messageId: entry.record.messageId,
      data: entry.record.payload,
    }));
    const offset = Number(query.get('offset'));
    return { messages: rows.slice(offset, offset + Number(query.get('limit'))), total: rows.length };
  }

  #queueRows(): unknown {
    const queues = [...this.#queues.values()].map((queue) => {
      const partitions = [...queue.partitions.values()];
      const total = partitions.reduce((sum, partition) => sum + partition.records.length, 0);
      const messages = { total, pending: 0, processing: 0, completed: total, deadLetter: queue.deadLetters.length };
      return { name: queue.name, options: { retentionSeconds: 0, ...queue.options }, messages };
    });
    return { queues };
  }
}

const refusal = Object.freeze({ error: 'overloaded', code: 'overloaded' });

function strongestAt(items: readonly { offset: number; line: AckLine }[], offset: number): string | null {
  const statuses = items.filter((item) => item.offset === offset).map((item) => item.line.status);
  return ['dlq', 'failed', 'retry', 'completed'].find((status) => statuses.includes(status)) ?? null;
}
