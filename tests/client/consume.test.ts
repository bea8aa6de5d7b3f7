/** Consumers on a real broker: order, failures, stops, and who acks. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient, type Message, type WireMessage } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

let broker: BrokerProcess;
let client: LaneClient;
let queueCount = 0;

before(async () => {
  broker = await BrokerProcess.start();
  client = new LaneClient({ url: broker.url });
});

after(async () => {
  await client.close();
  await broker.dispose();
});

interface Job {
  readonly n: number;
}

function freshQueue(group = 'g') {
  queueCount += 1;
  return client.queue<Job>(`consumed-${queueCount}`).group(group).subscriptionMode('all').timeoutMillis(5000);
}

function jobs(count: number): Job[] {
  return Array.from({ length: count }, (_, n) => ({ n }));
}

function numbers(messages: readonly { readonly data: unknown }[]): number[] {
  return messages.map((message) => (message.data as Job).n);
}

test('a consumer handles every message once and in order over several loops, and ends on its signal', async () => {
  const queue = freshQueue();
  const lanes = ['a', 'b', 'c', 'd'];
  await Promise.all(lanes.map((lane) => queue.partition(lane).push(jobs(50))));
  const seen = new Map<string, number[]>(lanes.map((lane) => [lane, []]));
  const stop = new AbortController();
  let left = 200;
  await queue
    .concurrency(3)
    .batch(20)
    .partitions(2)
    .each()
    .consume(
      async (message) => {
        seen.get(message.partition)?.push(message.data.n);
        await Promise.resolve();
        left -= 1;
        if (left === 0) stop.abort();
      },
      { signal: stop.signal },
    );
  for (const lane of lanes) assert.deepEqual(seen.get(lane), numbers(jobs(50).map((data) => ({ data }))));
  assert.deepEqual(await queue.wait(false).pop(), []);
});

// B-SDK-CON-2
test('without each the handler gets all messages of a pop as one array', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(3));
  const calls: number[][] = [];
  await queue
    .batch(10)
    .limit(3)
    .consume((messages) => {
      calls.push(numbers(messages));
    });
  assert.deepEqual(calls, [[0, 1, 2]]);
  assert.deepEqual(await queue.wait(false).pop(), []);
});

// B-SDK-CON-1
test('a limit ends the consumer, and what is behind it goes back at once and uncharged', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(5));
  const handled: number[] = [];
  await queue
    .batch(10)
    .limit(2)
    .concurrency(3)
    .each()
    .consume((message) => {
      handled.push(message.data.n);
    });
  assert.deepEqual(handled, [0, 1]);
  assert.deepEqual(numbers(await queue.wait(false).pop()), [2, 3, 4]);
});

test('a consumer without work for so long ends', async () => {
  const queue = freshQueue();
  await queue.push(jobs(1));
  const handled: number[] = [];
  const startedAtMs = performance.now();
  await queue
    .idleMillis(300)
    .concurrency(2)
    .each()
    .consume((message) => {
      handled.push(message.data.n);
    });
  assert.deepEqual(handled, [0]);
  const tookMs = performance.now() - startedAtMs;
  assert.ok(tookMs >= 300 && tookMs < 3000, `${tookMs}`);
});

// B-SDK-CON-1
test('with autoAck off nothing is acked', async () => {
  const queue = freshQueue();
  await queue.push(jobs(1));
  await queue
    .autoAck(false)
    .leaseSeconds(1)
    .limit(1)
    .each()
    .consume(() => {});
  assert.equal((await queue.pop())[0].deliveryAttempt, 2);
});

// B-SDK-CON-5
test('a handler that throws fails its message with the text of the error until it is a dead letter, and its lane waits', async () => {
  const queue = freshQueue();
  await queue.configure({ retryLimit: 2 });
  await queue.partition('bad').push(jobs(3));
  await queue.partition('good').push([{ n: 10 }]);
  const handled: number[] = [];
  const stop = new AbortController();
  const errors: unknown[] = [];
  await queue
    .batch(10)
    .partitions(2)
    .each()
    .consume(
      (message) => {
        handled.push(message.data.n);
        if (message.data.n === 1) throw new Error('cannot digest 1');
        if (handled.includes(2) && handled.includes(10)) stop.abort();
      },
      { signal: stop.signal, onTrouble: (error) => errors.push(error) },
    );
  assert.deepEqual(
    handled.filter((n) => n < 10),
    [0, 1, 1, 1, 2],
  );
  assert.equal(errors.length, 3);
  const { messages, total } = await queue.dlq().get();
  assert.equal(total, 1);
  assert.deepEqual(messages[0].data, { n: 1 });
  assert.equal(messages[0].errorMessage, 'cannot digest 1');
  assert.equal(messages[0].consumerGroup, 'g');
  assert.equal(messages[0].retryCount, 2);
  assert.equal((await queue.dlq('another').get()).total, 0);
});

// B-SDK-CON-6
test('with callbacks declared the program acks: each message comes once and in order', async () => {
  const queue = freshQueue();
  const total = 10_000;
  for (let i = 0; i < total; i += 1000) {
    await queue.partition('p').push(Array.from({ length: 1000 }, (_, n) => ({ n: i + n })));
  }
  const seen: number[] = [];
  await queue
    .batch(1000)
    .limit(total)
    .consume((messages) => messages.length)
    .onSuccess(async (messages, result) => {
      assert.equal(result, messages.length);
      seen.push(...numbers(messages));
      assert.equal((await client.ack(messages)).success, true);
    });
  assert.deepEqual(
    seen,
    Array.from({ length: total }, (_, n) => n),
  );
  assert.deepEqual(await queue.wait(false).pop(), []);
});

test('with onError declared the program decides about a failed message, and what is behind it goes back', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(3));
  const handled: number[] = [];
  await queue
    .batch(10)
    .limit(3)
    .each()
    .consume((message) => {
      handled.push(message.data.n);
      if (message.data.n === 0) throw new Error('no');
    })
    .onSuccess((message) => client.ack(message))
    .onError((message, error) => client.ack(message, 'dlq', { error: (error as Error).message }));
  assert.deepEqual(handled, [0, 1, 2]);
  assert.equal((await queue.dlq().get()).messages[0].errorMessage, 'no');
});

// B-SDK-CON-7
test('a stop lets the running handler end and gives the rest back at once, uncharged', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(3));
  const stop = new AbortController();
  await queue
    .batch(10)
    .each()
    .consume(
      () => {
        stop.abort();
      },
      { signal: stop.signal },
    );
  assert.deepEqual(numbers(await queue.wait(false).pop()), [1, 2]);
});

test('a stop ends a consumer that waits for messages at once', async () => {
  const stop = new AbortController();
  const startedAtMs = performance.now();
  const consuming = freshQueue()
    .timeoutMillis(60_000)
    .concurrency(10)
    .consume(() => assert.fail('there is nothing to handle'), { signal: stop.signal });
  setTimeout(() => stop.abort(), 100);
  await consuming;
  assert.ok(performance.now() - startedAtMs < 5000);
});

test('closing the client lets handlers end, settles them and gives back the rest', async () => {
  const closing = new LaneClient({ url: broker.url });
  const name = freshQueue().name;
  const queue = closing.queue<Job>(name).group('g').subscriptionMode('all');
  await queue.partition('p').push(jobs(3));
  let started!: () => void;
  const isRunning = new Promise<void>((resolve) => {
    started = resolve;
  });
  let hasEnded = false;
  const consuming = queue.each().consume(async () => {
    started();
    await new Promise((resolve) => setTimeout(resolve, 100));
    hasEnded = true;
  });
  await isRunning;
  await closing.close();
  assert.equal(hasEnded, true);
  await consuming;
  await assert.rejects(queue.push({ n: 1 }), { code: 'closed' });
  assert.deepEqual(numbers(await client.queue(name).group('g').wait(false).pop()), [1, 2]);
});

test('a consumer whose lease ran out stops handling that lane and says so', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(2));
  const stop = new AbortController();
  const handled: number[] = [];
  const refused: unknown[] = [];
  const others: Message<Job>[][] = [];
  await queue
    .batch(10)
    .leaseSeconds(1)
    .each()
    .consume(
      async (message) => {
        handled.push(message.data.n);
        if (handled.length > 1) {
          stop.abort();
          return;
        }
        // The second worker waits until the lease of one second is over, and settles everything.
        const stolen = await queue.pop();
        others.push(stolen);
        await client.ack(stolen);
        await queue.partition('p').push({ n: 2 });
      },
      { signal: stop.signal, onTrouble: (error) => refused.push(error) },
    );
  assert.deepEqual(numbers(others[0]), [0, 1]);
  assert.deepEqual(handled, [0, 2]);
  assert.equal(refused.length, 1);
});

test('a lease that is renewed outlasts its length, and a handler is told when it is lost all the same', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(2));
  const attempts: number[] = [];
  const renewing = queue.batch(1).leaseSeconds(1).renewLease(true, 200).limit(1).each();
  await renewing.consume(async (message) => {
    attempts.push(message.deliveryAttempt);
    await new Promise((resolve) => setTimeout(resolve, 1500));
  });
  assert.deepEqual(attempts, [1]);

  const reasons: unknown[] = [];
  await renewing.consume(
    async (_message, { signal }) => {
      const lost = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      // Takes the lease away.
      await queue.seek({ toEnd: true });
      await lost;
      reasons.push(signal.reason);
    },
    { onTrouble: () => {} },
  );
  assert.equal((reasons[0] as { code: string }).code, 'lease_lost');
});

test('the messages of an iterable are acked by asking for the next one, and a broken loop gives its message back', async () => {
  const queue = freshQueue();
  await queue.partition('p').push(jobs(6));
  const seen: number[] = [];
  for await (const message of queue.batch(2).limit(3).messages()) seen.push(message.data.n);
  assert.deepEqual(seen, [0, 1, 2]);

  for await (const message of queue.batch(10).messages()) {
    seen.push(message.data.n);
    if (message.data.n === 4) break;
  }
  assert.deepEqual(seen, [0, 1, 2, 3, 4]);

  const stop = new AbortController();
  for await (const message of queue.messages({ signal: stop.signal })) {
    seen.push(message.data.n);
    if (message.data.n === 5) stop.abort();
  }
  assert.deepEqual(seen, [0, 1, 2, 3, 4, 4, 5]);
  assert.deepEqual(await queue.wait(false).pop(), []);
});

test('an iterable whose consumer is refused for good throws', async () => {
  const queue = client.queue('').group('g');
  const read = async () => {
    for await (const message of queue.messages()) assert.fail(message.id);
  };
  await assert.rejects(read(), { code: 'bad_argument' });
});

test('a consumer by labels gets messages of every queue that has them', async () => {
  const queue = freshQueue();
  await queue.namespace(queue.name).create();
  const handled: number[] = [];
  const consuming = client
    .queue<Job>('')
    .namespace(queue.name)
    .group('labels')
    .subscriptionMode('all')
    .limit(2)
    .each()
    .consume((message) => {
      handled.push(message.data.n);
    });
  await queue.push({ n: 0 });
  await queue.push({ n: 1 });
  await consuming;
  assert.deepEqual(handled, [0, 1]);
});

test('a conflating group that was registered without it is told once and gets everything', async () => {
  const warnings: string[] = [];
  const logger = { info: () => {}, warn: (entry: unknown) => warnings.push(String(entry)), error: () => {} };
  const warned = new LaneClient({ url: broker.url, logger });
  const queue = freshQueue();
  await queue.partition('p').push(jobs(2));
  await queue.wait(false).batch(1).pop();
  await queue.seek({ toBeginning: true });
  const conflating = warned.queue<Job>(queue.name).group('g').conflation();
  assert.equal((await conflating.pop()).length, 2);
  await conflating.wait(false).pop();
  assert.equal(warnings.length, 1);
});

test('commitOnDelivery belongs to pop', async () => {
  const queue = freshQueue();
  await queue.push(jobs(1));
  const [message] = await queue.commitOnDelivery().pop();
  assert.equal(message.leaseId, '');
  assert.deepEqual(await queue.wait(false).pop(), []);
  const consuming = queue.commitOnDelivery().consume((() => {}) as never);
  await assert.rejects(consuming, /commitOnDelivery\(\) is a pop\(\) option/);
});

test('trouble names the messages it is about', async () => {
  const queue = freshQueue();
  await queue.configure({ retryLimit: 0 });
  await queue.push({ payload: { n: 1 }, transactionId: 'named' });
  const named: string[] = [];
  const onTrouble = (_error: unknown, messages: readonly WireMessage[]) => {
    named.push(...messages.map(({ transactionId }) => transactionId));
  };
  await queue.limit(1).consume(() => Promise.reject(new Error('no')), { onTrouble });
  assert.deepEqual(named, ['named']);
});
