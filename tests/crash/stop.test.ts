/** Stopping, freezing and doubling a real broker: what clients see at the edges of its life. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Answer, freshName, type Message, type PopBody, type PushResult, popPath } from '../e2e/broker-client.ts';
import { BrokerProcess } from '../e2e/broker-process.ts';
import { passed } from '../e2e/clock.ts';
import { serving } from './serving.ts';

/** Names and sizes of all files below a folder. */
async function filesIn(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  const rows = await Promise.all(
    names.map(async (name) => {
      const facts = await stat(join(folder, name));
      return `${name} ${facts.isDirectory() ? 'folder' : facts.size}`;
    }),
  );
  return rows.sort();
}

describe('the edges of a broker’s life', { concurrency: true }, () => {
  // S-084
  it('a second broker on a data folder refuses at once and touches nothing', async (context) => {
    await serving({}, async (first) => {
      await first.client.pushAll('q', 'p', ['one', 'two']);
      const before = await filesIn(first.dataFolder);
      const second = await BrokerProcess.prepare({ dataFolder: first.dataFolder });
      const refused = await second.launchToExit(10_000);
      assert.equal(refused.signal, null, `the second broker went on:\n${refused.output}`);
      assert.notEqual(refused.code, 0);
      assert.ok(refused.output.includes(first.dataFolder), `the folder is named:\n${refused.output}`);
      assert.match(refused.output, /in use by another/);
      assert.ok(!refused.output.includes('\n    at '), `a message for people, no stack:\n${refused.output}`);
      context.diagnostic(`refused after ${Math.round(refused.tookMs)} ms`);
      assert.deepEqual(await filesIn(first.dataFolder), before);
      await first.client.pushAll('q', 'p', ['three']);
      await first.kill();
      // No manual step after a kill, and no second chance needed.
      await first.launch();
      const messages = await first.client.pop('q', { batch: 10 });
      assert.deepEqual(
        messages.map((message) => message.data),
        ['one', 'two', 'three'],
      );
    });
  });

  // S-084
  it('of several brokers that start on one folder at the same moment exactly one serves', async () => {
    const dataFolder = await mkdtemp(join(tmpdir(), 'lanemq-crash-'));
    const brokers = await Promise.all([0, 1, 2, 3].map(() => BrokerProcess.prepare({ dataFolder })));
    const outcomes = await Promise.allSettled(brokers.map((broker) => broker.launch()));
    const winners = brokers.filter((_, index) => outcomes[index].status === 'fulfilled');
    for (const winner of winners) await winner.kill();
    await rm(dataFolder, { recursive: true, force: true });
    assert.equal(winners.length, 1);
  });

  // S-032
  it('SIGTERM answers 500 parked pops, leases nothing to them, keeps leases and accepted pushes, and exits 0', async () => {
    await serving({}, async (broker) => {
      const { client } = broker;
      const leased = freshName('leased');
      const busy = freshName('busy');
      const partitions = Array.from({ length: 50 }, (_, index) => `p${index}`);
      await client.push(partitions.map((partition) => ({ queue: leased, partition, payload: partition })));
      const leases: Message[] = [];
      for (let i = 0; i < 50; i++) leases.push(...(await client.pop(leased, { batch: 1, leaseSeconds: 120 })));
      assert.equal(leases.length, 50);
      const parked = Array.from({ length: 500 }, () =>
        client.request<PopBody>('GET', popPath(busy, { waitMs: 30_000, leaseSeconds: 120 })),
      );
      await client.pop(busy);

      const stoppedAt = performance.now();
      const exit = broker.signal('SIGTERM');
      const accepted: string[] = [];
      const handedOut: string[] = [];
      const pushing = (async (): Promise<void> => {
        for (let i = 0; ; i++) {
          const answer = await client
            .request<PushResult[]>('POST', '/api/v1/push', {
              json: { items: [{ queue: busy, partition: `n${i}`, transactionId: `n${i}`, payload: `n${i}` }] },
            })
            .catch(() => null);
          if (answer === null) return;
          if (answer.status === 201) accepted.push(`n${i}`);
          else assert.equal(answer.status, 503, answer.bytes.toString());
        }
      })();
      const answers = await Promise.allSettled(parked);
      const answeredMs = performance.now() - stoppedAt;
      for (const settled of answers) {
        assert.equal(settled.status, 'fulfilled', 'a parked pop is answered, not cut');
        const answer = (settled as PromiseFulfilledResult<Answer<PopBody>>).value;
        // A push that came before the signal was taken may still have been given to a waiter: that one holds it rightly.
        if (answer.status === 200) handedOut.push(...answer.body.messages.map((message) => message.transactionId));
        else assert.ok(answer.status === 204 || answer.status === 503, `a parked pop was answered ${answer.status}`);
      }
      assert.ok(answeredMs < 1000, `the parked pops were answered within 1 s, took ${answeredMs}`);
      await pushing;
      const ended = await exit;
      const exitMs = performance.now() - stoppedAt;
      assert.deepEqual(ended, { code: 0, signal: null }, broker.output);
      assert.ok(exitMs < 5000, `exit within 5 s, took ${exitMs}`);

      await serving({ dataFolder: broker.dataFolder }, async (again) => {
        const found: Message[] = [];
        for (let batch = await again.client.pop(busy, { batch: 500, partitions: 64 }); batch.length > 0; ) {
          found.push(...batch);
          batch = await again.client.pop(busy, { batch: 500, partitions: 64 });
        }
        for (const message of found)
          assert.equal(message.deliveryAttempt, 1, 'no lease was given to a pop that was ended');
        const there = new Set([...handedOut, ...found.map((message) => message.transactionId)]);
        for (const id of accepted) assert.ok(there.has(id), `the accepted push ${id} is there`);
        assert.equal(new Set(found.map((message) => message.transactionId)).size, found.length);
        assert.deepEqual(await again.client.pop(leased, { batch: 100, partitions: 64 }), [], 'the leases are live');
        const acks = await again.client.ack(leases);
        assert.ok(acks.every((ack) => ack.success && !ack.noop));
      });
    });
  });

  // S-057
  it('after a freeze exactly one of the holder’s ack and the next pop counts, and parked pops wake at once', async () => {
    await serving({}, async (broker) => {
      const { client } = broker;
      for (const frozenMs of [500, 930, 1400]) {
        const queue = freshName('frozen');
        const partitions = Array.from({ length: 40 }, (_, index) => `p${index}`);
        await client.push(partitions.map((partition) => ({ queue, partition, payload: partition })));
        const held: Message[] = [];
        for (const partition of partitions) held.push(...(await client.pop(queue, { partition, leaseSeconds: 1 })));
        assert.equal(held.length, 40);
        const parkedOn = held.slice(0, 5).map((message) => message.partition);
        const parked = parkedOn.map(async (partition) => {
          const messages = await client.pop(queue, { partition, waitMs: 4000 });
          return { messages, answeredAt: performance.now() };
        });
        await client.pop(queue);
        await broker.freeze();
        await passed(frozenMs);
        broker.thaw();
        const thawedAt = performance.now();
        const racing = held.slice(5);
        const acks = racing.map((message) => client.ackOne(message));
        const pops = racing.map(({ partition }) => client.pop(queue, { partition, waitMs: 1200 }));
        const ackResults = await Promise.all(acks);
        const popResults = await Promise.all(pops);
        for (let i = 0; i < racing.length; i++) {
          const outcome = `ack ${ackResults[i].success ? 'counted' : 'refused'}, pop got ${popResults[i].length}`;
          assert.equal(popResults[i].length, ackResults[i].success ? 0 : 1, `after ${frozenMs} ms: ${outcome}`);
          if (popResults[i].length === 1) assert.equal(popResults[i][0].deliveryAttempt, 2);
        }
        for (const { messages, answeredAt } of await Promise.all(parked)) {
          assert.equal(messages.length, 1, 'a parked pop got the message');
          // The leases ran out during the long freeze, so the parked pops had nothing left to wait for.
          const tookMs = answeredAt - thawedAt;
          if (frozenMs > 1000) assert.ok(tookMs < 500, `a parked pop was answered ${tookMs} ms after the freeze`);
        }
      }
    });
  });
});
