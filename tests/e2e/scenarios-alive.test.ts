/** Field scenarios G, J and M about what is alive: work, time and disk follow it, and not what has been. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BrokerClient, freshName, type PushItem } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { passed, timed } from './clock.ts';

async function withBroker(work: (broker: BrokerProcess) => Promise<void>): Promise<void> {
  const broker = await BrokerProcess.start();
  try {
    await work(broker);
  } finally {
    await broker.dispose();
  }
}

const pushBatch = 5000;

/** One message in each of `count` partitions. */
async function pushEach(client: BrokerClient, queue: string, count: number, messages = 1): Promise<void> {
  const items: PushItem[] = [];
  for (let i = 0; i < count; i++) {
    for (let n = 0; n < messages; n++) items.push({ queue, partition: `p${i}`, payload: n });
    if (items.length < pushBatch && i < count - 1) continue;
    await client.push(items);
    items.length = 0;
  }
}

async function metric(client: BrokerClient, name: string): Promise<number> {
  return Number((await client.metrics())[name]);
}

describe('what is alive', { concurrency: 2 }, () => {
  // S-046
  it('gives ten groups whole messages in order while retention takes the oldest from under them', () =>
    withBroker(async ({ client }) => {
      const queue = freshName('q');
      await client.configure(queue, { retentionEnabled: true, retentionSeconds: 3 });
      const total = sized(20_000, 1_000_000);
      const endsAt = performance.now() + sized(13_000, 60_000);
      let pushed = 0;
      const produce = async (): Promise<void> => {
        while (performance.now() < endsAt) {
          const count = Math.ceil(total / 50);
          await client.push(
            Array.from({ length: count }, (_, i) => ({
              queue,
              partition: 'p',
              payload: { n: pushed + i, x: 'y'.repeat(50) },
            })),
          );
          pushed += count;
          await passed(200);
        }
      };
      let holes = 0;
      const consume = async (group: string, pauseMs: number): Promise<void> => {
        let next = 0;
        while (performance.now() < endsAt) {
          const messages = await client.pop<{ n: number; x: string }>(queue, { group, mode: 'all', batch: 1000 });
          if (messages.length > 0) {
            assert.ok(messages[0].offset >= next, `${group} goes forward`);
            if (messages[0].offset > next) holes++;
            next = messages[0].offset;
            for (const { offset, data } of messages)
              assert.deepEqual([offset, data.n, data.x.length], [next, next++, 50]);
            const results = await client.ack(messages);
            assert.ok(results.every(({ success }) => success));
          }
          await passed(pauseMs);
        }
      };
      const groups = Array.from({ length: 10 }, (_, i) => consume(`g${i}`, i < 7 ? 100 : 2500));
      await Promise.all([produce(), ...groups]);
      assert.ok(holes > 0, 'slow groups lost what was too old');
      assert.ok((await metric(client, 'expiredRecords')) > 0);
      assert.ok((await metric(client, 'missedRecords')) > 0, 'and that is reported');
    }));

  // S-064
  it('is what a start after a kill takes its time for; the first pop and push are answered at once', () =>
    withBroker(async (broker) => {
      const { client } = broker;
      const queue = freshName('q');
      const partitions = sized(20_000, 1_000_000);
      await pushEach(client, queue, partitions, sized(5, 20));
      for (const group of ['g1', 'g2', 'g3', 'g4', 'g5']) {
        const messages = await client.pop(queue, { group, mode: 'all', partitions: 64, batch: 64, leaseSeconds: 600 });
        assert.ok(messages.length > 0);
      }
      await client.push(
        Array.from({ length: sized(1000, 100_000) }, (_, i) => ({
          queue,
          partition: `d${i}`,
          payload: i,
          delayMs: 3_600_000,
        })),
      );
      await broker.kill();
      const { tookMs } = await timed(broker.launch());
      assert.ok(tookMs < 30_000, `ready after ${tookMs} ms`);
      const first = await timed(client.pop(queue, { group: 'g1', partitions: 10, batch: 50 }));
      assert.ok(first.result.length > 0);
      assert.ok(first.tookMs < 2000, `the first pop took ${first.tookMs} ms`);
      const push = await timed(client.pushAll(queue, 'p0', ['one more']));
      assert.equal(push.result[0].offset, sized(5, 20));
      assert.ok(push.tookMs < 2000, `the first push took ${push.tookMs} ms`);
    }));

  // S-065
  it('is nothing of a group that has nothing to do: its pops write nothing, whatever comes elsewhere', () =>
    withBroker(async ({ client }) => {
      const busy = freshName('busy');
      const idle = freshName('idle');
      await client.configure(idle, {});
      await client.pop(idle, { group: 'g', mode: 'all' });
      const before = await metric(client, 'logTail');
      for (let i = 0; i < 200; i++) assert.deepEqual(await client.pop(idle, { group: 'g' }), []);
      assert.deepEqual(await client.pop(idle, { group: 'g', partition: 'none' }), []);
      assert.deepEqual(await client.pop(idle, { group: 'g', waitMs: 50 }), []);
      assert.equal(await metric(client, 'logTail'), before);
      const payloads = Array.from({ length: 100 }, (_, i) => i);
      const grown = async (round: () => Promise<unknown>): Promise<number> => {
        const from = await metric(client, 'logTail');
        for (let i = 0; i < sized(50, 10_000); i++) {
          await client.pushAll(busy, 'p', payloads);
          await round();
        }
        return (await metric(client, 'logTail')) - from;
      };
      await client.pushAll(busy, 'p', payloads);
      const alone = await grown(async () => undefined);
      const beside = await grown(() => client.pop(idle, { group: 'g' }));
      assert.ok(Math.abs(beside - alone) < alone / 100, `${beside} bytes, and ${alone} without the group`);
    }));

  // S-081
  it('is found without a walk over what was removed or cancelled before it', () =>
    withBroker(async ({ client }) => {
      const queue = freshName('q');
      const partitions = sized(20_000, 1_000_000);
      await client.configure(queue, { maxWaitTimeSeconds: 1 });
      await pushEach(client, queue, partitions);
      for (let n = 0; n < sized(100_000, 5_000_000); n += pushBatch) {
        await client.pushAll(
          queue,
          'long',
          Array.from({ length: pushBatch }, (_, i) => n + i),
        );
      }
      await passed(1500);
      const endsAt = performance.now() + sized(60_000, 300_000);
      while ((await client.queueRow(queue))?.messages.total !== 0) {
        assert.ok(performance.now() < endsAt, 'what is too old is removed');
        await passed(200);
      }
      await client.configure(queue, { maxWaitTimeSeconds: 0 });
      const due = await client.push(
        Array.from({ length: sized(300, 5000) }, () => ({
          queue,
          partition: 'long',
          payload: 'cancelled',
          delayMs: 3_600_000,
        })),
      );
      for (const { message_id } of due) {
        assert.equal((await client.request('DELETE', `/api/v1/due/${message_id}`)).status, 200);
      }
      const alive = [...Array.from({ length: 9 }, (_, i) => `p${i * Math.floor(partitions / 9)}`), 'long'];
      await client.push(alive.map((partition) => ({ queue, partition, payload: partition })));
      const got: unknown[] = [];
      const { tookMs } = await timed(
        (async () => {
          for (;;) {
            const messages = await client.pop(queue, {
              group: 'g',
              mode: 'all',
              partitions: 10,
              batch: 100,
              waitMs: 500,
            });
            if (messages.length === 0) break;
            got.push(...messages.map(({ data }) => data));
            await client.ack(messages);
          }
        })(),
      );
      assert.deepEqual(got.sort(), [...alive].sort());
      assert.ok(tookMs < sized(2000, 10_000), `${tookMs} ms`);
    }));
});
