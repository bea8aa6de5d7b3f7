/** The client's part for queue/v1: enqueue, poll, commit and shared consumers against a real broker. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LaneClient, LaneError, type LaneErrorCode, type MessageV1, type QueueV1 } from '@lanemq/client';
import { BrokerProcess, sized } from '../e2e/broker-process.ts';
import { Relay } from './relay.ts';
import { answer, ScriptedServer } from './scripted-server.ts';

async function until(isDone: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const endsAtMs = performance.now() + timeoutMs;
  while (!(await isDone())) {
    assert.ok(performance.now() < endsAtMs, 'it did not come to its end in time');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function refusal(code: LaneErrorCode, status: number, part: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof LaneError, String(error));
    assert.deepEqual([error.code, error.status], [code, status], error.message);
    assert.match(error.message, part);
    return true;
  };
}

/** Items of `keys` keys, round and round, with seqs from 0 on as values too. */
function itemsOf(count: number, keys: number) {
  return Array.from({ length: count }, (_, n) => ({ key: `key-${n % keys}`, seq: n, value: n }));
}

/** What handlers saw; each message's partition must be in the order of its seqs. */
class Handled {
  readonly values = new Map<number, number>();
  readonly #lastSeq = new Map<number, bigint>();

  take({ partition, seq, value }: MessageV1<number>): void {
    assert.ok(seq >= (this.#lastSeq.get(partition) ?? -1n), `partition ${partition}: ${seq} came late`);
    this.#lastSeq.set(partition, seq);
    this.values.set(value, (this.values.get(value) ?? 0) + 1);
  }

  partitions(): number[] {
    return [...this.#lastSeq.keys()].sort((a, b) => a - b);
  }
}

describe('queue/v1 by the client', { timeout: 60_000 }, () => {
  let broker: BrokerProcess;
  let client: LaneClient;
  let made = 0;
  before(async () => {
    broker = await BrokerProcess.start();
    client = new LaneClient({ url: broker.url, retryDelayMillis: 20 });
  });
  after(async () => {
    await client.close();
    await broker.dispose();
  });

  async function newQueue<T = number>(partitions: number): Promise<QueueV1<T>> {
    made += 1;
    const queue = client.v1('tests').queue<T>(`q${made}`);
    await queue.ensure({ partitions });
    return queue;
  }

  it('creates, lists, describes, disables and deletes queues', async () => {
    const shop = client.v1('shop');
    const orders = shop.queue('orders');
    const expected = { namespace: 'shop', queue: 'orders', partitions: 6, storage: 'datastore://lanemq/orders' };
    assert.deepEqual(await orders.ensure({ partitions: 6 }), expected);
    assert.deepEqual(await orders.ensure(), expected);
    await assert.rejects(orders.ensure({ partitions: 7 }), refusal('conflict', 0, /6 partitions, not 7/));
    await assert.rejects(orders.create(), refusal('conflict', 409, /orders/));
    const named = await shop.queue('plain').create({ storage: 'datastore://a/b', dedupWindowMillis: 1000 });
    assert.deepEqual([named.partitions, named.storage], [30, 'datastore://a/b']);
    assert.deepEqual(await orders.describe(), expected);
    assert.equal(await orders.partitions(), 6);
    await orders.enqueue([
      { key: 'a', seq: 2n ** 62n },
      { key: 'a', seq: -1 },
    ]);
    assert.deepEqual(
      (await shop.list()).map(({ queue, active, depth }) => ({ queue, active, depth })),
      [
        { queue: 'orders', active: true, depth: 2 },
        { queue: 'plain', active: true, depth: 0 },
      ],
    );
    const { depth, byPartition } = await orders.depth();
    assert.equal(depth, 2);
    assert.deepEqual(
      byPartition.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq]),
      [[-1n, 2n ** 62n]],
    );
    assert.equal(await orders.purge(), 2);
    await assert.rejects(orders.delete(), refusal('conflict', 409, /enabled/));
    await orders.disable();
    await assert.rejects(orders.enqueue({ key: 'a', seq: 1 }), refusal('conflict', 409, /disabled/));
    await orders.enable();
    await orders.enqueue({ key: 'a', seq: 1 });
    await orders.disable();
    await orders.delete();
    await assert.rejects(orders.describe(), refusal('not_found', 404, /orders/));
  });

  it('keeps seqs of 64 bits exact, in both directions', async () => {
    const queue = await newQueue<string>(1);
    const seqs = [-(2n ** 63n), -1n, 0n, 2n ** 53n + 1n, 2n ** 63n - 1n];
    await queue.enqueue(seqs.map((seq) => ({ key: 'k', seq, value: String(seq) })));
    const page = await queue.poll(0);
    assert.deepEqual(
      page.messages.map(({ seq, value }) => [seq, value]),
      seqs.map((seq) => [seq, String(seq)]),
    );
    assert.equal(page.offset, 2n ** 63n - 1n);
    const rest = await queue.poll(0, { offset: 0, until: 2n ** 53n + 1n });
    assert.deepEqual(
      rest.messages.map(({ seq }) => seq),
      [2n ** 53n + 1n],
    );
    assert.equal(await queue.commit(0, { offset: 2n ** 53n, watermark: page.watermark }), 3);
    assert.deepEqual(
      (await queue.poll(0)).messages.map(({ seq }) => seq),
      seqs.slice(3),
    );
    const handled: bigint[] = [];
    const stop = new AbortController();
    await queue.consume(
      ({ seq }) => {
        handled.push(seq);
        if (handled.length === 2) stop.abort();
      },
      { signal: stop.signal },
    );
    assert.deepEqual(handled, seqs.slice(3));
    assert.equal((await queue.depth()).depth, 0);
  });

  it('refuses what is not exact or not JSON before anything is sent', async () => {
    const queue = await newQueue<unknown>(1);
    for (const seq of [2 ** 53, 0.5, Number.NaN, 2n ** 63n]) {
      await assert.rejects(queue.enqueue({ key: 'k', seq }), refusal('bad_argument', 0, /seq must be/));
    }
    await assert.rejects(queue.enqueue({ key: 'k', seq: 1, value: 1n }), refusal('bad_argument', 0, /not JSON/));
    await assert.rejects(queue.enqueue(itemsOf(1001, 1)), refusal('bad_argument', 0, /at most 1000/));
    await assert.rejects(
      queue.commit(0, { offset: 0.5, watermark: null }),
      refusal('bad_argument', 0, /offset must be/),
    );
    await assert.rejects(
      queue.consume(() => {}, { share: { worker: 3, of: 2 } }),
      refusal('bad_argument', 0, /worker in 1\.\.of/),
    );
    await assert.rejects(
      queue.consume(() => {}, { share: { worker: 2, of: 2 } }),
      refusal('bad_argument', 0, /nothing for worker 2/),
    );
    assert.deepEqual(await queue.enqueue([]), []);
    assert.equal((await queue.depth()).depth, 0);
  });

  it('gives the refusals of the broker their codes', async () => {
    const queue = await newQueue<string>(2);
    await assert.rejects(queue.poll(2), refusal('bad_request', 400, /partition must be in 0\.\.1, got 2/));
    await assert.rejects(queue.poll(0, { limit: 0 }), refusal('bad_request', 400, /limit must be in 1\.\.1000/));
    await assert.rejects(
      queue.enqueue({ key: 'k', seq: 1, value: 'x'.repeat(300_000) }),
      refusal('body_too_large', 413, /./),
    );
    const missing = client.v1('tests').queue('missing');
    await assert.rejects(missing.poll(0), refusal('not_found', 404, /missing/));
    await assert.rejects(
      missing.consume(() => {}),
      refusal('not_found', 404, /missing/),
    );
    await assert.rejects(client.v1('9').ensure(), refusal('bad_request', 400, /./));
  });

  it('sends calls together, in their order, and refuses each for its own messages only', async () => {
    const queue = await newQueue<number | string>(1);
    const count = 3000;
    const calls = Array.from({ length: count }, (_, n) => queue.enqueue({ key: 'k', seq: 7, value: n }));
    const tooLong = queue.enqueue({ key: 'k', seq: 7, value: 'x'.repeat(300_000) });
    const behind = queue.enqueue({ key: 'k', seq: 7, value: count });
    await assert.rejects(tooLong, refusal('body_too_large', 413, /./));
    const results = (await Promise.all([...calls, behind])).flat();
    assert.equal(new Set(results.map(({ id }) => id)).size, count + 1);
    assert.ok(results.every(({ status, partition }) => status === 'CREATED' && partition === 0));
    // More messages of one seq than a page holds: only a consumer that reads behind messages gets them in pages.
    const seen: unknown[] = [];
    const stop = new AbortController();
    await queue.consume(
      ({ value }) => {
        seen.push(value);
        if (seen.length === count + 1) stop.abort();
      },
      { signal: stop.signal, batch: 1000 },
    );
    assert.deepEqual(
      seen,
      Array.from({ length: count + 1 }, (_, n) => n),
    );
    assert.equal((await queue.depth()).depth, 0);
  });

  it('does not store a known dedupId again', async () => {
    const queue = await newQueue(4);
    const item = { key: 'k', seq: 1, value: 1, dedupId: 'one' };
    const [first] = await queue.enqueue(item);
    assert.deepEqual(await queue.enqueue(item), [{ ...first, status: 'DUPLICATE' }]);
  });

  it('lets two workers share the partitions, each in order and nothing twice', async () => {
    const queue = await newQueue(6);
    const stop = new AbortController();
    const workers = [new Handled(), new Handled()];
    const running = workers.map((worker, i) =>
      queue.consume((message) => worker.take(message), {
        share: { worker: i + 1, of: 2 },
        signal: stop.signal,
        batch: 20,
      }),
    );
    const items = itemsOf(600, 40);
    for (let at = 0; at < items.length; at += 50) await queue.enqueue(items.slice(at, at + 50));
    await until(async () => (await queue.depth()).depth === 0);
    stop.abort();
    await Promise.all(running);
    assert.deepEqual(
      workers.map((worker) => worker.partitions()),
      [
        [0, 2, 4],
        [1, 3, 5],
      ],
    );
    const [one, two] = workers.map(({ values }) => values);
    assert.equal(one.size + two.size, items.length);
    assert.ok([...one.values(), ...two.values()].every((times) => times === 1));
  });

  it('commits what was handled before a failed message and brings the message again', async () => {
    const queue = await newQueue(1);
    await queue.enqueue(itemsOf(5, 1));
    const stop = new AbortController();
    const seen: number[] = [];
    const troubles: [string, number | undefined][] = [];
    await queue.consume(
      ({ value }) => {
        seen.push(value);
        if (value === 2 && troubles.length === 0) throw new Error('not now');
        if (value === 4) stop.abort();
      },
      {
        signal: stop.signal,
        retryDelayMillis: 1,
        onTrouble: (error, message) => troubles.push([(error as Error).message, message?.value as number]),
      },
    );
    assert.deepEqual(seen, [0, 1, 2, 2, 3, 4]);
    assert.deepEqual(troubles, [['not now', 2]]);
  });

  it('stops when the running handler has ended, and leaves what it did not handle and what came meanwhile', async () => {
    const queue = await newQueue(1);
    await queue.enqueue(itemsOf(5, 1).map((item) => ({ ...item, seq: 10 * (item.seq + 1) })));
    const stop = new AbortController();
    await queue.consume(
      async ({ value }) => {
        if (value !== 2) return;
        // Sorted before all that was handled, and not seen by anybody.
        await queue.enqueue({ key: 'late', seq: 1, value: 100 });
        stop.abort();
        await new Promise((resolve) => setTimeout(resolve, 50));
      },
      { signal: stop.signal },
    );
    const { messages } = await queue.poll(0);
    assert.deepEqual(
      messages.map(({ value }) => value),
      [100, 3, 4],
    );
    await queue.consume(() => assert.fail('it was stopped before it began'), { signal: stop.signal });
  });

  it('ends by close, with its last commit', async () => {
    const queue = await newQueue(2);
    await queue.enqueue(itemsOf(1, 1));
    const other = new LaneClient(broker.url);
    let begun = false;
    const consuming = other
      .v1('tests')
      .queue(queue.name)
      .consume(async () => {
        begun = true;
        await new Promise((resolve) => setTimeout(resolve, 50));
      });
    await until(() => begun);
    await other.close();
    await consuming;
    assert.equal((await queue.depth()).depth, 0);
  });

  it('ends when its queue is disabled', async () => {
    const queue = await newQueue(3);
    const consuming = queue.consume(() => {});
    await new Promise((resolve) => setTimeout(resolve, 50));
    await queue.disable();
    await assert.rejects(consuming, refusal('conflict', 409, /disabled/));
  });
});

it('a broker that is stopped and killed under producer and workers loses nothing, and repeats nothing committed', {
  timeout: 120_000,
}, async () => {
  const broker = await BrokerProcess.start();
  const relay = await Relay.start(() => broker.client.port);
  const client = new LaneClient({ url: relay.url, retryDelayMillis: 50, retryAttempts: 50 });
  const queue = client.v1('tests').queue<number>('restarted');
  await queue.ensure({ partitions: 4 });
  const stop = new AbortController();
  const handled = new Handled();
  const workers = [1, 2].map((worker) =>
    queue.consume((message) => handled.take(message), {
      share: { worker, of: 2 },
      signal: stop.signal,
      batch: 10,
      retryDelayMillis: 20,
      onTrouble: (error) => assert.ok(error instanceof LaneError && error.retriable, String(error)),
    }),
  );
  const items = itemsOf(sized(2000, 50_000), 40);
  const enqueueing = (async () => {
    for (let at = 0; at < items.length; at += 10) {
      const slice = items.slice(at, at + 10).map((item) => ({ ...item, dedupId: `n${item.seq}` }));
      await queue.enqueue(slice);
    }
  })();
  await until(() => handled.values.size > items.length * 0.1);
  await broker.restart();
  await until(() => handled.values.size > items.length * 0.4);
  await broker.killAndRestart();
  await enqueueing;
  await until(async () => (await queue.depth()).depth === 0);
  stop.abort();
  await Promise.all(workers);
  assert.equal(handled.values.size, items.length);
  // These workers did not die: each commit went on until it was answered, before anything else was read.
  assert.ok([...handled.values.values()].every((times) => times === 1));
  await client.close();
  await relay.close();
  await broker.dispose();
});

it('repeats an enqueue of unknown outcome only when every message has a dedupId', async () => {
  await using server = await ScriptedServer.start((_seen, response, number) => {
    if (number % 2 === 1) return answer(response, 503, { status: 503, message: 'perhaps' });
    answer(response, 200, { accepted: 1, results: [{ partition: 0, id: '0'.repeat(26), status: 'CREATED' }] });
  });
  const client = new LaneClient({ url: server.url, retryDelayMillis: 1 });
  const queue = client.v1('n').queue('q');
  await queue.enqueue({ key: 'k', seq: 1, dedupId: 'one' });
  assert.equal(server.seen.length, 2);
  await assert.rejects(queue.enqueue({ key: 'k', seq: 1 }), (error) => {
    assert.ok(error instanceof LaneError && error.outcomeUnknown);
    return refusal('outcome_unknown', 503, /perhaps/)(error);
  });
  assert.equal(server.seen.length, 3);
  assert.deepEqual(server.seen[2].body, { messages: [{ seq: 1, key: 'k' }] });
  await client.close();
});
