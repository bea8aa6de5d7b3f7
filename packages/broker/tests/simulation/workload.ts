/**
 * Simulated clients: producers, consumers and an operator. They behave like real ones and worse: they repeat, forget,
 * answer late, answer for others, and give wrong answers. What is right is the auditor's business, not theirs.
 */
import { type BrokerIdentity, defaultGroup, idText } from '../../src/core/mod.ts';
import type { ConfigureRequest, PopRequest } from '../../src/runtime/mod.ts';
import type { AuditedEngine, SentAck } from './audited-engine.ts';
import type { PopAnswer, PushedItem, PushedResult } from './auditor.ts';
import { changeDeadLetters, limitOptions } from './dead-letter-client.ts';
import { retentionOptions } from './expected-retention.ts';
import type { SimulatedRandom } from './simulated-random.ts';
import type { SimulatedScheduler } from './simulated-scheduler.ts';
import type { WorldOptions } from './world-options.ts';

export interface ClientHost {
  readonly engine: AuditedEngine;
  readonly scheduler: SimulatedScheduler;
  readonly random: SimulatedRandom;
  readonly options: WorldOptions;
  /** Broker time as far as clients know it, microseconds. */
  wallUs(): number;
  /** The identity lease ids are made with; null before the first start. */
  identity(): BrokerIdentity | null;
  /** True once no more work is to be begun. */
  isOver(): boolean;
}

const queueNames = ['orders', 'chat.rooms', 'chat.events.x'];
const oddPartitions = ['Default', 'ключ/1', 'a b', 'p"quoted"'];

export function queueName(number: number): string {
  return queueNames[number];
}

export function groupName(number: number): string {
  return number === 0 ? defaultGroup : `group-${number}`;
}

/** Starts all clients of a world. */
export function startClients(host: ClientHost): void {
  const { options } = host;
  const counter = { items: 0 };
  for (let i = 0; i < options.producers; i++) new Producer(host, counter).start();
  for (let i = 0; i < options.consumers; i++) new Consumer(host, i).start();
  new Operator(host).start();
}

export abstract class Client {
  protected readonly host: ClientHost;

  constructor(host: ClientHost) {
    this.host = host;
  }

  start(): void {
    this.next();
  }

  /** Acts again after a while. */
  protected next(thinkMs = this.host.options.thinkMs): void {
    const { scheduler, random } = this.host;
    scheduler.after(random.integer(thinkMs * 2000 + 1) / 1000, () => {
      if (!this.host.isOver()) this.act();
    });
  }

  protected abstract act(): void;

  protected integer(low: number, high: number): number {
    return low + this.host.random.integer(high - low + 1);
  }

  protected chance(share: number): boolean {
    return this.host.random.chance(share);
  }

  protected one<Value>(...values: Value[]): Value {
    return values[this.host.random.integer(values.length)];
  }

  protected queue(): string {
    return queueName(this.host.random.integer(this.host.options.queues));
  }

  /** A few partitions get most of the traffic. */
  protected partition(): string {
    const { options, random } = this.host;
    const number = Math.min(random.integer(options.partitions), random.integer(options.partitions));
    return number < oddPartitions.length && options.seed % 3 === 0 ? oddPartitions[number] : `p${number}`;
  }
}

class Producer extends Client {
  readonly #counter: { items: number };
  #last: readonly PushedItem[] | null = null;
  readonly #mintedIds: string[] = [];

  constructor(host: ClientHost, counter: { items: number }) {
    super(host);
    this.#counter = counter;
  }

  protected act(): void {
    const { features, itemsPerPushMax } = this.host.options;
    let items: readonly PushedItem[];
    if (this.#last !== null && features.repeatedPushes && this.chance(0.15)) items = this.#last;
    else {
      const count = this.integer(1, this.one(1, itemsPerPushMax));
      const place = { queue: this.queue(), partition: this.partition() };
      const made: PushedItem[] = [];
      for (let i = 0; i < count; i++) {
        if (this.chance(0.3)) place.partition = this.partition();
        if (this.chance(0.1)) place.queue = this.queue();
        const item = { ...place, id: this.#id(), payload: this.#payload() };
        made.push(features.dueMessages && this.chance(0.2) ? { ...item, delayMs: this.#delayMs() } : item);
      }
      items = made;
    }
    this.#last = items;
    this.host.engine.push(items, (result) => {
      if (result.kind === 'answered') {
        const identity = this.host.identity();
        this.#noteDue(items, result.answer);
        items.forEach(({ id }, i) => {
          const { stampUs, pid, index, offset } = result.answer[i];
          if (id !== null || identity === null || offset < 0 || this.#mintedIds.length > 50) return;
          this.#mintedIds.push(idText(identity, stampUs, pid, index));
        });
      } else if (result.kind === 'unknown' && this.chance(0.8)) {
        // A careful producer sends it again, under the same ids.
        this.host.scheduler.after(this.integer(1, 500), () => this.act());
        this.#last = items;
        return;
      }
      this.next();
    });
  }

  #delayMs(): number {
    return this.one(0, 1, this.integer(1, 300), this.integer(300, 3000), 8000);
  }

  #noteDue(items: readonly PushedItem[], results: readonly PushedResult[]): void {
    const identity = this.host.identity();
    if (identity === null) return;
    items.forEach(({ queue, partition, id }, i) => {
      const { stampUs, pid, index, dueUs } = results[i];
      if (dueUs > 0) {
        this.host.engine.due.note({ queue, partition, id, messageId: idText(identity, stampUs, pid, index) });
      }
    });
  }

  #id(): string | null {
    const { features } = this.host.options;
    if (features.mintedIds && this.chance(0.3)) return null;
    if (features.mintedIds && this.#mintedIds.length > 0 && this.chance(0.05)) return this.one(...this.#mintedIds);
    if (features.sharedIds && this.chance(0.3)) return `shared-${this.integer(0, 20)}`;
    return `id-${this.#counter.items++}`;
  }

  #payload(): string {
    const { features, payloadBytesMax } = this.host.options;
    const number = this.#counter.items++;
    if (this.chance(0.05))
      return this.one('null', '1e400', '{ "a" :\t1, "a":2 }', '"\\u00e9\\ud83d\\ude00"', '[[],{}]');
    const large = features.largePayloads && this.chance(0.05);
    const padding = this.integer(0, large ? 12_000 : payloadBytesMax);
    return `{"n":${number},"x":"${String.fromCharCode(97 + (number % 26)).repeat(padding)}"}`;
  }
}

/** A message somebody holds. */
interface HeldMessage {
  readonly pid: number;
  readonly id: string;
  readonly leaseId: string | null;
}

class Consumer extends Client {
  readonly #group: string;
  readonly #queue: string;
  readonly #startMode: Pick<PopRequest, 'subscriptionMode' | 'subscriptionFrom'>;
  readonly #conflates: boolean;
  /** Messages of before, for acks that come late. */
  #old: HeldMessage[] = [];
  #lastAck: readonly SentAck[] | null = null;

  constructor(host: ClientHost, number: number) {
    super(host);
    const { options } = host;
    this.#group = groupName(number % options.groups);
    this.#queue = this.queue();
    const wallUs = host.wallUs();
    this.#startMode = options.features.subscriptionModes
      ? this.one<Pick<PopRequest, 'subscriptionMode' | 'subscriptionFrom'>>(
          { subscriptionMode: 'all', subscriptionFrom: null },
          { subscriptionMode: 'new', subscriptionFrom: null },
          { subscriptionMode: 'all', subscriptionFrom: 'now' },
          { subscriptionMode: 'all', subscriptionFrom: wallUs + this.integer(-1000, 5000) * 1000 },
        )
      : { subscriptionMode: 'all', subscriptionFrom: null };
    this.#conflates = options.features.conflation && this.#group !== defaultGroup && this.chance(0.5);
  }

  protected act(): void {
    const { features } = this.host.options;
    if (features.acksWithoutLease && this.#old.length > 0 && this.chance(0.1)) {
      this.#ackOld();
      return;
    }
    if (features.repeatedAcks && this.#lastAck !== null && this.chance(0.1)) {
      this.#send(this.#lastAck);
      return;
    }
    const request = this.#request();
    let isOver = false;
    const cancel = this.host.engine.pop(request, (result) => {
      if (isOver) return;
      isOver = true;
      if (result.kind === 'answered' && result.answer.deliveries.length > 0) this.#handle(result.answer, request);
      else this.next(result.kind === 'answered' ? undefined : 200);
    });
    if (!features.cancelledPops || !this.chance(0.2)) return;
    this.host.scheduler.after(this.integer(0, request.wait ? request.timeoutMs : 10), () => {
      if (isOver) return;
      isOver = true;
      cancel();
      this.next();
    });
  }

  #request(): PopRequest {
    const { features, batchMax, leaseSecondsMax } = this.host.options;
    const conflation = this.#conflates && this.chance(0.9);
    const wait = features.longPolls && this.chance(0.7);
    const kind =
      features.pinnedPops && this.chance(0.3)
        ? 'partition'
        : features.discoverPops && this.chance(0.2)
          ? 'discover'
          : 'queue';
    const target: PopRequest['target'] =
      kind === 'partition'
        ? { kind, queue: this.#queue, partition: this.partition() }
        : kind === 'discover'
          ? { kind, ...this.one({ namespace: 'chat', task: null }, { namespace: null, task: 'rooms' }) }
          : { kind, queue: this.#queue };
    return {
      target,
      group: this.#group,
      batch: this.chance(0.1) ? null : this.integer(1, batchMax),
      partitions: features.manyPartitionsPerPop && this.chance(0.7) ? this.integer(1, 20) : null,
      wait,
      timeoutMs: this.one(50, 300, 3000, 8000),
      leaseSeconds: this.chance(0.05) ? null : this.integer(1, leaseSecondsMax),
      ...this.#startMode,
      commitOnDelivery: features.commitOnDelivery && !conflation && this.chance(0.2),
      conflation,
      autopilot: features.autopilot && kind === 'queue' && this.chance(0.3),
    };
  }

  #handle(answer: PopAnswer, request: PopRequest): void {
    const identity = this.host.identity();
    if (identity === null || request.commitOnDelivery) {
      this.next();
      return;
    }
    const { features, leaseSecondsMax } = this.host.options;
    const leaseId = idText(identity, answer.leaseStamp, 0, 0);
    const acks: SentAck[] = [];
    for (const { pid, records } of answer.deliveries) {
      const ids = records.map(({ id }) => id);
      acks.push(...this.#results(pid, ids, leaseId));
      this.#old.push(...ids.map((id) => ({ pid, id, leaseId })));
    }
    if (this.#old.length > 200) this.#old = this.#old.slice(-100);
    if (features.mixedAcks && this.chance(0.3)) shuffle(acks, this.host.random);
    const isLate = features.expiries && this.chance(0.2);
    const workMs = isLate ? this.integer(500, leaseSecondsMax * 1500) : this.integer(0, 50);
    if (features.extensions && this.chance(0.3)) {
      this.host.scheduler.after(workMs / 2, () => {
        this.host.engine.extend(answer.leaseStamp, this.integer(1, leaseSecondsMax), () => undefined);
      });
    }
    this.host.scheduler.after(workMs, () => this.#send(acks));
  }

  /** What the consumer says about the records of one partition. */
  #results(pid: number, ids: readonly string[], leaseId: string): SentAck[] {
    const { features, resultWeights } = this.host.options;
    const sent = (id: string, status: SentAck['status'], error: string | null = null): SentAck => {
      const asIs: SentAck = { id, pid: String(pid), leaseId, status, error };
      if (features.acksWithoutLease && this.chance(0.05)) return { ...asIs, leaseId: null };
      if (features.wrongAcks && this.chance(0.05)) return this.#wrong(asIs);
      return asIs;
    };
    switch (this.integer(0, 5)) {
      case 0:
        return [sent(ids[ids.length - 1], 'completed')];
      case 1:
        return ids.slice(0, this.integer(1, ids.length)).map((id) => sent(id, 'completed'));
      case 2:
        return features.expiries && this.chance(0.3) ? [] : ids.map((id) => sent(id, 'completed'));
      case 3:
        return ids.flatMap((id) => {
          const status = this.#weighted(resultWeights);
          if (status === null) return [];
          const isAllowed =
            status === 'completed' ||
            (status === 'failed' && features.failures) ||
            (status === 'retry' && features.retries) ||
            (status === 'dlq' && features.givingUp);
          if (!isAllowed) return [sent(id, 'completed')];
          return [sent(id, status, this.chance(0.5) ? `because of ${id}` : null)];
        });
      default:
        return ids.map((id) => sent(id, 'completed'));
    }
  }

  #weighted(weights: readonly number[]): SentAck['status'] | null {
    let drawn = this.host.random.integer(weights.reduce((sum, weight) => sum + weight, 0));
    const statuses = ['completed', 'failed', 'retry', 'dlq', null] as const;
    for (let i = 0; i < weights.length; i++) {
      drawn -= weights[i];
      if (drawn < 0) return statuses[i];
    }
    return null;
  }

  #wrong(ack: SentAck): SentAck {
    return this.one<SentAck>(
      { ...ack, pid: 'x' },
      { ...ack, pid: '99999' },
      { ...ack, pid: String(this.integer(1, 10)) },
      { ...ack, id: 'nobody knows this' },
      { ...ack, leaseId: 'no lease' },
      { ...ack, leaseId: this.#old[0]?.leaseId ?? null },
      { ...ack, id: this.#old[0]?.id ?? ack.id },
    );
  }

  #ackOld(): void {
    const held = this.one(...this.#old);
    const { features } = this.host.options;
    const status =
      features.failures && this.chance(0.2) ? 'failed' : features.givingUp && this.chance(0.1) ? 'dlq' : 'completed';
    const leaseId = this.chance(0.5) ? null : held.leaseId;
    this.#send([{ id: held.id, pid: String(held.pid), leaseId, status, error: null }]);
  }

  #send(acks: readonly SentAck[]): void {
    if (acks.length === 0) {
      this.next();
      return;
    }
    this.#lastAck = acks;
    this.host.engine.ack(this.#group, acks, (result) => {
      // The answer was lost, perhaps: the same again, as a careful client does.
      if (result.kind === 'unknown' && this.chance(0.7) && !this.host.isOver()) {
        this.host.engine.ack(this.#group, acks, () => this.next());
      } else this.next();
    });
  }
}

/** Configures, deletes and looks. */
class Operator extends Client {
  override start(): void {
    for (let queue = 0; queue < this.host.options.queues; queue++) {
      if (this.chance(0.7)) this.host.engine.configure(this.#configuration(queueName(queue)), () => undefined);
    }
    this.next(1000);
  }

  protected act(): void {
    const { features } = this.host.options;
    const done = (): void => this.next(1000);
    const queue = this.queue();
    if (features.deadLetterChanges && this.chance(0.5)) {
      const { queues, partitions } = this.host.options;
      const destinations = {
        queues: Array.from({ length: queues }, (_, i) => queueName(i)),
        partitions: Array.from({ length: partitions + 1 }, (_, i) => `p${i}`),
      };
      changeDeadLetters(this.host.engine, this.host.random, queue, destinations, done);
      return;
    }
    const drawn = this.integer(0, 9);
    if (drawn < 3 && features.reconfigures) this.host.engine.configure(this.#configuration(queue), done);
    else if (drawn === 3 && features.deletes) this.host.engine.deleteQueue(queue, done);
    else if (drawn < 7 && features.reads) this.host.engine.queueDetail(queue, done);
    else if (features.reads) {
      const filter = { queue: this.chance(0.5) ? queue : null, group: null, limit: 20, offset: this.one(0, 0, 3) };
      this.host.engine.deadLetters(filter, false, done);
    } else done();
  }

  #configuration(queue: string): ConfigureRequest {
    const { features, leaseSecondsMax } = this.host.options;
    const options: { -readonly [K in keyof ConfigureRequest['options']]: ConfigureRequest['options'][K] } = {
      leaseTime: this.integer(0, leaseSecondsMax),
    };
    if (this.chance(0.5)) options.retryLimit = this.one(0, 1, 3, null);
    if (this.chance(0.3) && !features.deliveryLimits) {
      options.deadLetterQueue = this.chance(0.5);
      options.dlqAfterMaxRetries = this.chance(0.3);
    }
    if (features.delays && this.chance(0.5)) options.delayedProcessing = this.one(0, 1, 2, 100_000_000);
    if (features.quietTimes && this.chance(0.5)) options.windowBuffer = this.one(0, 1, 3);
    if (features.retryDelays && this.chance(0.5)) options.retryDelay = this.one(1, 500, 3000, 1000);
    if (features.ttls && this.chance(0.5)) options.ttl = this.one(1, 3, 3600, 0);
    if (features.maxSizes && this.chance(0.5)) options.maxSize = this.one(5, 50, 0);
    if (features.dedupWindows && this.chance(0.5)) options.dedupWindowSeconds = this.one(0, 1, 3, 300_000_000);
    if (features.encryption && this.chance(0.5)) options.encryptionEnabled = this.chance(0.7);
    if (this.host.options.retention.isOn && this.chance(0.7))
      Object.assign(options, retentionOptions(this.host.random));
    if (this.chance(0.2)) options.minPopWaitTime = this.one(0, 20, 300);
    if (this.chance(0.2)) options.priority = this.integer(-5, 5);
    Object.assign(options, limitOptions(features, this.host.random));
    return { queue, namespace: this.one(null, null, 'chat'), task: null, mode: this.one('merge', 'replace'), options };
  }
}

function shuffle<Value>(values: Value[], random: SimulatedRandom): void {
  for (let i = values.length - 1; i > 0; i--) {
    const j = random.integer(i + 1);
    [values[i], values[j]] = [values[j], values[i]];
  }
}
