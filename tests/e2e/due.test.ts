/** Due messages over HTTP: push with a time, list, move, cancel, and what becomes of them over restarts and kills. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  type Answer,
  ackOf,
  type ErrorBody,
  freshName,
  type PopOptions,
  type PushItem,
  type PushResult,
} from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { eventually, isOpenAfter, passed } from './clock.ts';

type DueItem = PushItem & { readonly delayMs?: unknown; readonly dueAt?: unknown };
type DueResult = PushResult & { readonly dueAt?: string };

interface DueRow {
  readonly id: string;
  readonly transactionId: string;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly offset: number;
  readonly createdAt: string;
  readonly dueAt: string;
}

interface DueList {
  readonly messages: DueRow[];
  readonly next: string | null;
  readonly waiting: number;
}

interface Changed {
  readonly success: boolean;
  readonly partitionId: string;
  readonly offset: number;
  readonly cancelled: boolean;
  readonly dueAt: string | null;
  readonly changed: boolean;
}

const day = 24 * 3600 * 1000;

class DueClient {
  readonly broker: BrokerProcess;

  constructor(broker: BrokerProcess) {
    this.broker = broker;
  }

  async push(items: readonly DueItem[]): Promise<DueResult[]> {
    return this.broker.client.push(items as readonly PushItem[]);
  }

  /** One message whose payload is its transactionId. */
  async one(
    queue: string,
    partition: string,
    name: string,
    when: { delayMs?: number; dueAt?: unknown } = {},
  ): Promise<DueResult> {
    const [result] = await this.push([{ queue, partition, transactionId: name, payload: name, ...when }]);
    return result;
  }

  async names(queue: string, options: PopOptions = {}): Promise<unknown[]> {
    const messages = await this.broker.client.pop(queue, { batch: 100, ...options });
    if (messages.length > 0) await this.broker.client.ack(messages);
    return messages.map((message) => message.data);
  }

  async list(query: Record<string, string>): Promise<DueList> {
    const answer = await this.broker.client.request<DueList>('GET', `/api/v1/due?${new URLSearchParams(query)}`);
    assert.equal(answer.status, 200, answer.bytes.toString());
    return answer.body;
  }

  cancel(path: string): Promise<Answer<Changed & ErrorBody>> {
    return this.broker.client.request('DELETE', `/api/v1/due/${path}`);
  }

  move(path: string, json: object): Promise<Answer<Changed & ErrorBody>> {
    return this.broker.client.request('POST', `/api/v1/due/${path}`, { json });
  }
}

describe('due messages', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  let due: DueClient;

  before(async () => {
    broker = await BrokerProcess.start();
    due = new DueClient(broker);
  });
  after(() => broker.dispose());

  // S-052
  it('hold what comes behind them in their partition, and let go what is before', async () => {
    const queue = freshName('q');
    assert.equal((await due.one(queue, 'p', 'm1')).dueAt, undefined);
    const second = await due.one(queue, 'p', 'm2', { delayMs: 1500 });
    assert.equal(second.offset, 1);
    assert.equal(second.status, 'queued');
    assert.ok(Date.parse(String(second.dueAt)) > Date.now());
    await due.one(queue, 'p', 'm3');
    await due.one(queue, 'other', 'free');
    assert.deepEqual(await due.names(queue, { partition: 'p' }), ['m1']);
    assert.deepEqual(await due.names(queue), ['free']);
    assert.deepEqual(await due.names(queue), []);
    assert.deepEqual(await due.names(queue, { waitMs: 10_000 }), ['m2', 'm3']);
    assert.ok(Date.now() >= Date.parse(String(second.dueAt)));
  });

  it('of one push end its run where the first of them has to wait', async () => {
    const queue = freshName('q');
    await due.push(
      ['a', 'b', 'c', 'd'].map((name) => ({
        queue,
        partition: 'p',
        transactionId: name,
        payload: name,
        ...(name === 'c' ? { delayMs: 1000 } : {}),
      })),
    );
    assert.deepEqual(await due.names(queue), ['a', 'b']);
    assert.deepEqual(await due.names(queue, { waitMs: 10_000 }), ['c', 'd']);
  });

  // S-051
  it('that wait longer than a lease are delivered once, at their time', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { leaseTime: 1 });
    const pushed = await due.one(queue, 'p', 'late', { delayMs: 3000 });
    const pops = Array.from({ length: 8 }, () => broker.client.pop(queue, { waitMs: 4500, leaseSeconds: 30 }));
    const messages = (await Promise.all(pops)).flat();
    assert.equal(messages.length, 1);
    assert.equal(messages[0].deliveryAttempt, 1);
    assert.ok(Date.now() >= Date.parse(String(pushed.dueAt)));
  });

  // S-054
  it('take every readable time up to 366 days ahead, and refuse all others by the number of the item', async () => {
    const queue = freshName('q');
    const send = (when: object) =>
      broker.client.request<DueResult[] & ErrorBody>('POST', '/api/v1/push', {
        json: {
          items: [
            { queue, payload: 'fine' },
            { queue, partition: 'x', payload: 'strange', ...when },
          ],
        },
      });
    const past = [{ dueAt: Date.now() - day }, { delayMs: 0 }, { dueAt: 0 }, { dueAt: '1969-01-01T00:00:00Z' }];
    for (const when of past) {
      const { status, body } = await send(when);
      assert.equal(status, 201);
      assert.equal(body[1].dueAt, undefined, JSON.stringify(when));
    }
    assert.equal((await due.names(queue, { partition: 'x' })).length, past.length);
    const far = await send({ delayMs: 30 * day });
    assert.ok(Math.abs(Date.parse(String(far.body[1].dueAt)) - Date.now() - 30 * day) < 60_000);
    assert.deepEqual(await due.names(queue, { partition: 'x' }), []);
    const refused: [object, RegExp][] = [
      [{ delayMs: -5 }, /delayMs/],
      [{ delayMs: 1.5 }, /delayMs/],
      [{ delayMs: '10' }, /delayMs/],
      [{ delayMs: null }, /delayMs/],
      [{ delayMs: true }, /delayMs/],
      [{ dueAt: -5 }, /dueAt/],
      [{ dueAt: 1.5 }, /dueAt/],
      [{ dueAt: '10' }, /dueAt/],
      [{ dueAt: 'tomorrow' }, /dueAt/],
      [{ dueAt: null }, /dueAt/],
      [{ delayMs: 367 * day }, /366 days/],
      [{ dueAt: '9999-01-01T00:00:00Z' }, /366 days/],
      [{ dueAt: 2 ** 53 }, /366 days/],
      [{ delayMs: 2 ** 63 }, /366 days/],
      [{ delayMs: 5, dueAt: Date.now() }, /both/],
    ];
    for (const [when, text] of refused) {
      const { status, body } = await send(when);
      assert.equal(status, 400, JSON.stringify(when));
      assert.equal(body.code, 'bad_body');
      assert.match(body.error, text);
      assert.match(body.error, /item 1\b/);
    }
    const raw = await broker.client.request<ErrorBody>('POST', '/api/v1/push', {
      bytes: Buffer.from(`{"items":[{"queue":"${queue}","payload":1,"delayMs":1e400}]}`),
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(raw.status, 400);
    assert.match(raw.body.error, /366 days/);
  });

  it('that are pushed again with another time stay as they are', async () => {
    const queue = freshName('q');
    const first = await due.one(queue, 'p', 'm', { delayMs: day });
    const again = await due.one(queue, 'p', 'm', { delayMs: 0 });
    assert.equal(again.status, 'duplicate');
    assert.equal(again.offset, first.offset);
    assert.equal((await due.list({ queue })).messages[0].dueAt, first.dueAt);
    assert.deepEqual(await due.names(queue), []);
  });

  it('are listed by time in pages, by queue, partition and range', async () => {
    const queue = freshName('q');
    const startMs = Date.now() + day;
    const order = [5, 1, 4, 2, 3];
    await due.push(
      order.map((n) => ({
        queue,
        partition: n % 2 === 0 ? 'even' : 'odd',
        transactionId: `t${n}`,
        payload: n,
        dueAt: new Date(startMs + n * 1000).toISOString(),
      })),
    );
    const first = await due.list({ queue, limit: '2' });
    assert.deepEqual(
      first.messages.map((row) => row.transactionId),
      ['t1', 't2'],
    );
    const second = await due.list({ queue, limit: '2', after: String(first.next) });
    assert.deepEqual(
      second.messages.map((row) => row.transactionId),
      ['t3', 't4'],
    );
    const third = await due.list({ queue, limit: '2', after: String(second.next) });
    assert.deepEqual(
      third.messages.map((row) => row.transactionId),
      ['t5'],
    );
    assert.equal(third.next, null);
    const even = await due.list({ queue, partition: 'even' });
    assert.deepEqual(
      even.messages.map((row) => [row.transactionId, row.partition, row.offset]),
      [
        ['t2', 'even', 1],
        ['t4', 'even', 0],
      ],
    );
    const range = await due.list({
      queue,
      from: String(startMs + 2000),
      until: new Date(startMs + 4000).toISOString(),
    });
    assert.deepEqual(
      range.messages.map((row) => row.transactionId),
      ['t2', 't3'],
    );
    assert.deepEqual((await due.list({ queue: freshName('none') })).messages, []);
    for (const query of ['after=x', 'partition=p', 'from=soon', 'limit=x']) {
      assert.equal((await broker.client.request('GET', `/api/v1/due?${query}`)).status, 400, query);
    }
  });

  it('are moved to an earlier time, which wakes who waits, and to a later one', async () => {
    const queue = freshName('q');
    const pushed = await due.one(queue, 'p', 'm', { delayMs: day });
    const waiting = due.names(queue, { waitMs: 20_000 });
    assert.equal(await isOpenAfter(waiting, 200), true);
    const later = await due.move(pushed.message_id, { delayMs: 2 * day });
    assert.equal(later.status, 200);
    assert.equal(later.body.changed, true);
    assert.equal((await due.list({ queue })).messages[0].dueAt, later.body.dueAt);
    const now = await due.move(`queues/${queue}/partitions/p/m`, { dueAt: 0 });
    assert.equal(now.status, 200);
    assert.deepEqual(await waiting, ['m']);
    const late = await due.move(pushed.message_id, { delayMs: day });
    assert.equal(late.status, 409);
    assert.equal(late.body.code, 'not_waiting');
  });

  // S-053
  it('are cancelled for good, by each way to name them, and what comes behind goes on', async () => {
    const queue = freshName('q');
    const first = await due.one(queue, 'p', 'm0', { delayMs: day });
    await due.one(queue, 'p', 'm1', { delayMs: day });
    await due.one(queue, 'p', 'm2', { delayMs: day });
    await due.one(queue, 'p', 'm3');
    await due.one(queue, 'p', 'm4', { delayMs: day });
    const [, row] = (await due.list({ queue })).messages;
    const listed = await broker.client.request<{ messages: { partitionId: string }[] }>(
      'GET',
      `/api/v1/messages?queue=${queue}`,
    );
    const [{ partitionId: uuid }] = listed.body.messages;
    const waiting = due.names(queue, { waitMs: 20_000 });
    for (const path of [first.message_id, `queues/${queue}/partitions/p/m2`, `${row.partitionId}/m1`, `${uuid}/m4`]) {
      const { status, body } = await due.cancel(path);
      assert.equal(status, 200, path);
      assert.equal(body.cancelled, true);
      assert.equal(body.changed, true);
    }
    assert.deepEqual(await waiting, ['m3']);
    const twice = await due.cancel(first.message_id);
    assert.equal(twice.status, 200);
    assert.equal(twice.body.changed, false);
    assert.equal((await due.move(first.message_id, { delayMs: 5 })).status, 409);
    for (const path of [
      'nobody',
      `${uuid}/none`,
      'queues/none/partitions/p/m',
      `queues/${queue}/partitions/none/m`,
      '999999/m',
      `${row.partitionId}/none`,
    ]) {
      const { status, body } = await due.cancel(path);
      assert.equal(status, 404, path);
      assert.equal(body.code, 'not_found');
    }
    assert.equal((await due.cancel(`queues/${queue}/partitions/p/m3`)).status, 409);
    assert.equal((await due.cancel('customer-42/m1')).status, 400);
    const read = await broker.client.request<{ entries: { records: { offset: number }[] }[] }>(
      'POST',
      '/api/v1/fetch',
      {
        json: { entries: [{ queue, partition: 'p', offset: 0 }] },
      },
    );
    assert.equal(read.body.entries[0].records.length, 5, 'reads by offset show what was cancelled');
  });

  it('are named by their message id also when a producer has taken it for a transactionId since', async () => {
    const queue = freshName('q');
    const waiting = await due.one(queue, 'p', 'm0', { delayMs: day });
    await due.one(queue, 'p', waiting.message_id);
    for (const path of [waiting.message_id, `queues/${queue}/partitions/p/${waiting.message_id}`]) {
      const { status, body } = await due.move(path, { delayMs: 2 * day });
      assert.equal(status, 200, path);
      assert.equal(body.offset, waiting.offset);
    }
  });

  it('show their time wherever they are read before it, and that they were cancelled', async () => {
    interface Shown {
      readonly offset: number;
      readonly dueAt?: string;
      readonly cancelled?: boolean;
    }
    const queue = freshName('q');
    const get = async <Body>(path: string): Promise<Body> =>
      (await broker.client.request<Body>('GET', `/api/v1/${path}`)).body;
    await broker.client.pop(queue, { group: 'g', mode: 'all' });
    const names = ['m0', 'm1', 'm2', 'm3'];
    const pushed: DueResult[] = [];
    for (const [i, name] of names.entries()) {
      pushed.push(await due.one(queue, 'p', name, i === 0 || i === 3 ? {} : { delayMs: i * day }));
    }
    assert.equal((await due.cancel(pushed[1].message_id)).status, 200);
    const moved = await due.move(pushed[2].message_id, { delayMs: 3 * day });
    const right: unknown[] = [
      [0, undefined, undefined],
      [1, undefined, true],
      [2, moved.body.dueAt, undefined],
      [3, undefined, undefined],
    ];
    const factsOf = ({ offset, dueAt, cancelled }: Shown) => [offset, dueAt, cancelled];
    const list = await get<{ messages: (Shown & { partitionId: string })[] }>(`messages?queue=${queue}`);
    assert.deepEqual(list.messages.map(factsOf).reverse(), right);
    for (const [offset, name] of names.entries()) {
      const detail = await get<Shown>(`messages/${list.messages[0].partitionId}/${name}`);
      assert.deepEqual([offset, detail.dueAt, detail.cancelled], right[offset]);
    }
    const peeked = await get<{ records: (Shown & { states: { state: string; until: string | null }[] })[] }>(
      `resources/queues/${queue}/partitions/p/peek?group=g`,
    );
    assert.deepEqual(peeked.records.map(factsOf), right);
    assert.deepEqual(
      peeked.records.map(({ states }) => [states[0].state, states[0].until]),
      [
        ['ready', null],
        ['cancelled', null],
        ['delayed', moved.body.dueAt],
        ['delayed', moved.body.dueAt],
      ],
    );
    const read = await broker.client.request<{ entries: { records: Shown[] }[] }>('POST', '/api/v1/fetch', {
      json: { entries: [{ queue, partition: 'p', offset: 0 }] },
    });
    assert.deepEqual(read.body.entries[0].records.map(factsOf), right);
    // What waits is not ready, nor what is behind it, nor what was cancelled.
    const depth = await get<{ pending: number; ready: number }>(`resources/queues/${queue}/depth?group=g`);
    assert.deepEqual([depth.pending, depth.ready], [4, 1]);
    assert.deepEqual(await due.names(queue, { group: 'g' }), ['m0']);
    const soon = await due.move(pushed[2].message_id, { delayMs: 1 });
    assert.equal(soon.status, 200);
    await passed(20);
    assert.deepEqual(await due.names(queue, { group: 'g' }), ['m2', 'm3']);
    const after = await get<Shown>(`messages/${list.messages[0].partitionId}/m2`);
    assert.equal(after.dueAt, undefined);
  });

  it('that are all cancelled leave nothing to do', async () => {
    const queue = freshName('q');
    const group = 'g';
    await due.push(
      ['a', 'b', 'c'].map((name) => ({ queue, partition: 'p', transactionId: name, payload: name, delayMs: day })),
    );
    assert.deepEqual(await due.names(queue, { group, mode: 'all' }), []);
    for (const name of ['a', 'b', 'c']) await due.cancel(`queues/${queue}/partitions/p/${name}`);
    assert.deepEqual(await due.names(queue, { group, mode: 'all' }), []);
    const { body } = await broker.client.request<{ totalLag: number; name: string }[]>(
      'GET',
      '/api/v1/consumer-groups',
    );
    const found = (body as unknown as { name: string; queueName: string; totalLag: number }[]).find(
      (row) => row.queueName === queue && row.name === group,
    );
    assert.equal(found?.totalLag, 0);
    await due.one(queue, 'p', 'd');
    assert.deepEqual(await due.names(queue, { group, mode: 'all' }), ['d']);
  });

  // S-055
  it('are no backlog: their age does not count, and they have a count of their own', async () => {
    const queue = freshName('q');
    const other = freshName('q');
    await due.one(queue, 'p', 'waits', { delayMs: day });
    await due.one(other, 'p', 'there');
    for (const name of [queue, other]) {
      const messages = await broker.client.pop(name, { group: 'g', mode: 'all', leaseSeconds: 60 });
      if (messages.length > 0) await broker.client.ack(messages, 'retry');
    }
    await passed(1100);
    const answer = await broker.client.request<{ queueName: string; totalLag: number; maxTimeLag: number }[]>(
      'GET',
      '/api/v1/consumer-groups',
    );
    const rowOf = (name: string) => answer.body.find((row) => row.queueName === name);
    assert.equal(rowOf(queue)?.totalLag, 1);
    assert.equal(rowOf(queue)?.maxTimeLag, 0);
    assert.ok(Number(rowOf(other)?.maxTimeLag) >= 1);
    const metrics = await broker.client.request('GET', '/metrics/prometheus');
    assert.match(metrics.bytes.toString(), /due_messages\{?[^\n]* [1-9]/);
  });

  it('that were passed by a seek are passed, and come again after a seek back', async () => {
    const queue = freshName('q');
    await due.one(queue, 'p', 'm1', { delayMs: day });
    await due.one(queue, 'p', 'm2');
    assert.deepEqual(await due.names(queue, { group: 'g', mode: 'all' }), []);
    const seek = (json: object) =>
      broker.client.request('POST', `/api/v1/consumer-groups/g/queues/${queue}/seek`, { json });
    assert.equal((await seek({ offset: 1 })).status, 200);
    assert.deepEqual(await due.names(queue, { group: 'g', mode: 'all' }), ['m2']);
    assert.equal((await seek({ toBeginning: true })).status, 200);
    assert.deepEqual(await due.names(queue, { group: 'g', mode: 'all' }), []);
    await due.move(`queues/${queue}/partitions/p/m1`, { delayMs: 0 });
    assert.deepEqual(await due.names(queue, { group: 'g', mode: 'all' }), ['m1', 'm2']);
  });

  it('cannot be acked before they were delivered', async () => {
    const queue = freshName('q');
    await due.one(queue, 'p', 'm1');
    await due.one(queue, 'p', 'm2', { delayMs: day });
    const [message] = await broker.client.pop(queue);
    await broker.client.ack([message]);
    const ack = await broker.client.ackItems(null, [
      { ...ackOf(message), transactionId: 'm2', leaseId: null, status: 'completed' },
    ]);
    assert.equal(ack[0].success, false);
    assert.equal((await due.list({ queue })).messages.length, 1);
  });

  it('are for a conflating group what they are for others: nothing passes them', async () => {
    const queue = freshName('q');
    await due.push([
      { queue, partition: 'p', payload: 'old' },
      { queue, partition: 'p', payload: 'new' },
      { queue, partition: 'p', payload: 'due', delayMs: 1500 },
      { queue, partition: 'p', payload: 'newest' },
    ]);
    const options: PopOptions = { group: 'g', conflation: true, mode: 'all' };
    assert.deepEqual(await due.names(queue, options), ['new']);
    assert.deepEqual(await due.names(queue, { ...options, waitMs: 10_000 }), ['newest']);
  });

  // S-053
  it('that are cancelled at their very time are either cancelled or delivered', async () => {
    const queue = freshName('q');
    const rounds = sized(100, 1000);
    await due.push(
      Array.from({ length: rounds }, (_, n) => ({
        queue,
        partition: `p${n}`,
        transactionId: `m${n}`,
        payload: `m${n}`,
        delayMs: 1000 + (n % 50),
      })),
    );
    const delivered = new Set<unknown>();
    let stopped = false;
    const consume = async (): Promise<void> => {
      while (!stopped) for (const name of await due.names(queue, { partitions: 50, waitMs: 200 })) delivered.add(name);
    };
    const consumers = [consume(), consume()];
    await passed(950);
    const cancelled = new Set<string>();
    let tooLate = 0;
    for (let n = 0; n < rounds; n++) {
      const { status } = await due.cancel(`queues/${queue}/partitions/p${n}/m${n}`);
      if (status === 200) cancelled.add(`m${n}`);
      else {
        assert.equal(status, 409);
        tooLate++;
      }
    }
    await eventually(async () => delivered.size >= tooLate, 10_000, 'all that was too late to cancel is delivered');
    await passed(300);
    stopped = true;
    await Promise.all(consumers);
    assert.equal(delivered.size + cancelled.size, rounds);
    for (const name of cancelled) assert.equal(delivered.has(name), false);
  });
});

describe('due messages over restarts', { concurrency: 2 }, () => {
  for (const [how, again] of [
    ['a clean stop', (broker: BrokerProcess) => broker.stop()],
    ['a kill', (broker: BrokerProcess) => broker.kill()],
  ] as const) {
    // S-050, S-052, S-053
    it(`are kept over ${how}, with what was moved and cancelled`, async () => {
      const broker = await BrokerProcess.start();
      const due = new DueClient(broker);
      try {
        const queue = freshName('q');
        await due.one(queue, 'past', 'due-meanwhile', { delayMs: 800 });
        await due.one(queue, 'p', 'cancelled', { delayMs: day });
        await due.one(queue, 'p', 'first');
        await due.one(queue, 'p', 'moved', { delayMs: day });
        await due.one(queue, 'p', 'behind');
        assert.equal((await due.cancel(`queues/${queue}/partitions/p/cancelled`)).status, 200);
        const moved = await due.move(`queues/${queue}/partitions/p/moved`, { delayMs: 6000 });
        await again(broker);
        await passed(900);
        await broker.launch();
        const list = await due.list({ queue });
        assert.deepEqual(
          list.messages.map((row) => [row.transactionId, row.dueAt]),
          [['moved', moved.body.dueAt]],
        );
        const messages = await broker.client.pop(queue, { partition: 'past', waitMs: 1000 });
        assert.deepEqual(
          messages.map((message) => [message.data, message.deliveryAttempt]),
          [['due-meanwhile', 1]],
        );
        assert.deepEqual(await due.names(queue, { partition: 'p' }), ['first']);
        assert.deepEqual(await due.names(queue, { partition: 'p' }), []);
        assert.deepEqual(await due.names(queue, { partition: 'p', waitMs: 15_000 }), ['moved', 'behind']);
        assert.ok(Date.now() >= Date.parse(String(moved.body.dueAt)));
      } finally {
        await broker.dispose();
      }
    });
  }
});
