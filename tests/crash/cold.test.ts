/** What a restart left on disk alone: it is delivered like anything else, whatever the size of the pops. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { freshName, type Message, type PopOptions } from '../e2e/broker-client.ts';
import type { BrokerProcess } from '../e2e/broker-process.ts';
import { serving } from './serving.ts';

const partitionCount = 3;
const recordCount = 90;
const args = ['--segment-bytes', '64KiB', '--snapshot-log-bytes', '64KiB', '--cold-bytes', '1MiB'];

describe('messages that are on disk alone', () => {
  it('are delivered by pops of every size, and no pop says "nothing" before the last', async () => {
    await serving({ args }, async (broker) => {
      const queue = freshName('cold');
      await fill(broker, queue);
      for (const batch of [3, 20, 50, 75, 10_000]) {
        await broker.killAndRestart();
        await readAll(broker, queue, { group: `b${batch}`, mode: 'all', batch, partitions: 64, autoAck: true });
        await readAll(broker, queue, { group: `o${batch}`, mode: 'all', batch, partitions: 1, autoAck: true });
      }
    });
  });

  it('are delivered to groups that read at the same time at different places', async () => {
    await serving({ args }, async (broker) => {
      const queue = freshName('cold');
      await fill(broker, queue);
      await broker.killAndRestart();
      const reads = [1, 3, 9, 40, 300].map((batch) =>
        readAll(broker, queue, { group: `g${batch}`, mode: 'all', batch, partitions: 3 }),
      );
      await Promise.all(reads);
    });
  });
});

async function fill(broker: BrokerProcess, queue: string): Promise<void> {
  for (let n = 0; n < recordCount; n++) {
    // One push each, so that the partitions' records take turns in the log.
    for (let p = 0; p < partitionCount; p++) {
      const payload = `p${p}-${n}-${'x'.repeat(700)}`;
      await broker.client.push([{ queue, partition: `p${p}`, transactionId: `p${p}-${n}`, payload }]);
    }
  }
}

/** Pops without waiting until a pop is empty; all must have been there by then, in order. */
async function readAll(broker: BrokerProcess, queue: string, options: PopOptions): Promise<void> {
  const next = new Map<string, number>();
  let found = 0;
  for (;;) {
    const messages: Message<string>[] = await broker.client.pop(queue, options);
    if (messages.length === 0) break;
    for (const message of messages) {
      const n = next.get(message.partition) ?? 0;
      assert.equal(message.offset, n);
      assert.ok(message.data.startsWith(`${message.partition}-${n}-`), 'the payload is that of its place');
      next.set(message.partition, n + 1);
    }
    found += messages.length;
    if (options.autoAck !== true) await broker.client.ack(messages);
  }
  assert.equal(found, partitionCount * recordCount, `${JSON.stringify(options)}: an empty pop after ${found} messages`);
}
