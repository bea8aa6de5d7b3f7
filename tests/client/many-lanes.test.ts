/** Many partitions with many handlers, and consumers that have nothing to do. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

let broker: BrokerProcess;
let client: LaneClient;

before(async () => {
  broker = await BrokerProcess.start();
  client = new LaneClient({ url: broker.url });
});

after(async () => {
  await client.close();
  await broker.dispose();
});

test('1,000 partitions keep their order with 50 handlers at once, and no partition is with two of them', {
  timeout: 60_000,
}, async () => {
  const partitions = 1000;
  const perPartition = 10;
  const queue = client.queue<number>('many-lanes').group('g').subscriptionMode('all');
  const names = Array.from({ length: partitions }, (_, n) => `lane-${n}`);
  for (let at = 0; at < partitions; at += 50) {
    const some = names.slice(at, at + 50);
    await Promise.all(
      some.map((name) => queue.partition(name).push(Array.from({ length: perPartition }, (_, n) => n))),
    );
  }
  const next = new Map<string, number>(names.map((name) => [name, 0]));
  const troubles: unknown[] = [];
  const busy = new Set<string>();
  let running = 0;
  let runningMax = 0;
  await queue
    .concurrency(50)
    .batch(20)
    .partitions(2)
    .each()
    .limit(partitions * perPartition)
    .consume(
      async ({ partition, offset, data }) => {
        assert.ok(!busy.has(partition), `${partition} is handled twice at once`);
        assert.equal(data, next.get(partition), `${partition} is out of order`);
        assert.equal(offset, data);
        busy.add(partition);
        running += 1;
        runningMax = Math.max(runningMax, running);
        await new Promise((resolve) => setTimeout(resolve, 1));
        running -= 1;
        busy.delete(partition);
        next.set(partition, data + 1);
      },
      { onTrouble: (error) => troubles.push(error) },
    );
  assert.deepEqual(troubles, []);
  assert.ok([...next.values()].every((count) => count === perPartition));
  assert.ok(runningMax > 25, `only ${runningMax} handlers ran at once`);
  assert.equal((await client.admin.getQueueDepth('many-lanes', 'g')).pending, 0);
});

test('an idle consumer costs one waiting request, however many handlers it may run', async () => {
  const stop = new AbortController();
  const idle = Array.from({ length: 5 }, (_, n) =>
    client
      .queue(`idle-${n}`)
      .concurrency(50)
      .timeoutMillis(30_000)
      .consume(() => {}, { signal: stop.signal }),
  );
  await new Promise((resolve) => setTimeout(resolve, 500));
  const before = await client.admin.metrics();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const after = await client.admin.metrics();
  assert.equal(after['parkedPops'], 5);
  assert.equal(after['popRequests'], before['popRequests'], 'somebody polls');
  stop.abort();
  await Promise.all(idle);
});
