/** Field scenarios G: what retention removes, what it leaves, and what groups see of it. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type BrokerClient, freshName } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { passed } from './clock.ts';

/** Passes come about every five seconds. */
const removedWithinMs = 20_000;

/** Waits until the queue holds this many messages. */
async function holds(client: BrokerClient, queue: string, total: number): Promise<void> {
  const endsAt = performance.now() + removedWithinMs;
  for (;;) {
    const { messages } = (await client.queueRow(queue)) ?? {};
    if (messages?.total === total) return;
    assert.ok(performance.now() < endsAt, `${queue} holds ${messages?.total}, not ${total}`);
    await passed(200);
  }
}

const aged = { retentionEnabled: true, retentionSeconds: 2 };

describe('retention in the field', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // B-RET-1, S-047
  it('removes what is older than retentionSeconds, without any traffic', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { ...aged, completedRetentionSeconds: 1 });
    await broker.client.pushAll(
      queue,
      'p',
      Array.from({ length: 100 }, (_, i) => i),
    );
    await holds(broker.client, queue, 0);
    assert.deepEqual(await broker.client.pop(queue), []);
    const [next] = await broker.client.pushAll(queue, 'p', ['next']);
    assert.equal(next.offset, 100);
    assert.equal((await broker.client.pop(queue)).length, 1);
  });

  // S-045
  it('lets a group that fell behind go on with the oldest kept message, counts the loss, and shows no lag for it', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retentionEnabled: true, retentionSeconds: 8 });
    await broker.client.pushAll(queue, 'p', [0]);
    const [first] = await broker.client.pop(queue, { group: 'slow', mode: 'all' });
    await broker.client.ack([first]);
    const missedBefore = Number((await broker.client.metrics())['missedRecords']);
    for (let n = 1; n < 5; n++) await broker.client.pushAll(queue, 'p', [n]);
    await passed(6000);
    for (let n = 5; n < 8; n++) await broker.client.pushAll(queue, 'p', [n]);
    await holds(broker.client, queue, 3);
    assert.equal((await broker.client.queueRow(queue))?.messages.pending, 3);
    assert.equal(Number((await broker.client.metrics())['missedRecords']) - missedBefore >= 4, true);
    const kept = await broker.client.pop(queue, { group: 'slow', batch: 10 });
    assert.deepEqual(
      kept.map(({ data }) => data),
      [5, 6, 7],
    );
  });

  // S-048
  it('is not held back by a group that never moves', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, aged);
    await broker.client.pop(queue, { group: 'zombie', mode: 'all' });
    await broker.client.pushAll(queue, 'p', [1, 2, 3]);
    await holds(broker.client, queue, 0);
  });

  // S-049
  it('goes by the time of the broker, whatever a client says about time', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, aged);
    const year = 365 * 86_400_000;
    const payloads = [Date.now() + year, Date.now() - year].map((ms) => ({
      createdAt: new Date(ms).toISOString(),
      timestamp: ms,
    }));
    await broker.client.pushAll(queue, 'p', payloads);
    assert.equal((await broker.client.queueRow(queue))?.messages.total, 2);
    await holds(broker.client, queue, 0);
  });

  // S-018
  it('leaves dead letters readable, also after a restart', async () => {
    const own = await BrokerProcess.start();
    try {
      const queue = freshName('q');
      await own.client.configure(queue, aged);
      await own.client.pushAll(queue, 'p', [{ bad: 'x'.repeat(1000) }]);
      await own.client.ack(await own.client.pop(queue, { group: 'g', mode: 'all' }), 'dlq', 'spoilt');
      await holds(own.client, queue, 0);
      await own.killAndRestart();
      const { messages } = await own.client.deadLetters<{ bad: string }>({ queue });
      assert.equal(messages.length, 1);
      assert.equal(messages[0].data.bad.length, 1000);
      assert.equal(messages[0].offset, 0);
    } finally {
      await own.dispose();
    }
  });
});
