/** The client on a real broker: everything a program does with it, once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient, type Message } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

let broker: BrokerProcess;
let client: LaneClient;
let queueCount = 0;

before(async () => {
  broker = await BrokerProcess.start();
  client = new LaneClient({ url: broker.url });
});

after(async () => {
  await broker.dispose();
});

interface Job {
  readonly n: number;
}

function freshQueue(group = 'g') {
  queueCount += 1;
  return client.queue<Job>(`client-${queueCount}`).group(group);
}

/** From the beginning, at once, and with a lease that a test does not outlive. */
const fromStart = { subscriptionMode: 'all', timeoutMs: 5000 } as const;

function numbers(messages: readonly Message<Job>[]): number[] {
  return messages.map((message) => message.data.n);
}

test('what is pushed to a partition is popped in order, and gone once it is acked', async () => {
  const queue = freshQueue();
  const lane = queue.partition('p');
  const results = await lane.push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  assert.deepEqual(
    results.map(({ status, offset }) => [status, offset]),
    [
      ['queued', 0],
      ['queued', 1],
      ['queued', 2],
    ],
  );
  const messages = await lane.pop(fromStart);
  assert.deepEqual(numbers(messages), [0, 1, 2]);
  const [first] = messages;
  assert.equal(first.partition, 'p');
  assert.equal(first.consumerGroup, 'g');
  assert.equal(first.transactionId, results[0].transaction_id);
  assert.equal(first.id, results[0].message_id);
  const outcome = await client.ack(messages);
  assert.equal(outcome.success, true);
  assert.equal(outcome.results[2].leaseReleased, true);
  assert.deepEqual(await lane.pop({ ...fromStart, wait: false }), []);
});

test('a push repeated with its transactionId answers duplicate and stores nothing', async () => {
  const lane = freshQueue().partition('p');
  const item = { payload: { n: 1 }, transactionId: 'once' };
  const [first] = await lane.push(item);
  const [second] = await lane.push(item);
  assert.equal(second.status, 'duplicate');
  assert.equal(second.offset, first.offset);
  assert.equal((await lane.pop(fromStart)).length, 1);
});

test('a waiting pop is answered by a push that comes later', async () => {
  const queue = freshQueue();
  const waiting = queue.pop(fromStart);
  await queue.partition('p').push({ n: 5 });
  assert.deepEqual(numbers(await waiting), [5]);
});

test('a lease can be extended while it lives, and an unknown one reports that it is not', async () => {
  const queue = freshQueue();
  await queue.push({ n: 1 });
  const [message] = await queue.pop({ ...fromStart, leaseSeconds: 5 });
  const extended = await client.extend(message, 30);
  assert.equal(extended.success, true);
  assert.equal(extended.renewed, 1);
  assert.ok(Date.parse(extended.newExpiresAt ?? '') > Date.now() + 20_000);
  const unknown = await client.extend('01900000-0000-7000-8000-000000000000');
  assert.equal(unknown.success, false);
  assert.equal(unknown.newExpiresAt, null);
});

test('a queue is configured, listed and deleted', async () => {
  const queue = freshQueue();
  const configured = await queue.configure({ retryLimit: 7, leaseTime: 30 }, { namespace: 'shop', task: 'mail' });
  assert.equal(configured.options.retryLimit, 7);
  const merged = await client.configure(queue.name, { retryLimit: null });
  assert.equal(merged.options.retryLimit, 3);
  assert.equal(merged.options.leaseTime, 30);
  const row = (await client.listQueues()).find(({ name }) => name === queue.name);
  assert.equal(row?.namespace, 'shop');
  assert.equal((await queue.delete()).existed, true);
  assert.equal((await client.deleteQueue(queue.name)).existed, false);
});

test('a consumer handles every message once and in order over several loops, and ends on its signal', async () => {
  const queue = freshQueue();
  const lanes = ['a', 'b', 'c', 'd'];
  await Promise.all(lanes.map((lane) => queue.partition(lane).push(Array.from({ length: 50 }, (_, n) => ({ n })))));
  const seen = new Map<string, number[]>(lanes.map((lane) => [lane, []]));
  const stop = new AbortController();
  let left = 200;
  await queue.consume(
    async (message) => {
      seen.get(message.partition)?.push(message.data.n);
      await Promise.resolve();
      left -= 1;
      if (left === 0) stop.abort();
    },
    { ...fromStart, each: true, concurrency: 3, batch: 20, partitions: 2, signal: stop.signal },
  );
  for (const lane of lanes)
    assert.deepEqual(
      seen.get(lane),
      Array.from({ length: 50 }, (_, n) => n),
    );
  assert.deepEqual(await queue.pop({ ...fromStart, wait: false }), []);
});

// B-SDK-CON-2
test('without each the handler gets all messages of a pop as one array', async () => {
  const queue = freshQueue();
  await queue.partition('p').push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  const stop = new AbortController();
  const calls: number[][] = [];
  await queue.consume(
    (messages) => {
      calls.push(numbers(messages));
      stop.abort();
    },
    { ...fromStart, batch: 10, signal: stop.signal },
  );
  assert.deepEqual(calls, [[0, 1, 2]]);
  assert.deepEqual(await queue.pop({ ...fromStart, wait: false }), []);
});

// B-SDK-CON-5
test('a handler that throws fails its message with the text of the error until it is a dead letter, and its lane waits', async () => {
  const queue = freshQueue();
  await queue.configure({ retryLimit: 2 });
  await queue.partition('bad').push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  await queue.partition('good').push([{ n: 10 }]);
  const handled: number[] = [];
  const stop = new AbortController();
  const errors: unknown[] = [];
  await queue.consume(
    (message) => {
      handled.push(message.data.n);
      if (message.data.n === 1) throw new Error('cannot digest 1');
      if (handled.includes(2) && handled.includes(10)) stop.abort();
    },
    {
      ...fromStart,
      each: true,
      batch: 10,
      partitions: 2,
      signal: stop.signal,
      onError: (error) => errors.push(error),
    },
  );
  assert.deepEqual(
    handled.filter((n) => n < 10),
    [0, 1, 1, 1, 2],
  );
  assert.equal(errors.length, 3);
  const { messages, total } = await queue.deadLetters();
  assert.equal(total, 1);
  assert.deepEqual(messages[0].data, { n: 1 });
  assert.equal(messages[0].errorMessage, 'cannot digest 1');
  assert.equal(messages[0].consumerGroup, 'g');
  assert.equal(messages[0].retryCount, 2);
  assert.equal((await client.deadLetters({ queue: queue.name, group: 'another' })).total, 0);
});

// B-SDK-CON-7
test('a stop lets the running handler end and gives the rest back at once, uncharged', async () => {
  const queue = freshQueue();
  await queue.partition('p').push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  const stop = new AbortController();
  await queue.consume(
    () => {
      stop.abort();
    },
    { ...fromStart, each: true, batch: 10, signal: stop.signal },
  );
  const rest = await queue.pop({ ...fromStart, wait: false });
  assert.deepEqual(numbers(rest), [1, 2]);
});

test('a stop ends a consumer that waits for messages at once', async () => {
  const stop = new AbortController();
  const startedAtMs = performance.now();
  const consuming = freshQueue().consume(() => assert.fail('there is nothing to handle'), {
    timeoutMs: 60_000,
    signal: stop.signal,
  });
  setImmediate(() => stop.abort());
  await consuming;
  assert.ok(performance.now() - startedAtMs < 5000);
});

test('a consumer whose lease ran out stops handling that lane and says so', async () => {
  const queue = freshQueue();
  await queue.partition('p').push([{ n: 0 }, { n: 1 }]);
  const stop = new AbortController();
  const handled: number[] = [];
  const refused: unknown[] = [];
  const others: Message<Job>[][] = [];
  await queue.consume(
    async (message) => {
      handled.push(message.data.n);
      if (handled.length > 1) {
        stop.abort();
        return;
      }
      // The second worker waits until the lease of one second is over, and settles everything.
      const stolen = await queue.pop(fromStart);
      others.push(stolen);
      await client.ack(stolen);
      await queue.partition('p').push({ n: 2 });
    },
    {
      ...fromStart,
      each: true,
      batch: 10,
      leaseSeconds: 1,
      signal: stop.signal,
      onError: (error) => refused.push(error),
    },
  );
  assert.deepEqual(numbers(others[0]), [0, 1]);
  assert.deepEqual(handled, [0, 2]);
  assert.equal(refused.length, 1);
});

// B-FET-1, B-FET-3
test('reads by offset show what was pushed, find it by time and tell which partitions changed', async () => {
  const queue = freshQueue();
  await queue.partition('a').push([{ n: 0 }, { n: 1 }]);
  const { safeTime } = await queue.changedPartitions();
  await queue.partition('b').push([{ n: 2 }]);
  const [a, b] = await queue.fetch([{ partition: 'a', offset: 1 }, { partition: 'b' }], { maxWaitMs: 1000 });
  assert.deepEqual([a.records.map(({ payload }) => payload.n), a.highWatermark, a.logStartOffset], [[1], 2, 0]);
  assert.deepEqual(
    b.records.map(({ payload }) => payload.n),
    [2],
  );
  const [found] = await queue.fetchOffsets([{ partition: 'b', timestamp: b.records[0].ts }]);
  assert.deepEqual([found.offset, found.ts], [0, b.records[0].ts]);
  const { partitions } = await queue.changedPartitions(safeTime);
  assert.ok(partitions.some(({ name, lastOffset }) => name === 'b' && lastOffset === 0));
});

test('a message with a time waits, is listed, moved and cancelled', async () => {
  const queue = freshQueue();
  const lane = queue.partition('p');
  const [first, second, third] = await lane.push([
    { payload: { n: 1 }, transactionId: 'one', delayMs: 3_600_000 },
    { payload: { n: 2 }, dueAt: Date.now() + 7_200_000 },
    { payload: { n: 3 } },
  ]);
  assert.equal(third.dueAt, undefined);
  const page = await queue.due({ limit: 1 });
  assert.deepEqual(
    page.messages.map(({ id, transactionId, dueAt }) => [id, transactionId, dueAt]),
    [[first.message_id, 'one', first.dueAt]],
  );
  const rest = await lane.due({ after: String(page.next), until: Date.now() + 86_400_000 });
  assert.deepEqual(
    rest.messages.map(({ id }) => id),
    [second.message_id],
  );
  assert.deepEqual(await lane.pop({ ...fromStart, wait: false }), []);
  assert.equal((await queue.cancelDue(first.message_id)).cancelled, true);
  assert.equal((await lane.moveDue(second.transaction_id, { delayMs: 0 })).changed, true);
  assert.deepEqual(numbers(await lane.pop(fromStart)), [2, 3]);
  await assert.rejects(lane.cancelDue(second.transaction_id), { code: 'not_waiting', status: 409 });
});
