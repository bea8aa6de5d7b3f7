/**
 * A consumer process that can be killed: handles what it gets and tells its parent what it did and what the broker
 * confirmed. Started by processes.test.ts with the addresses, the queue and how long a message takes, as JSON.
 */
import { LaneClient } from '@lanemq/client';

export interface WorkerTask {
  readonly urls: readonly string[];
  readonly queue: string;
  readonly handleMs: number;
}

/** Told of each message: when its handler began, and when its ack was confirmed. */
export interface WorkerNote {
  readonly kind: 'handled' | 'acked';
  readonly transactionIds: readonly string[];
}

const task: WorkerTask = JSON.parse(process.argv[2] ?? 'null');
const tell = (note: WorkerNote) => process.send?.(note);
process.on('disconnect', () => process.exit(0));

const client = new LaneClient({ urls: task.urls, retryDelayMillis: 50 });
await client
  .queue(task.queue)
  .group('g')
  .subscriptionMode('all')
  .leaseSeconds(1)
  .batch(10)
  .partitions(2)
  .concurrency(4)
  .consume(async (messages) => {
    tell({ kind: 'handled', transactionIds: messages.map(({ transactionId }) => transactionId) });
    await new Promise((resolve) => setTimeout(resolve, task.handleMs));
  })
  .onSuccess(async (messages) => {
    // The program acks, so that it knows what was confirmed.
    const { results } = await client.ack(messages);
    const acked = messages.filter((_, index) => results[index].success);
    tell({ kind: 'acked', transactionIds: acked.map(({ transactionId }) => transactionId) });
  });
