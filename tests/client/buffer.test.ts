/** Pushes that are collected on the client's side. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BufferOptions, LaneClient, type LaneError, type PushedItem } from '@lanemq/client';
import { answer, type Script, ScriptedServer } from './scripted-server.ts';

interface Body {
  readonly items: readonly { readonly payload: number; readonly transactionId: string }[];
}

/** Stores what it is sent, unless `refuses` answers for it. */
class Store {
  readonly payloads: number[] = [];
  readonly batches: number[] = [];
  readonly #known = new Set<string>();

  readonly script: Script = (seen, response, number) => {
    if (this.refuses(number)) {
      answer(response, 503, { error: 'not now', code: 'retry' });
      return;
    }
    const { items } = seen.body as Body;
    this.batches.push(items.length);
    const rows = items.map(({ payload, transactionId }, index) => {
      const isKnown = this.#known.has(transactionId);
      this.#known.add(transactionId);
      if (!isKnown) this.payloads.push(payload);
      return { index, transaction_id: transactionId, status: isKnown ? 'duplicate' : 'queued', offset: index };
    });
    answer(response, 201, rows);
  };

  refuses(_number: number): boolean {
    return false;
  }
}

async function withStore(store: Store, body: (client: LaneClient, store: Store) => Promise<void>): Promise<void> {
  const server = await ScriptedServer.start(store.script);
  const client = new LaneClient({ url: server.url, retryAttempts: 1, retryDelayMillis: 1, handleSignals: false });
  try {
    await body(client, store);
  } finally {
    await client.close().catch(() => {});
    await server[Symbol.asyncDispose]();
  }
}

const oneTwoThree = (count: number) => Array.from({ length: count }, (_, n) => n);

// B-SDK-BUF-1, B-SDK-BUF-5
test('buffered pushes are sent when a request is full or the time has passed, and say that they were buffered', async () => {
  await withStore(new Store(), async (client, store) => {
    const queue = client.queue<number>('q').buffer({ messageCount: 10, timeMillis: 100 });
    assert.deepEqual(await queue.push([1, 2]), { buffered: true, count: 2 });
    assert.deepEqual(store.payloads, []);
    assert.equal(client.getBufferStats().totalBufferedMessages, 2);
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.deepEqual(store.payloads, [1, 2]);
    await queue.push(oneTwoThree(25));
    await queue.flushBuffer();
    assert.deepEqual(store.batches, [2, 10, 10, 5]);
    assert.deepEqual(client.getBufferStats(), {
      activeBuffers: 0,
      totalBufferedMessages: 0,
      oldestBufferAge: 0,
      flushesPerformed: 4,
    });
  });
});

// B-SDK-BUF-4
test('batches that fail are sent again in front of newer messages: everything arrives once and in order', async () => {
  const store = new Store();
  store.refuses = (number) => number % 3 !== 0;
  await withStore(store, async (client) => {
    const queue = client.queue<number>('q').buffer({ messageCount: 20, timeMillis: 10, retryDelayMillis: 1 });
    for (let n = 0; n < 500; n++) await queue.push(n);
    await client.flushAllBuffers();
    assert.deepEqual(store.payloads, oneTwoThree(500));
  });
});

// B-SDK-BUF-3
test('at its size a buffer lets adds wait; an abort or the end of the client wakes them', async () => {
  const store = new Store();
  store.refuses = () => true;
  await withStore(store, async (client) => {
    const options: BufferOptions = { messageCount: 2, maxSize: 3, retryDelayMillis: 5, timeMillis: 10_000 };
    const queue = client.queue<number>('q').buffer(options);
    await queue.push([1, 2, 3]);
    const abort = new AbortController();
    const aborted = queue.push(4, { signal: abort.signal });
    let hasSettled = false;
    const waiting = queue.push(5).then(
      () => {
        hasSettled = true;
      },
      (error: LaneError) => error.code,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hasSettled, false);
    abort.abort();
    await assert.rejects(aborted, { code: 'aborted' });
    store.refuses = () => false;
    await waiting;
    assert.equal(hasSettled, true);
    await client.close();
    assert.deepEqual(store.payloads, [1, 2, 3, 5]);
    await assert.rejects(queue.push(6), { code: 'closed' });
  });
});

// B-SDK-BUF-2
test('sizes that are zero or negative are the defaults', async () => {
  const store = new Store();
  store.refuses = () => true;
  await withStore(store, async (client) => {
    const queue = client.queue<number>('q').buffer({ messageCount: 2, maxSize: 0, retryDelayMillis: 0 });
    await queue.push(oneTwoThree(8));
    let hasSettled = false;
    const waiting = queue.push(9).then(() => {
      hasSettled = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(hasSettled, false);
    store.refuses = () => false;
    await waiting;
  });
});

test('what the broker refuses for good is told to the callbacks of its push', async () => {
  const script: Script = (_seen, response) => answer(response, 413, { error: 'too long', code: 'name_too_long' });
  const server = await ScriptedServer.start(script);
  const client = new LaneClient({ url: server.url, handleSignals: false });
  const refused: [readonly PushedItem[], LaneError][] = [];
  await client
    .queue<number>('q')
    .buffer({ timeMillis: 5 })
    .push([1, 2])
    .onError((items, error) => refused.push([items, error]));
  await client.close();
  assert.deepEqual(
    refused.map(([items, error]) => [items.map(({ payload }) => payload), error.code]),
    [[[1, 2], 'name_too_long']],
  );
  await server[Symbol.asyncDispose]();
});

// B-SDK-PSH-2
test('callbacks of a push get what was stored, what was known and what was refused apart', async () => {
  const statuses = ['queued', 'duplicate', 'error', 'buffered', 'unheard'];
  const script: Script = (_seen, response) =>
    answer(
      response,
      201,
      statuses.map((status, index) => ({ index, status })),
    );
  const server = await ScriptedServer.start(script);
  const client = new LaneClient(server.url);
  const told: Record<string, unknown[]> = {};
  const note = (name: string) => (items: readonly PushedItem[]) => {
    told[name] = items.map(({ payload }) => payload);
  };
  const results = await client
    .queue<number>('q')
    .push(oneTwoThree(5))
    .onSuccess(note('stored'))
    .onDuplicate(note('known'))
    .onError(note('refused'));
  assert.deepEqual(told, { stored: [0, 3], known: [1], refused: [2, 4] });
  assert.equal(results?.length, 5);
  await server[Symbol.asyncDispose]();
  const nothing = await client.queue<number>('q').push(7, { signal: AbortSignal.abort() }).onError(note('refused'));
  assert.equal(nothing, null);
  assert.deepEqual(told['refused'], [7]);
});

// B-SDK-BUF-3
test('a close and a flush send what was pushed before them, also when nobody awaited the pushes', async () => {
  await withStore(new Store(), async (client, store) => {
    const queue = client.queue<number>('q').buffer({ messageCount: 10, timeMillis: 60_000 });
    const pushes = [queue.push(0)];
    await client.flushAllBuffers();
    assert.deepEqual(store.payloads, [0]);
    for (let n = 1; n < 500; n++) pushes.push(queue.push(n));
    await client.close();
    await Promise.all(pushes);
    assert.deepEqual(store.payloads, oneTwoThree(500));
  });
});
