/** queue/v1 on a shard. */
import { limits } from '@lanemq/protocol';
import { type ScannedEnqueue, scanEnqueueBody } from '../codec/mod.ts';
import {
  decideCommit,
  decideCreateEdgeQueue,
  decideDeleteEdgeQueue,
  decideEnqueue,
  decidePurge,
  decideSetEdgeQueueActive,
  type EdgeItems,
  type EdgeTableRecord,
  type EnqueueOutcome,
  edgeQueueLimits,
  listQueueDepths,
  type PollCommand,
  type QueueDepth,
  type Refusal,
  showEdgeQueue,
  showQueueDepth,
} from '../core/mod.ts';
import type { EdgeHost } from './edge-host.ts';
import type { ReadReply } from './edge-read.ts';
import type { Reply } from './engine.ts';
import { isRefusal, SimpleOperation } from './operations.ts';
import { type PolledPage, PollOperation, PollWaiters } from './poll-operation.ts';

export const edgeDiskFull: Refusal = {
  ok: false,
  code: 'storage_full',
  message: 'the disk is over its watermark: nothing was stored',
  retryAfterSeconds: 1,
};

export class EdgeQueues {
  readonly #host: EdgeHost;
  readonly #waiters = new PollWaiters();
  readonly #entropy = new Uint8Array(10);

  constructor(host: EdgeHost) {
    this.#host = host;
  }

  #run<Outcome extends object>(decide: () => Outcome | Refusal, reply: Reply<Outcome>): void {
    this.#host.submit(new SimpleOperation<Outcome>(decide, reply));
  }

  /** @param seqMayBeString a seq may also be a string of its digits. */
  scan(body: Uint8Array, seqMayBeString: boolean): ScannedEnqueue {
    const { enqueueMessagesMax, valueBytesMax, dedupIdLengthMax } = edgeQueueLimits;
    const bounds = {
      jsonDepthMax: limits.jsonDepthMax,
      messagesMax: enqueueMessagesMax,
      valueBytesMax,
      dedupIdLengthMax,
      seqMayBeString,
    };
    return scanEnqueueBody(body, bounds, this.#host.store().hasher);
  }

  create(command: Parameters<typeof decideCreateEdgeQueue>[1], reply: Reply<EdgeTableRecord>): void {
    this.#run(() => decideCreateEdgeQueue(this.#host.context(), command), reply);
  }

  get(database: string, queue: string, reply: Reply<EdgeTableRecord>): void {
    this.#run(() => showEdgeQueue(this.#host.context().edges, database, queue), reply);
  }

  list(database: string, reply: Reply<readonly QueueDepth[]>): void {
    this.#run(() => listQueueDepths(this.#host.context(), database), reply);
  }

  depth(database: string, queue: string, reply: Reply<QueueDepth>): void {
    this.#run(() => showQueueDepth(this.#host.context(), database, queue), reply);
  }

  setActive(database: string, queue: string, active: boolean, reply: Reply<EdgeTableRecord>): void {
    this.#run(() => {
      const record = decideSetEdgeQueueActive(this.#host.context(), database, queue, active);
      if (!isRefusal(record)) this.tableChanged(record.number);
      return record;
    }, reply);
  }

  /** Whoever waits for messages of the table looks whether it still may. */
  tableChanged(number: number): void {
    this.#waiters.wakeTable(number);
  }

  delete(database: string, queue: string, reply: Reply<object>): void {
    this.#run(() => decideDeleteEdgeQueue(this.#host.context(), database, queue), reply);
  }

  enqueue(database: string, queue: string, items: EdgeItems, reply: Reply<EnqueueOutcome>): void {
    this.#run(() => {
      if (this.#host.isDiskFull()) return edgeDiskFull;
      this.#host.store().random.fill(this.#entropy);
      const outcome = decideEnqueue(this.#host.context(), database, queue, items, this.#entropy);
      if (!isRefusal(outcome) && this.#waiters.count > 0) this.#waiters.wake(outcome.table, outcome.sources);
      return outcome;
    }, reply);
  }

  commit(command: Parameters<typeof decideCommit>[1], reply: Reply<{ readonly committed: number }>): void {
    this.#run(() => decideCommit(this.#host.context(), command), reply);
  }

  purge(database: string, queue: string, reply: Reply<{ readonly purged: number }>): void {
    this.#run(() => decidePurge(this.#host.context(), database, queue), reply);
  }

  /** @returns what ends its waiting when the client has gone. */
  poll(command: PollCommand, waitMs: number, reply: ReadReply<PolledPage>): () => void {
    const operation = new PollOperation(this.#host, this.#waiters, command, waitMs, reply);
    this.#host.submit(operation);
    return () => operation.cancel();
  }

  // For the shard

  /** Polls that wait, or come to it, answer with what there is: the broker stops. */
  endWaiting(): void {
    this.#waiters.isClosed = true;
    for (const operation of this.#waiters.all()) operation.end();
  }

  /** Polls that wait are refused. */
  dropWaiting(refusal: Refusal): void {
    for (const operation of this.#waiters.all()) operation.drop(refusal);
  }
}
