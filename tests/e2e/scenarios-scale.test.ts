/** Field scenarios L and M at a small size, and S-084: large payloads, counters, full queues, things that come and go. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { chooseSeed, SeededRandom } from '../crash/seeded-random.ts';
import { ackOf, freshName, type Message, type MessageCounts, type PopBody, popPath } from './broker-client.ts';
import { BrokerProcess, sized, slow } from './broker-process.ts';
import { passed } from './clock.ts';

const miB = 1024 * 1024;

async function withBroker(args: readonly string[], work: (broker: BrokerProcess) => Promise<void>): Promise<void> {
  const broker = await BrokerProcess.start({ args });
  try {
    await work(broker);
  } finally {
    await broker.dispose();
  }
}

describe('at the limits', { concurrency: 2 }, () => {
  // S-074; contract 14.1: request body 64 MiB
  it('delivers, files and lists the largest payload it accepts, and then what lies behind it', () =>
    withBroker([], async ({ client }) => {
      const queue = freshName('q');
      const head = `{"items":[{"queue":${JSON.stringify(queue)},"partition":"p","transactionId":"big","payload":"`;
      const tail = '"}]}';
      const payloadBytes = 64 * miB - head.length - tail.length;
      const body = Buffer.alloc(64 * miB, 'x');
      body.write(head, 0);
      body.write(tail, 64 * miB - tail.length);
      const pushed = await client.request('POST', '/api/v1/push', { bytes: body });
      assert.equal(pushed.status, 201);
      await client.pushAll(queue, 'p', ['small1', 'small2']);

      const expected = 'x'.repeat(payloadBytes);
      for (const batch of [1, 1000]) {
        const options = { group: `g${batch}`, mode: 'all', batch };
        const got: unknown[] = [];
        for (;;) {
          const messages = await client.pop(queue, options);
          if (messages.length === 0) break;
          got.push(
            ...messages.map((message) => (message.transactionId === 'big' ? message.data === expected : message.data)),
          );
          await client.ack(messages);
        }
        assert.deepEqual(got, [true, 'small1', 'small2']);
      }
      const messages = await client.pop(queue, { batch: 1 });
      assert.equal((await client.ackOne(messages[0], 'dlq', 'too big')).dlq, true);
      const page = await client.deadLetters<string>({ queue });
      assert.ok(page.messages[0].data === expected);
      assert.deepEqual(
        (await client.pop(queue)).map((message) => message.data),
        ['small1', 'small2'],
      );
    }));

  // S-080
  it('leaves nothing behind of queues that are created and deleted in a loop', () =>
    withBroker([], async (broker) => {
      const { client } = broker;
      const cycle = async (number: number): Promise<void> => {
        const queue = `loop-${number}`;
        await client.configure(queue, { leaseTime: 10 });
        await client.pushAll(queue, 'p', ['a', 'b']);
        const messages = await client.pop(queue, { group: `g-${number}`, mode: 'all' });
        await client.ackItems(`g-${number}`, [ackOf(messages[0]), ackOf(messages[1], 'dlq')]);
        await client.deleteQueue(queue);
      };
      const facts = async () => {
        const text = (await client.request('GET', '/metrics/prometheus')).bytes.toString();
        return { files: await broker.openFiles(), metricLines: text.split('\n').length };
      };
      for (let i = 0; i < 100; i++) await cycle(i);
      const before = await facts();
      const residentBefore = await broker.residentBytes();
      const count = sized(300, 100_000);
      for (let i = 0; i < count; i++) await cycle(100 + i);
      const after = await facts();
      assert.deepEqual(await client.queues(), []);
      assert.equal((await client.deadLetters({ limit: '1' })).total, 0);
      assert.ok(after.files <= before.files + 4, `${before.files} open files before, ${after.files} after`);
      assert.equal(after.metricLines, before.metricLines);
      const grown = (await broker.residentBytes()) - residentBefore;
      assert.ok(grown < (slow ? 128 : 64) * miB, `memory grew by ${grown} bytes`);
    }));

  // S-082
  it('never counts below zero or more than there is, and counts exactly in the end and after a restart', () =>
    withBroker([], async (broker) => {
      const { client } = broker;
      const seed = chooseSeed('LANEMQ_E2E_SEED');
      const repeat = `repeat with LANEMQ_E2E_SEED=${seed}`;
      const queue = freshName('q');
      const group = { group: 'g', mode: 'all' };
      await client.configure(queue, { retryLimit: 1, leaseTime: 1 });
      let attempted = 0;
      let running = true;
      const check = (counts: MessageCounts): void => {
        for (const [name, value] of Object.entries(counts)) {
          if (value === null) continue;
          assert.ok(Number.isInteger(value) && value >= 0 && value <= attempted, `${name} is ${value}; ${repeat}`);
        }
        assert.ok(counts.pending + counts.processing <= counts.total, repeat);
      };
      const watch = async (): Promise<void> => {
        while (running) {
          const row = await client.queueRow(queue);
          if (row !== undefined) check(row.messages);
          for (const partition of (await client.queueDetail(queue)).partitions) check(partition.stats);
          await passed(100);
        }
      };
      const act = async (worker: number): Promise<void> => {
        const random = new SeededRandom(seed + worker);
        while (running) {
          if (random.chance(40)) {
            const size = random.between(1, 20);
            attempted += size;
            await client.push(
              Array.from({ length: size }, () => ({ queue, partition: `p${random.integer(20)}`, payload: size })),
            );
            continue;
          }
          const messages = await client.pop(queue, {
            ...group,
            batch: random.between(1, 20),
            partitions: random.between(1, 4),
            ...(random.chance(20) ? { autoAck: true } : {}),
          });
          // Every now and then a worker says nothing and lets its lease end.
          if (messages.length === 0 || messages[0].leaseId === '' || random.chance(10)) continue;
          const acked = random.chance(50) ? messages : messages.slice(0, random.between(1, messages.length));
          await client.ackItems(
            'g',
            acked.map((message) =>
              ackOf(message, random.chance(85) ? 'completed' : random.pick(['failed', 'dlq', 'retry'])),
            ),
          );
        }
      };
      const acting = [0, 1, 2, 3].map(act);
      const watching = watch();
      await passed(slow ? 60_000 : 3000);
      running = false;
      await Promise.all([...acting, watching]);

      for (;;) {
        const messages = await client.pop(queue, { ...group, partitions: 64, batch: 1000, waitMs: 1500 });
        if (messages.length === 0) break;
        await client.ack(messages);
      }
      const counts = async (): Promise<MessageCounts | undefined> => (await client.queueRow(queue))?.messages;
      const atEnd = await counts();
      const dead = (await client.deadLetters({ queue })).total;
      assert.deepEqual(
        [atEnd?.total, atEnd?.pending, atEnd?.processing, atEnd?.deadLetter],
        [attempted, 0, 0, dead],
        repeat,
      );
      const consumed = (await client.queueDetail(queue)).partitions.reduce(
        (sum, partition) => sum + partition.stats.total - partition.stats.pending,
        0,
      );
      assert.equal(consumed, attempted);
      await broker.killAndRestart();
      assert.deepEqual(await counts(), atEnd);
      await broker.restart();
      assert.deepEqual(await counts(), atEnd);
    }));

  // S-083
  it('refuses pushes over an explicit maxSize, counting leased messages, and drops nothing stored', () =>
    withBroker([], async (broker) => {
      const { client } = broker;
      const queue = freshName('q');
      await client.configure(queue, { maxSize: 100 });
      const names = Array.from({ length: 100 }, (_, i) => `m${i}`);
      await client.pushAll(queue, 'p', names);
      const push = (items: readonly string[], partition = 'p') =>
        client.request<{ code: string; error: string }>('POST', '/api/v1/push', {
          json: { items: items.map((name) => ({ queue, partition, transactionId: name, payload: name })) },
        });
      const leased = await client.pop(queue, { batch: 50, leaseSeconds: 1 });
      assert.equal(leased.length, 50);
      const refused = await push(Array.from({ length: 50 }, (_, i) => `more${i}`));
      assert.equal(refused.status, 429);
      assert.equal(refused.body.code, 'queue_full');
      assert.match(refused.body.error, /100/);
      assert.ok(Number(refused.headers['retry-after']) >= 1);
      assert.equal((await push(['other partition'], 'q')).status, 429, 'the limit is for the queue');

      // A stored id is a duplicate also when the queue is full.
      const repeat = await client.pushAll(queue, 'p', ['m0', 'm99']);
      assert.deepEqual(
        repeat.map((result) => [result.status, result.offset]),
        [
          ['duplicate', 0],
          ['duplicate', 99],
        ],
      );

      // After the leases ended it is full still; five acks make five places.
      const again: Message[] = await client.pop(queue, { batch: 100, waitMs: 5000 });
      assert.deepEqual(
        again.map((message) => message.data),
        names,
      );
      assert.equal((await push(['one more'])).status, 429);
      await client.ack(again.slice(0, 5));
      const tooMany = await push(Array.from({ length: 10 }, (_, i) => `ten${i}`));
      assert.equal(tooMany.status, 429, 'a batch that does not fit is refused as a whole');
      assert.equal((await client.queueRow(queue))?.messages.total, 100);
      assert.equal((await push(['a', 'b', 'c', 'd', 'e'])).status, 201);
      assert.equal((await push(['f'])).status, 429);
      await broker.killAndRestart();
      assert.equal((await push(['f'])).status, 429, 'the count survives a restart');
      await client.ack(again.slice(5));
      assert.equal((await push(['f'])).status, 201);
      assert.deepEqual(
        (await client.pop(queue)).map((message) => message.data),
        ['a', 'b', 'c', 'd', 'e', 'f'],
      );
    }));

  // S-084: a stale lock, and a process id in it that somebody else has by now
  it('starts after a kill although what the dead process left names a process that lives', () =>
    withBroker([], async (broker) => {
      await broker.client.pushAll('q', 'p', ['a']);
      await broker.kill();
      // The id of this very process: one that is alive and is no broker.
      const left = (await readdir(broker.dataFolder)).includes('lock') ? ['', 'lock'] : [''];
      for (const folder of left) {
        for (const name of ['broker.pid', 'LOCK', '.lock', '12345.new']) {
          await writeFile(join(broker.dataFolder, folder, name), `${process.pid}\n`);
        }
      }
      await broker.launch();
      assert.equal((await broker.client.pop('q')).length, 1);
    }));
});

describe('queue options that work when set explicitly', { concurrency: 8 }, () => {
  // Design 6.6: ttl
  it('skips appends that nobody took within an explicit ttl', () =>
    withBroker([], async ({ client }) => {
      const queue = freshName('q');
      const untouched = freshName('q');
      await client.configure(queue, { ttl: 1 });
      await client.configure(untouched, { ttl: 0 });
      for (const name of [queue, untouched]) await client.pushAll(name, 'p', ['old']);
      await passed(1300);
      await client.pushAll(queue, 'p', ['fresh']);
      const group = { group: 'g', mode: 'all' };
      assert.deepEqual(
        (await client.pop(queue, group)).map((message) => [message.data, message.offset]),
        [['fresh', 1]],
      );
      assert.equal((await client.pop(untouched, group)).length, 1);
    }));

  // Design 6.6: minPopWaitTime
  it('lets a waiting pop collect for minPopWaitTime, but answers a full batch and a plain pop at once', () =>
    withBroker([], async ({ client }) => {
      const queue = freshName('q');
      await client.configure(queue, { minPopWaitTime: 600 });
      const startedAt = performance.now();
      const collecting = client.pop(queue, { batch: 10, partitions: 10, waitMs: 10_000 });
      await client.pushAll(queue, 'a', ['a']);
      await passed(200);
      await client.pushAll(queue, 'b', ['b']);
      const messages = await collecting;
      const tookMs = performance.now() - startedAt;
      assert.deepEqual(messages.map((message) => message.data).sort(), ['a', 'b']);
      assert.ok(tookMs >= 550 && tookMs < 1500, `collected for ${tookMs} ms`);
      await client.ack(messages);

      await client.pushAll(queue, 'a', ['c']);
      const fullAt = performance.now();
      assert.equal((await client.pop(queue, { batch: 1, waitMs: 10_000 })).length, 1);
      await client.pushAll(queue, 'b', ['d']);
      assert.equal((await client.pop(queue, { batch: 10 })).length, 1);
      assert.ok(performance.now() - fullAt < 590);
    }));

  // Design 6.6: priority
  it('serves the ready queue of the highest priority first to a discover pop', () =>
    withBroker([], async ({ client }) => {
      const queues = ['low', 'plain', 'high'];
      for (const [name, priority] of [
        ['low', -5],
        ['plain', 0],
        ['high', 7],
      ] as const) {
        await client.configure(name, { priority }, { namespace: 'ns' });
      }
      for (const queue of queues) await client.pushAll(queue, 'p', [queue]);
      const order: unknown[] = [];
      for (let i = 0; i < 3; i++) {
        const [message] = await client.discover({ namespace: 'ns' }, { batch: 1 });
        order.push(message.data);
      }
      assert.deepEqual(order, ['high', 'plain', 'low']);
    }));

  // Design 6.7: encryption
  it('refuses pushes to an encrypted queue without a key, and stores nothing in clear with one', async () => {
    await withBroker([], async ({ client }) => {
      const queue = freshName('q');
      await client.configure(queue, { encryptionEnabled: true });
      const refused = await client.request('POST', '/api/v1/push', { json: { items: [{ queue, payload: 'secret' }] } });
      assert.equal(refused.status, 409);
      assert.equal(refused.body.code, 'encryption_key_missing');
      assert.equal((await client.queueRow(queue))?.messages.total, 0);
    });

    const broker = await BrokerProcess.start({ env: { QUEEN_ENCRYPTION_KEY: 'ab'.repeat(32) } });
    try {
      const { client } = broker;
      const queue = freshName('q');
      const secret = 'a-secret-that-must-not-lie-on-the-disk';
      const plain = 'a-plain-text-that-may';
      await client.configure(queue, { encryptionEnabled: true });
      await client.push([{ queue, payload: { secret } }]);
      await client.pushAll(`${queue}-plain`, 'p', [plain]);
      await client.ack(await client.pop(queue, { group: 'g', mode: 'all' }), 'dlq');
      await broker.restart();
      const found = { secret: false, plain: false };
      for (const name of await readdir(broker.dataFolder, { recursive: true, withFileTypes: true })) {
        if (!name.isFile()) continue;
        const bytes = await readFile(join(name.parentPath, name.name));
        found.secret ||= bytes.includes(secret);
        found.plain ||= bytes.includes(plain);
      }
      assert.deepEqual(found, { secret: false, plain: true });
      const answer = await client.request<PopBody>('GET', popPath(queue));
      assert.deepEqual(answer.body.messages[0].data, { secret });
      assert.deepEqual((await client.deadLetters({ queue })).messages[0].data, { secret });
    } finally {
      await broker.dispose();
    }
  });
});
