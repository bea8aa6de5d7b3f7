/**
 * The model checker of the crash and soak tests.
 *
 * Clients report each request before they send it and each answer after they have it; at the end `audit` compares all of
 * it with what a broker may do. It says nothing about speed, and it accepts every history that some correct broker could
 * have produced: where the order of two decisions cannot be told from outside, both orders are tried.
 *
 * Promises checked (the rule's name is the first word of a finding):
 *   identity    an offset, a transactionId and a message id name one record for ever, with the payload that was pushed
 *   gap         offsets of a partition are 0, 1, 2 … without holes, in the order of the pushes
 *   kept        what was answered 2xx is there: records, acks, dead letters, options, registrations
 *   invented    nothing is there that nobody asked for, or that was refused
 *   order       n+1 is first delivered when n is settled, or behind it in the same pop
 *   settled     nothing is delivered after its ack was answered
 *   holder      at most one live lease per (partition, group); only the holder counts
 *   attempt     the number of a delivery is one that the deliveries before it explain
 *   bounds      no pop answers more than was asked for, or something else
 *
 * To add a promise: record what it needs in history.ts, check it in cursor-audit.ts when it concerns one group in one
 * partition and here otherwise, and plant a history that breaks it in auditor.test.ts.
 */
import { auditCursor } from './cursor-audit.ts';
import {
  type AckItem,
  type AckOperation,
  type AckResult,
  type AckTarget,
  type ConfigureOperation,
  type CursorHistory,
  type DeadLetterRow,
  type DeliveredMessage,
  type ExtendOperation,
  type Intent,
  type KnownRecord,
  type Operation,
  PartitionHistory,
  type PopOperation,
  type PopRequest,
  type PushItem,
  type PushOperation,
  type PushResult,
} from './history.ts';

export interface AuditorOptions {
  /** The clients' monotonic clock. */
  readonly nowMs: () => number;
  /** How far the broker's clock may differ from the clients' over one lease; default 60. */
  readonly toleranceMs?: number;
}

/** Facts about a queue that do not change during the run. */
export interface QueueFacts {
  readonly retryLimit: number;
  /** False: a message whose retries are used up is dropped. */
  readonly filesDeadLetters: boolean;
}

interface GroupFacts {
  readonly start: 'all' | 'new';
  /** When its registration was answered; Infinity before. */
  registeredAtMs: number;
  drained: boolean;
  /** A pop with commit on delivery got no answer: what it took is lost, as it may be. */
  lossy: boolean;
  /** Pops without an answer, each of which may have taken a lease in any partition. */
  readonly lostPops: PopOperation[];
}

const findingsMax = 50;
const defaultQueueFacts: QueueFacts = { retryLimit: 3, filesDeadLetters: true };

function keyOf(first: string, second: string): string {
  return `${first}\u0000${second}`;
}

export class Auditor {
  private readonly nowMs: () => number;
  private readonly toleranceMs: number;
  private readonly queues = new Map<string, QueueFacts>();
  private readonly groups = new Map<string, GroupFacts>();
  private readonly partitions = new Map<string, PartitionHistory>();
  private readonly partitionOfId = new Map<string, PartitionHistory>();
  private readonly extensions = new Map<string, ExtendOperation[]>();
  private readonly configurations = new Map<string, ConfigureOperation[]>();
  private readonly leaseOwner = new Map<string, PopOperation>();
  private readonly targetsOf = new WeakMap<AckOperation, (AckTarget | null)[]>();
  private readonly deadLettersListed = new Set<string>();
  private readonly findings: string[] = [];
  private findingCount = 0;

  constructor(options: AuditorOptions) {
    this.nowMs = options.nowMs;
    this.toleranceMs = options.toleranceMs ?? 60;
  }

  declareQueue(queue: string, facts: QueueFacts): void {
    this.queues.set(queue, facts);
  }

  /** `start`: the subscription mode of the group's first pop. Groups that were never declared start with `all`. */
  declareGroup(queue: string, group: string, start: 'all' | 'new'): void {
    this.groups.set(keyOf(queue, group), {
      start,
      registeredAtMs: Number.POSITIVE_INFINITY,
      drained: false,
      lossy: false,
      lostPops: [],
    });
  }

  /** From now on the group has had everything: what it was never given is lost. */
  declareDrained(queue: string, group: string): void {
    this.groupFacts(queue, group).drained = true;
  }

  beginPush(items: readonly PushItem[]): PushOperation {
    const operation: PushOperation = { kind: 'push', items, ...this.opened() };
    for (const item of items) this.intent(item).operations.push(operation);
    return operation;
  }

  endPush(operation: PushOperation, results: readonly PushResult[]): void {
    this.close(operation, 'answered');
    if (results.length !== operation.items.length) {
      this.report('bounds', `a push of ${operation.items.length} items was answered with ${results.length} results`);
      return;
    }
    const nextOffsets = new Map<PartitionHistory, number>();
    for (let i = 0; i < results.length; i++) this.notePushed(operation, operation.items[i], results[i], nextOffsets);
  }

  private notePushed(
    operation: PushOperation,
    item: PushItem,
    result: PushResult,
    nextOffsets: Map<PartitionHistory, number>,
  ): void {
    const partition = this.partition(item.queue, item.partition);
    const intent = this.intent(item);
    if (result.status === 'error') return;
    const what = `${place(partition)} ${item.transactionId ?? 'without id'}`;
    if (result.offset === null) {
      this.report('bounds', `${what}: answered ${result.status} without an offset`);
      return;
    }
    const expectedId = item.transactionId ?? result.messageId;
    if (result.transactionId !== expectedId) {
      this.report('identity', `${what}: answered for transactionId ${result.transactionId}`);
    }
    if (result.status === 'queued') {
      intent.queuedCount++;
      if (item.transactionId !== null && intent.queuedCount > 1) {
        this.report('identity', `${what}: stored twice, the second time at offset ${result.offset}`);
      }
      const expected = nextOffsets.get(partition);
      if (expected !== undefined && expected !== result.offset) {
        this.report('gap', `${what}: got offset ${result.offset} behind ${expected - 1} in one append`);
      }
      nextOffsets.set(partition, result.offset + 1);
    } else if (item.transactionId === null) {
      this.report('invented', `${what}: a duplicate, although it has no transactionId`);
    } else if (!mayBeStoredBefore(intent, operation)) {
      this.report('invented', `${what}: a duplicate, although nobody pushed it before without being refused`);
    }
    const record = this.noteRecord(partition, result.offset, result.messageId, result.transactionId);
    record.storedByMs = Math.min(record.storedByMs, operation.endedAtMs);
    record.pushBeganAtMs = Math.min(record.pushBeganAtMs, firstBegin(intent));
  }

  beginPop(request: PopRequest): PopOperation {
    return { kind: 'pop', request, ...this.opened() };
  }

  /** `messages`: as answered, an empty array for 204. */
  endPop(operation: PopOperation, messages: readonly DeliveredMessage[]): void {
    this.close(operation, 'answered');
    const { request } = operation;
    const facts = this.groupFacts(request.queue, request.group);
    if (request.partition === null) facts.registeredAtMs = Math.min(facts.registeredAtMs, operation.endedAtMs);
    if (messages.length > request.batch) {
      this.report('bounds', `a pop of ${request.queue} with batch ${request.batch} got ${messages.length} messages`);
    }
    if (messages.length > 0) this.noteLease(operation, messages[0].leaseId);
    const seen = new Set<string>();
    let start = 0;
    while (start < messages.length) {
      let end = start + 1;
      while (end < messages.length && messages[end].partitionId === messages[start].partitionId) end++;
      this.noteRun(operation, messages.slice(start, end), seen);
      start = end;
    }
    if (seen.size > (request.partition === null ? request.partitions : 1)) {
      this.report('bounds', `a pop of ${request.queue} for ${request.partitions} partitions got ${seen.size}`);
    }
  }

  private noteLease(operation: PopOperation, leaseId: string): void {
    if (operation.request.commitOnDelivery) {
      if (leaseId !== '') this.report('bounds', `a pop with commit on delivery got lease ${leaseId}`);
      return;
    }
    if (leaseId === '' || this.leaseOwner.has(leaseId)) {
      this.report('holder', `lease id '${leaseId}' was given to a second pop of ${operation.request.queue}`);
    }
    this.leaseOwner.set(leaseId, operation);
  }

  private noteRun(operation: PopOperation, messages: readonly DeliveredMessage[], seen: Set<string>): void {
    const { request } = operation;
    const first = messages[0];
    const partition = this.partition(request.queue, first.partition);
    const where = `${place(partition)} to ${request.group}`;
    this.notePartitionId(partition, first.partitionId);
    if (seen.has(first.partitionId)) this.report('bounds', `${where}: two runs in one pop`);
    seen.add(first.partitionId);
    if (request.partition !== null && request.partition !== first.partition) {
      this.report('bounds', `${where}: delivered to a pop of partition ${request.partition}`);
    }
    for (let i = 0; i < messages.length; i++) {
      const message = messages[i];
      if (message.partition !== first.partition || message.offset !== first.offset + i) {
        this.report('order', `${where}: offset ${message.offset} follows ${first.offset + i - 1} in one pop`);
      }
      if (message.leaseId !== first.leaseId || message.attempt !== first.attempt) {
        this.report('bounds', `${where}: lease or attempt changes within one run at offset ${message.offset}`);
      }
      this.noteDelivered(partition, operation, message);
    }
    partition.cursor(request.group).runs.push({
      pop: operation,
      leaseId: first.leaseId,
      firstOffset: first.offset,
      lastOffset: messages[messages.length - 1].offset,
      attempt: first.attempt,
    });
  }

  private notePartitionId(partition: PartitionHistory, id: string): void {
    const owner = this.partitionOfId.get(id);
    if (partition.id === null && owner === undefined) {
      partition.id = id;
      this.partitionOfId.set(id, partition);
    } else if (owner !== partition) {
      this.report('identity', `${place(partition)}: partitionId ${id} names another partition, or it changed`);
    }
  }

  private noteDelivered(partition: PartitionHistory, operation: PopOperation, message: DeliveredMessage): void {
    const record = this.noteRecord(partition, message.offset, message.messageId, message.transactionId);
    record.storedByMs = Math.min(record.storedByMs, operation.endedAtMs);
    this.notePayload(partition, record, message.payload);
    if (record.createdAt !== null && record.createdAt !== message.createdAt) {
      this.report('identity', `${place(partition)} offset ${message.offset}: createdAt changed`);
    }
    record.createdAt = message.createdAt;
  }

  private notePayload(partition: PartitionHistory, record: KnownRecord, payload: string): void {
    const what = `${place(partition)} offset ${record.offset} (${record.transactionId})`;
    if (record.payload !== null) {
      if (record.payload !== payload) this.report('identity', `${what}: the payload changed`);
      return;
    }
    record.payload = payload;
    const intent = intentOf(partition, record);
    if (intent === undefined) {
      this.report('invented', `${what}: nobody pushed it here`);
      return;
    }
    if (!intent.payloads.has(payload)) this.report('identity', `${what}: not the payload that was pushed`);
    intent.recordCount++;
    record.pushBeganAtMs = Math.min(record.pushBeganAtMs, firstBegin(intent));
  }

  beginAck(group: string, items: readonly AckItem[]): AckOperation {
    const operation: AckOperation = { kind: 'ack', group, items, ...this.opened() };
    const targets = new Map<string, AckTarget>();
    const targetOfItem: (AckTarget | null)[] = [];
    for (const item of items) {
      const partition = this.partitionOfId.get(item.partitionId);
      const offset = partition?.offsetOfTransaction.get(item.transactionId);
      if (partition === undefined || offset === undefined) {
        targetOfItem.push(null);
        continue;
      }
      const key = keyOf(item.partitionId, item.leaseId);
      let target = targets.get(key);
      if (target === undefined) {
        target = { operation, leaseId: item.leaseId, items: [] };
        targets.set(key, target);
        partition.cursor(group).targets.push(target);
      }
      target.items.push({ offset, status: item.status, result: null });
      targetOfItem.push(target);
    }
    this.targetsOf.set(operation, targetOfItem);
    return operation;
  }

  endAck(operation: AckOperation, results: readonly AckResult[]): void {
    this.close(operation, 'answered');
    if (results.length !== operation.items.length) {
      this.report('bounds', `an ack of ${operation.items.length} items was answered with ${results.length} results`);
      return;
    }
    const targetOfItem = this.targetsOf.get(operation) ?? [];
    const filled = new Map<AckTarget, number>();
    for (let i = 0; i < results.length; i++) {
      const target = targetOfItem[i];
      if (target === null || target === undefined) {
        if (results[i].success) {
          const { partitionId, transactionId } = operation.items[i];
          this.report('invented', `an ack of ${transactionId} in partition ${partitionId} succeeded, never delivered`);
        }
        continue;
      }
      const index = filled.get(target) ?? 0;
      target.items[index].result = results[i];
      filled.set(target, index + 1);
    }
  }

  beginExtend(leaseId: string, extensionMs: number): ExtendOperation {
    const operation: ExtendOperation = { kind: 'extend', leaseId, extensionMs, granted: false, ...this.opened() };
    let list = this.extensions.get(leaseId);
    if (list === undefined) {
      list = [];
      this.extensions.set(leaseId, list);
    }
    list.push(operation);
    return operation;
  }

  endExtend(operation: ExtendOperation, granted: boolean): void {
    this.close(operation, 'answered');
    operation.granted = granted;
  }

  beginConfigure(queue: string, option: string, value: number): ConfigureOperation {
    const operation: ConfigureOperation = { kind: 'configure', queue, option, value, ...this.opened() };
    const key = keyOf(queue, option);
    let list = this.configurations.get(key);
    if (list === undefined) {
      list = [];
      this.configurations.set(key, list);
    }
    list.push(operation);
    return operation;
  }

  endConfigure(operation: ConfigureOperation): void {
    this.close(operation, 'answered');
  }

  /** A read of an option that began at `beganAtMs` and was answered now. `initial`: its value before the first write. */
  noteOption(
    queue: string,
    option: string,
    { value, initial, beganAtMs }: { value: number; initial: number; beganAtMs: number },
  ): void {
    const list = this.configurations.get(keyOf(queue, option)) ?? [];
    const overwrittenSinceMs = list
      .filter((write) => write.outcome === 'answered' && write.endedAtMs < beganAtMs)
      .reduce((latest, write) => Math.max(latest, write.beganAtMs), Number.NEGATIVE_INFINITY);
    const possible = list.filter(
      (write) => write.outcome !== 'refused' && (write.endedAtMs >= overwrittenSinceMs || write.outcome === 'open'),
    );
    const values = possible.map((write) => write.value);
    if (overwrittenSinceMs === Number.NEGATIVE_INFINITY) values.push(initial);
    if (!values.includes(value)) {
      this.report('kept', `queue ${queue}: ${option} is ${value}, but only ${values.join(', ')} can be in force`);
    }
  }

  /** The whole list of dead letters of a queue, read while no ack was under way. */
  noteDeadLetters(queue: string, rows: readonly DeadLetterRow[]): void {
    this.deadLettersListed.add(queue);
    for (const row of rows) {
      const partition = this.partition(queue, row.partition);
      const record = this.noteRecord(partition, row.offset, row.messageId, row.transactionId);
      this.notePayload(partition, record, row.payload);
      partition.cursor(row.group).deadLetters.push(row);
    }
  }

  refuse(operation: Operation): void {
    this.close(operation, 'refused');
  }

  lose(operation: Operation): void {
    this.close(operation, 'unknown');
    const pop = operation as PopOperation;
    if (pop.kind !== 'pop') return;
    const facts = this.groupFacts(pop.request.queue, pop.request.group);
    facts.lostPops.push(pop);
    if (pop.request.commitOnDelivery) facts.lossy = true;
  }

  /** All findings; empty when the history is one that a correct broker could have produced. */
  audit(): readonly string[] {
    for (const partition of this.partitions.values()) {
      this.auditRecords(partition);
      const last = lastOffsetOf(partition);
      for (const cursor of partition.cursors.values()) this.auditGroup(partition, cursor, last);
      this.auditNeverDelivered(partition, last);
    }
    if (this.findingCount > this.findings.length) {
      this.findings.push(`… and ${this.findingCount - this.findings.length} more`);
    }
    return this.findings;
  }

  private auditRecords(partition: PartitionHistory): void {
    const offsets = [...partition.records.keys()].sort((a, b) => b - a);
    let soonestBehindMs = Number.POSITIVE_INFINITY;
    let createdBehind = '9';
    for (const offset of offsets) {
      const record = partition.records.get(offset) as KnownRecord;
      if (record.pushBeganAtMs !== Number.POSITIVE_INFINITY && record.pushBeganAtMs > soonestBehindMs) {
        this.report('gap', `${place(partition)} offset ${offset}: pushed after a record behind it was stored`);
      }
      soonestBehindMs = Math.min(soonestBehindMs, record.storedByMs);
      if (record.createdAt === null) continue;
      if (record.createdAt > createdBehind) {
        this.report('gap', `${place(partition)} offset ${offset}: created later than a record behind it`);
      }
      createdBehind = record.createdAt;
    }
    for (const [key, intent] of partition.intents) {
      const attempts = intent.operations.filter((operation) => operation.outcome !== 'refused').length;
      if (intent.recordCount > attempts) {
        const what = `${place(partition)} ${key}: there ${intent.recordCount} times`;
        this.report('invented', `${what}, pushed ${attempts} times without being refused`);
      }
    }
  }

  private auditGroup(partition: PartitionHistory, cursor: CursorHistory, last: number): void {
    const facts = this.groupFacts(partition.queue, cursor.group);
    auditCursor({
      cursor,
      start: facts.start,
      retryLimit: this.queueFacts(partition.queue).retryLimit,
      filesDeadLetters: this.queueFacts(partition.queue).filesDeadLetters,
      deadLettersListed: this.deadLettersListed.has(partition.queue),
      drainedThrough: facts.drained ? last : -1,
      lostPops: facts.lostPops,
      extensionsOf: (leaseId) => this.extensions.get(leaseId) ?? [],
      toleranceMs: this.toleranceMs,
      report: (rule, text) => this.report(rule, `${place(partition)} group ${cursor.group}: ${text}`),
    });
  }

  private auditNeverDelivered(partition: PartitionHistory, last: number): void {
    for (const [key, facts] of this.groups) {
      const [queue, group] = key.split('\u0000');
      if (queue !== partition.queue || !facts.drained || facts.lossy) continue;
      const delivered = new Uint8Array(last + 1);
      for (const run of partition.cursors.get(group)?.runs ?? [])
        delivered.fill(1, run.firstOffset, run.lastOffset + 1);
      for (let offset = 0; offset <= last; offset++) {
        if (delivered[offset] === 1) continue;
        const record = partition.records.get(offset);
        if (facts.start === 'new' && !((record?.pushBeganAtMs ?? 0) > facts.registeredAtMs)) continue;
        const what = record === undefined ? 'a hole' : `record ${record.transactionId}`;
        this.report('kept', `${place(partition)} offset ${offset}, ${what}, was never delivered to ${group}`);
      }
    }
  }

  /** All that was seen of one partition, one line per event, oldest first: for the message of a failed test. */
  story(queue: string, name: string): string[] {
    const partition = this.partition(queue, name);
    const lines: { atMs: number; text: string }[] = [];
    const span = (operation: Operation): string =>
      `${operation.beganAtMs.toFixed(0)}..${operation.endedAtMs.toFixed(0)} ${operation.outcome}`;
    for (const [key, intent] of partition.intents) {
      for (const push of intent.operations) {
        lines.push({ atMs: push.beganAtMs, text: `${span(push)} push ${key.slice(0, 60)}` });
      }
    }
    for (const record of partition.records.values()) {
      lines.push({ atMs: record.storedByMs, text: `offset ${record.offset} is ${record.transactionId}` });
    }
    for (const cursor of partition.cursors.values()) {
      for (const run of cursor.runs) {
        const text = `${run.firstOffset}-${run.lastOffset} attempt ${run.attempt} lease ${run.leaseId}`;
        lines.push({ atMs: run.pop.beganAtMs, text: `${span(run.pop)} ${cursor.group} got ${text}` });
      }
      for (const target of cursor.targets) {
        const items = target.items.map((item) => {
          const result = item.result;
          const marks = `${result?.noop ? ' noop' : ''}${result?.deadLettered ? ' dlq' : ''}${result?.leaseReleased ? ' released' : ''}`;
          return `${item.offset} ${item.status} → ${result === null ? '?' : (result.error ?? 'ok')}${marks}`;
        });
        const text = `${span(target.operation)} ${cursor.group} ack ${target.leaseId}: ${items.join('; ')}`;
        lines.push({ atMs: target.operation.beganAtMs, text });
      }
      for (const row of cursor.deadLetters) {
        lines.push({ atMs: Number.POSITIVE_INFINITY, text: `dead letter of ${cursor.group}: offset ${row.offset}` });
      }
    }
    return lines.sort((a, b) => (a.atMs < b.atMs ? -1 : 1)).map((line) => line.text);
  }

  /** How much was seen: for the summary line of a run, and so that a test can demand that something happened. */
  counts(): { partitions: number; records: number; runs: number; acks: number; deadLetters: number } {
    const counts = { partitions: this.partitions.size, records: 0, runs: 0, acks: 0, deadLetters: 0 };
    for (const partition of this.partitions.values()) {
      counts.records += partition.records.size;
      for (const cursor of partition.cursors.values()) {
        counts.runs += cursor.runs.length;
        counts.acks += cursor.targets.length;
        counts.deadLetters += cursor.deadLetters.length;
      }
    }
    return counts;
  }

  /** How many records of a queue have been seen, in answers or deliveries. */
  recordCount(queue: string): number {
    let count = 0;
    for (const partition of this.partitions.values()) if (partition.queue === queue) count += partition.records.size;
    return count;
  }

  private noteRecord(
    partition: PartitionHistory,
    offset: number,
    messageId: string,
    transactionId: string,
  ): KnownRecord {
    const what = `${place(partition)} offset ${offset}`;
    const otherOffset = partition.offsetOfTransaction.get(transactionId);
    if (otherOffset !== undefined && otherOffset !== offset) {
      this.report('identity', `${what}: transactionId ${transactionId} is also at offset ${otherOffset}`);
    }
    const messageOffset = partition.offsetOfMessage.get(messageId);
    if (messageOffset !== undefined && messageOffset !== offset) {
      this.report('identity', `${what}: message id ${messageId} is also at offset ${messageOffset}`);
    }
    let record = partition.records.get(offset);
    if (record === undefined) {
      record = {
        offset,
        messageId,
        transactionId,
        payload: null,
        createdAt: null,
        pushBeganAtMs: Number.POSITIVE_INFINITY,
        storedByMs: Number.POSITIVE_INFINITY,
      };
      partition.records.set(offset, record);
      partition.offsetOfTransaction.set(transactionId, offset);
      partition.offsetOfMessage.set(messageId, offset);
    } else if (record.messageId !== messageId || record.transactionId !== transactionId) {
      this.report('identity', `${what}: assigned twice, to ${record.transactionId} and to ${transactionId}`);
    }
    return record;
  }

  private intent(item: PushItem): Intent {
    const partition = this.partition(item.queue, item.partition);
    const key = item.transactionId === null ? `payload:${item.payload}` : `id:${item.transactionId}`;
    let intent = partition.intents.get(key);
    if (intent === undefined) {
      intent = { payloads: new Set(), operations: [], queuedCount: 0, recordCount: 0 };
      partition.intents.set(key, intent);
    }
    intent.payloads.add(item.payload);
    return intent;
  }

  private partition(queue: string, name: string): PartitionHistory {
    const key = keyOf(queue, name);
    let partition = this.partitions.get(key);
    if (partition === undefined) {
      partition = new PartitionHistory(queue, name);
      this.partitions.set(key, partition);
    }
    return partition;
  }

  private queueFacts(queue: string): QueueFacts {
    return this.queues.get(queue) ?? defaultQueueFacts;
  }

  private groupFacts(queue: string, group: string): GroupFacts {
    const key = keyOf(queue, group);
    if (!this.groups.has(key)) this.declareGroup(queue, group, 'all');
    return this.groups.get(key) as GroupFacts;
  }

  private opened(): Operation {
    return { beganAtMs: this.nowMs(), endedAtMs: Number.POSITIVE_INFINITY, outcome: 'open' };
  }

  private close(operation: Operation, outcome: 'answered' | 'refused' | 'unknown'): void {
    operation.endedAtMs = this.nowMs();
    operation.outcome = outcome;
  }

  private report(rule: string, text: string): void {
    this.findingCount++;
    if (this.findings.length < findingsMax) this.findings.push(`${rule}: ${text}`);
  }
}

function place(partition: PartitionHistory): string {
  return `${partition.queue}/${partition.name}`;
}

function lastOffsetOf(partition: PartitionHistory): number {
  let last = -1;
  for (const offset of partition.records.keys()) last = Math.max(last, offset);
  return last;
}

function intentOf(partition: PartitionHistory, record: KnownRecord): Intent | undefined {
  const named = partition.intents.get(`id:${record.transactionId}`);
  if (named !== undefined || record.transactionId !== record.messageId) return named;
  return partition.intents.get(`payload:${record.payload}`);
}

/** Another push of the same, or an earlier item of this one, may have stored it. */
function mayBeStoredBefore(intent: Intent, operation: PushOperation): boolean {
  const others = intent.operations.filter((other) => other !== operation);
  const repeatsItself = intent.operations.length - others.length > 1;
  return repeatsItself || others.some((other) => other.outcome !== 'refused');
}

function firstBegin(intent: Intent): number {
  return intent.operations.length === 0 ? Number.POSITIVE_INFINITY : intent.operations[0].beganAtMs;
}
