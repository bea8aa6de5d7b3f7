/**
 * A load that knows the right answer: queues with different rules, groups of every kind, and clients that push, pop, ack
 * in every way the contract has, extend, configure, and repeat what got no answer, as real clients do. Everything goes
 * through the auditor. Used by the crash and the soak tests; what it does depends on the seed, when it does it does not.
 */
import assert from 'node:assert/strict';
import { type DeadLetterPage, type QueueRow, queueModeGroup } from '../e2e/broker-client.ts';
import { passed } from '../e2e/clock.ts';
import { AuditedClient, type Requester } from './audited-client.ts';
import { Auditor } from './auditor.ts';
import type { AckItem, AckStatus, DeadLetterRow, DeliveredMessage, PushItem } from './history.ts';
import type { SeededRandom } from './seeded-random.ts';

export interface WorkloadOptions {
  readonly client: Requester;
  readonly random: SeededRandom;
  /** Resolves while a broker serves; clients that lost their connection wait for it. */
  readonly whenUp: () => Promise<void>;
  /** In all queue names: lets several loads share a broker. */
  readonly prefix: string;
  /** Payload sizes are drawn up to this. */
  readonly payloadBytesMax: number;
  readonly leaseSecondsMax: number;
  /** Of 100 runs of messages so many are not all processed well. */
  readonly failPercent: number;
  /** Of 100 workers so many are too late, and their ack must change nothing. */
  readonly latePercent: number;
}

interface QueuePlan {
  readonly name: string;
  readonly configure: Readonly<Record<string, unknown>> | null;
  readonly retryLimit: number;
  readonly filesDeadLetters: boolean;
}

interface GroupPlan {
  readonly name: string;
  readonly start: 'all' | 'new';
  readonly commitOnDelivery: boolean;
}

const partitionsPerQueue = 12;
/** An option that changes nothing while `retentionEnabled` is off: a place to write numbers into. */
const markerOption = 'retentionSeconds';
const markerMax = 1_000_000;
const pushesRemembered = 40;
/** Longer than the shortest lease. */
const lateMs = 1100;

const groups: readonly GroupPlan[] = [
  { name: queueModeGroup, start: 'all', commitOnDelivery: false },
  { name: 'billing', start: 'all', commitOnDelivery: false },
  { name: 'late', start: 'new', commitOnDelivery: false },
  { name: 'careless', start: 'all', commitOnDelivery: true },
];
/** Reads everything at the end, so that every record that is stored has been seen. */
const reader: GroupPlan = { name: 'reader', start: 'all', commitOnDelivery: true };

export class Workload {
  readonly auditor = new Auditor({ nowMs: () => performance.now() });
  readonly #calls: AuditedClient;
  readonly #options: WorkloadOptions;
  readonly #queues: readonly QueuePlan[];
  readonly #wrongCounts: string[] = [];
  #idsGiven = 0;

  constructor(options: WorkloadOptions) {
    this.#options = options;
    this.#calls = new AuditedClient(this.auditor, options.client);
    const plan = (
      stem: string,
      configure: Readonly<Record<string, unknown>> | null,
      facts: { retryLimit: number; filesDeadLetters: boolean },
    ): QueuePlan => ({ name: `${options.prefix}${stem}`, configure, ...facts });
    this.#queues = [
      plan('plain', null, { retryLimit: 3, filesDeadLetters: true }),
      plan('strict', { retryLimit: 0 }, { retryLimit: 0, filesDeadLetters: true }),
      plan('twice', { retryLimit: 1 }, { retryLimit: 1, filesDeadLetters: true }),
      plan(
        'dropping',
        { retryLimit: 1, deadLetterQueue: false, dlqAfterMaxRetries: false },
        { retryLimit: 1, filesDeadLetters: false },
      ),
      plan('held.back', { delayedProcessing: 1 }, { retryLimit: 3, filesDeadLetters: true }),
    ];
  }

  /** Requests that were answered in a way no client should ever see. */
  get faults(): readonly string[] {
    return this.#calls.faults;
  }

  /** Creates the queues and registers every group, so that later pops need no hint. */
  async setUp(): Promise<void> {
    for (const queue of this.#queues) {
      this.auditor.declareQueue(queue.name, queue);
      if (queue.configure !== null) {
        const json = { queue: queue.name, options: queue.configure };
        const answer = await this.#options.client.request('POST', '/api/v1/configure', { json });
        assert.equal(answer.status, 200);
      }
      for (const group of [...groups, reader]) this.auditor.declareGroup(queue.name, group.name, group.start);
      for (const group of groups) await this.#pop(queue, group, { batch: 1, partitions: 1, mode: group.start });
    }
  }

  /** Runs `count` clients until `stop` fires and each has ended its last action. */
  async run(count: number, stop: AbortSignal): Promise<void> {
    const clients: Promise<void>[] = [];
    for (let i = 0; i < count; i++) clients.push(this.#runClient(this.#options.random.fork(), stop));
    await Promise.all(clients);
  }

  async #runClient(random: SeededRandom, stop: AbortSignal): Promise<void> {
    const pushed: PushItem[][] = [];
    while (!stop.aborted) {
      const action = random.integer(100);
      if (action < 40) await this.#push(random, pushed);
      else if (action < 94) await this.#consume(random);
      else if (action < 97) await this.#repeatPush(random, pushed);
      else await this.#configureSomething(random);
    }
  }

  async #push(random: SeededRandom, pushed: PushItem[][]): Promise<void> {
    const items: PushItem[] = [];
    const places: { queue: string; partition: string }[] = [];
    for (let i = random.between(1, 3); i > 0; i--) places.push(this.#place(random));
    for (let i = random.pick([1, 1, 2, 5, 20]); i > 0; i--) {
      this.#idsGiven++;
      const id = `t-${this.#idsGiven}`;
      const fill = 'x'.repeat(random.integer(random.chance(3) ? this.#options.payloadBytesMax : 300));
      const payload = JSON.stringify({ id, fill });
      items.push({ ...random.pick(places), transactionId: random.chance(10) ? null : id, payload });
    }
    pushed.push(items);
    if (pushed.length > pushesRemembered) pushed.shift();
    if ((await this.#calls.push(items)) !== null) return;
    // An item without an id must not be sent again: nothing could tell the two apart.
    const named = items.filter((item) => item.transactionId !== null);
    await this.#untilAnswered(() => (named.length === 0 ? Promise.resolve([]) : this.#calls.push(named)));
  }

  #place(random: SeededRandom): { queue: string; partition: string } {
    const queue = random.pick(this.#queues).name;
    this.#idsGiven++;
    if (random.chance(3)) return { queue, partition: `once-${this.#idsGiven}` };
    return { queue, partition: `lane/${random.integer(partitionsPerQueue)}` };
  }

  async #repeatPush(random: SeededRandom, pushed: readonly PushItem[][]): Promise<void> {
    if (pushed.length === 0) return;
    const named = random.pick(pushed).filter((item) => item.transactionId !== null);
    if (named.length > 0) await this.#untilAnswered(() => this.#calls.push(named));
  }

  async #configureSomething(random: SeededRandom): Promise<void> {
    const queue = random.pick(this.#queues).name;
    if (!(await this.#calls.configure(queue, markerOption, random.between(1, markerMax)))) await this.#options.whenUp();
  }

  async #consume(random: SeededRandom): Promise<void> {
    const queue = random.pick(this.#queues);
    const group = random.pick(groups);
    const messages = await this.#pop(queue, group, {
      ...(random.chance(15) ? { partition: `lane/${random.integer(partitionsPerQueue)}` } : {}),
      batch: random.pick([1, 2, 7, 30, 200]),
      partitions: random.pick([1, 1, 3, 16, 64]),
      leaseMs: random.between(1, this.#options.leaseSecondsMax) * 1000,
      waitMs: random.pick([0, 0, 100, 400]),
      mode: random.pick(['', '', 'all', 'new']),
    });
    if (messages === null) {
      await this.#options.whenUp();
      return;
    }
    if (messages.length > 0 && !group.commitOnDelivery) await this.#settle(random, group.name, messages);
  }

  async #settle(random: SeededRandom, group: string, messages: readonly DeliveredMessage[]): Promise<void> {
    const { leaseId } = messages[0];
    if (random.chance(6)) await this.#calls.extend(leaseId, random.between(1, this.#options.leaseSecondsMax));
    if (random.chance(10)) await passed(random.integer(400));
    if (random.chance(this.#options.latePercent)) await passed(lateMs);
    const items = runsOf(messages).flatMap((run) => planAcks(random, run, this.#options.failPercent));
    if (items.length === 0) return;
    if (random.chance(10)) {
      for (const item of items.slice(0, 5)) await this.#untilAnswered(() => this.#calls.ack(group, [item], true));
      return;
    }
    await this.#untilAnswered(() => this.#calls.ack(group, items));
    if (random.chance(5)) await this.#untilAnswered(() => this.#calls.ack(group, items));
    if (random.chance(3)) await this.#calls.extend(leaseId, 1);
  }

  /** Repeats a call whose outcome is unknown until it is known, or until the broker answers what no client should see. */
  async #untilAnswered(call: () => Promise<unknown>): Promise<void> {
    while ((await call()) === null && this.faults.length === 0) await this.#options.whenUp();
  }

  #pop(
    queue: QueuePlan,
    group: GroupPlan,
    details: {
      readonly partition?: string;
      readonly batch: number;
      readonly partitions: number;
      readonly leaseMs?: number;
      readonly waitMs?: number;
      readonly mode?: '' | 'all' | 'new';
    },
  ): Promise<readonly DeliveredMessage[] | null> {
    return this.#calls.pop({
      queue: queue.name,
      partition: details.partition ?? null,
      group: group.name,
      batch: details.batch,
      partitions: details.partitions,
      leaseMs: details.leaseMs ?? 1000,
      commitOnDelivery: group.commitOnDelivery,
      waitMs: details.waitMs ?? 0,
      mode: details.mode ?? '',
    });
  }

  /**
   * Takes everything that is left, reads everything that is stored, compares the lists, and fails with the findings.
   * The broker must stay up meanwhile.
   */
  async drainAndAudit(): Promise<void> {
    // Longer than any lease that can be live, so that a pop that waits this long in vain proves that nothing is left.
    const quietMs = (this.#options.leaseSecondsMax + 1) * 1000;
    await Promise.all(this.#queues.flatMap((queue) => groups.map((group) => this.#drain(queue, group, quietMs))));
    await Promise.all(this.#queues.map((queue) => this.#drain(queue, reader, 1500)));
    for (const queue of this.#queues) await this.#noteLists(queue);
    const findings = [...this.faults, ...this.auditor.audit(), ...this.#wrongCounts];
    const story = findings.length === 0 ? [] : this.#storyOf(findings);
    assert.equal(findings.length, 0, [...findings, ...story].join('\n'));
  }

  async #drain(queue: QueuePlan, group: GroupPlan, waitMs: number): Promise<void> {
    for (;;) {
      const messages = await this.#pop(queue, group, {
        batch: 1000,
        partitions: 64,
        leaseMs: 30_000,
        waitMs,
        mode: group.start,
      });
      assert.notEqual(messages, null, `draining ${queue.name} for ${group.name}: ${this.faults.join('; ')}`);
      if (messages === null || messages.length === 0) break;
      if (!group.commitOnDelivery) {
        const items = messages.map((message) => ackItem(message, 'completed'));
        await this.#calls.ack(group.name, items);
      }
    }
    this.auditor.declareDrained(queue.name, group.name);
  }

  async #noteLists(queue: QueuePlan): Promise<void> {
    const { client } = this.#options;
    const rows: DeadLetterRow[] = [];
    let total = 0;
    do {
      const path = `/api/v1/dlq?queue=${encodeURIComponent(queue.name)}&limit=1000&offset=${rows.length}`;
      const { body: page } = await client.request<DeadLetterPage>('GET', path, {});
      total = page.total;
      if (page.messages.length === 0) break;
      for (const row of page.messages) {
        rows.push({ ...row, group: row.consumerGroup, payload: JSON.stringify(row.data) });
      }
    } while (rows.length < total);
    assert.equal(
      rows.length,
      total,
      `the list of dead letters of ${queue.name} names ${total} and shows ${rows.length}`,
    );
    this.auditor.noteDeadLetters(queue.name, rows);
    const beganAtMs = performance.now();
    const listed = await client.request<{ queues: QueueRow[] }>('GET', '/api/v1/resources/queues', {});
    const detail = listed.body.queues.find((row) => row.name === queue.name);
    assert.ok(detail !== undefined, `queue ${queue.name} is gone`);
    this.auditor.noteOption(queue.name, markerOption, {
      value: detail.options[markerOption],
      initial: 0,
      beganAtMs,
    });
    const { messages } = detail;
    const expected = { total: this.auditor.recordCount(queue.name), pending: 0, processing: 0, deadLetter: total };
    for (const [name, count] of Object.entries(expected)) {
      const shown = messages[name as keyof typeof expected];
      if (shown !== count) this.#wrongCounts.push(`counts: ${queue.name} shows ${shown} as ${name}, and has ${count}`);
    }
  }

  #storyOf(findings: readonly string[]): string[] {
    const place = /(\S+?)\/(\S+)/.exec(findings[0].slice(findings[0].indexOf(': ') + 2));
    if (place === null) return [];
    const lines = this.auditor.story(place[1], place[2].replace(/:$/, ''));
    return ['', `what was seen of ${place[0]}:`, ...lines.slice(0, 400)];
  }
}

function runsOf(messages: readonly DeliveredMessage[]): DeliveredMessage[][] {
  const runs = new Map<string, DeliveredMessage[]>();
  for (const message of messages) {
    const run = runs.get(message.partitionId);
    if (run === undefined) runs.set(message.partitionId, [message]);
    else run.push(message);
  }
  return [...runs.values()];
}

/** What a consumer reports for the messages of one partition: success in several ways, or in `failPercent` something else. */
function planAcks(random: SeededRandom, run: readonly DeliveredMessage[], failPercent: number): AckItem[] {
  const all = run.map((message) => ackItem(message, 'completed'));
  if (!random.chance(failPercent)) {
    const plan = random.integer(100);
    if (plan < 65) return all;
    // Acking the last settles all before it.
    if (plan < 80) return all.slice(-1);
    if (plan < 90) return all.slice(0, random.integer(run.length + 1));
    return plan < 95 ? [] : all.map((item) => ({ ...item, leaseId: '' }));
  }
  const status: AckStatus = random.pick(['failed', 'failed', 'failed', 'retry', 'dlq']);
  const at = random.integer(run.length);
  const second = random.integer(run.length);
  return all.map((item, index) => {
    if (index === at) return { ...item, status };
    return index === second && random.chance(30) ? { ...item, status: random.pick(['failed', 'dlq', 'retry']) } : item;
  });
}

function ackItem(message: DeliveredMessage, status: AckStatus): AckItem {
  const { partitionId, transactionId, leaseId } = message;
  return { partitionId, transactionId, leaseId, status };
}
