/** Consumer groups as operators handle them: seek, delete, start, pause, lists, positions (contract 10). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type BrokerClient, freshName, type Message } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { eventually, isOpenAfter, passed, timed } from './clock.ts';
import {
  askSeek,
  deleteGroup,
  describeGroup,
  groupPath,
  groupRow,
  listGroups,
  partitionPath,
  queuePath,
  seek,
  setPaused,
} from './group-client.ts';

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);
const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${name}${i + 1}`);
const hourAgo = (): string => new Date(Date.now() - 3_600_000).toISOString();

/** Pops and acks until nothing comes. */
async function drain(client: BrokerClient, queue: string, group: string, mode = 'all'): Promise<Message[]> {
  const got: Message[] = [];
  for (;;) {
    const messages = await client.pop(queue, { group, mode, batch: 1000, partitions: 64 });
    if (messages.length === 0) return got;
    got.push(...messages);
    await client.ack(messages);
  }
}

describe('consumer groups', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // B-GRP-7
  it('delivers everything again after a seek to a time before the pushes', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    for (const partition of numbered('p', 10)) await client.pushAll(queue, partition, [partition]);
    assert.equal((await drain(client, queue, group)).length, 10);
    const sought = await seek(client, group, queue, { timestamp: hourAgo() });
    assert.equal(sought.partitionsUpdated, 10);
    assert.equal(sought.updated, true);
    const again = await timed(drain(client, queue, group));
    assert.deepEqual(dataOf(again.result).sort(), numbered('p', 10).sort());
    assert.ok(again.tookMs < 3000);
  });

  // B-GRP-7
  // contract 19.37
  it('releases a live lease by a seek, and lets the next pop have all in order, at attempt 1', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', numbered('m', 3));
    const leased = await client.pop(queue, { group, mode: 'all' });
    assert.equal(leased.length, 3);
    assert.deepEqual(await client.pop(queue, { group }), []);
    await seek(client, group, queue, { timestamp: hourAgo() });
    const got = await client.pop(queue, { group });
    assert.deepEqual(dataOf(got), numbered('m', 3));
    assert.ok(got.every(({ deliveryAttempt }) => deliveryAttempt === 1));
    const late = await client.ack(leased);
    assert.ok(late.every(({ success, error }) => !success && error === 'invalid or expired lease'));
  });

  // S-041
  it('refuses the late ack of a message handed out before a seek back', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', numbered('m', 20));
    await client.ack(await client.pop(queue, { group, mode: 'all', batch: 9 }));
    const held = await client.pop(queue, { group, batch: 3 });
    assert.deepEqual(dataOf(held), ['m10', 'm11', 'm12']);
    await seek(client, group, queue, { toBeginning: true });
    assert.equal((await client.ackOne(held[2])).success, false);
    const got = await client.pop(queue, { group, batch: 5 });
    assert.deepEqual(dataOf(got), numbered('m', 5));
    assert.ok(got.every(({ deliveryAttempt }) => deliveryAttempt === 1));
  });

  // contract 19.37
  it('seeks to the end with an empty body or toEnd, to a time, to an offset and to the beginning', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', ['a', 'b']);
    await passed(5);
    const between = new Date().toISOString();
    await passed(5);
    await client.pushAll(queue, 'p', ['c']);
    await client.pushAll(queue, 'other', ['x']);
    const first = async (): Promise<unknown[]> => {
      const messages = await client.pop(queue, { group, mode: 'all', partition: 'p', batch: 1 });
      return dataOf(messages);
    };
    const empty = await seek(client, group, queue);
    assert.deepEqual(empty, {
      success: true,
      consumerGroup: group,
      queueName: queue,
      partitionName: null,
      seekToEnd: true,
      seekToBeginning: false,
      targetTimestamp: null,
      targetOffset: null,
      partitionsUpdated: 2,
      updated: true,
    });
    assert.deepEqual(await first(), []);
    const timed = await seek(client, group, queue, { timestamp: between }, 'p');
    assert.equal(timed.targetTimestamp, `${between.slice(0, 23)}000Z`);
    assert.equal(timed.partitionName, 'p');
    assert.equal(timed.partitionsUpdated, 1);
    assert.deepEqual(await first(), ['c']);
    assert.deepEqual(await client.pop(queue, { group, partition: 'other' }), []);
    await seek(client, group, queue, { offset: 1 }, 'p');
    assert.deepEqual(await first(), ['b']);
    await seek(client, group, queue, { offset: 99 }, 'p');
    assert.deepEqual(await first(), []);
    await seek(client, group, queue, { toBeginning: true });
    assert.deepEqual(await first(), ['a']);
    await seek(client, group, queue, { toEnd: true });
    assert.deepEqual(await first(), []);
    await client.pushAll(queue, 'p', ['d']);
    assert.deepEqual(await first(), ['d']);
  });

  // contract 19.37
  it('refuses a seek of what is not there and of what it does not understand', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    const unknown = await askSeek(client, group, queue, { toEnd: true });
    assert.equal(unknown.status, 404);
    assert.deepEqual(
      [unknown.body.success, unknown.body.error, unknown.body.partitionsUpdated, unknown.body.consumerGroup],
      [false, 'Queue not found or has no partitions', 0, group],
    );
    await client.configure(queue);
    assert.equal((await askSeek(client, group, queue)).status, 404);
    await client.pushAll(queue, 'p', ['a']);
    const partition = await askSeek(client, group, queue, { toEnd: true }, 'nobody');
    assert.deepEqual([partition.status, partition.body.error], [404, 'Partition not found']);
    const refusals = [
      {},
      { toEnd: false },
      { timestamp: 'soon' },
      { offset: -1 },
      { offset: 1.5 },
      { toEnd: true, offset: 1 },
    ];
    for (const target of refusals) {
      const answer = await askSeek(client, group, queue, target);
      assert.deepEqual([answer.status, answer.body.success], [400, false], JSON.stringify(target));
    }
    assert.equal((await askSeek(client, group, queue, {})).body.error, 'Must specify toEnd=true or a timestamp');
    const long = await askSeek(client, 'g'.repeat(500), queue, { toEnd: true });
    assert.equal(long.status, 413);
  });

  it('gives a group that never existed positions by a seek, and leaves its start to its first pop', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'old', ['a', 'b']);
    await seek(client, group, queue, { offset: 1 });
    assert.equal((await groupRow(client, group, queue))?.subscriptionMode, null);
    await client.pushAll(queue, 'young', ['x']);
    assert.deepEqual(dataOf(await drain(client, queue, group, 'all')).sort(), ['b', 'x']);
    assert.equal((await groupRow(client, group, queue))?.subscriptionMode, 'all');
  });

  // S-036
  it('wakes parked pops by a seek, one for each partition', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    for (const partition of ['p', 'q', 'r']) await client.pushAll(queue, partition, [partition]);
    await drain(client, queue, group);
    const parked = [1, 2, 3].map(() => client.pop(queue, { group, waitMs: 20_000 }));
    assert.ok(await isOpenAfter(Promise.race(parked), 200));
    await seek(client, group, queue, { toBeginning: true });
    const { result, tookMs } = await timed(Promise.all(parked));
    assert.deepEqual(result.flatMap(dataOf).sort(), ['p', 'q', 'r']);
    assert.ok(tookMs < 2000);
  });

  // S-043
  it('moves one group by a seek and no other', async () => {
    const { client } = broker;
    const queue = freshName('q');
    await client.pushAll(queue, 'p', ['a', 'b']);
    await drain(client, queue, 'moved');
    await drain(client, queue, 'left alone');
    await seek(client, 'moved', queue, { toBeginning: true });
    assert.deepEqual(await client.pop(queue, { group: 'left alone' }), []);
    assert.deepEqual(dataOf(await client.pop(queue, { group: 'moved' })), ['a', 'b']);
    await deleteGroup(client, 'moved');
    assert.deepEqual(await client.pop(queue, { group: 'left alone' }), []);
  });

  // B-GRP-8
  // S-040
  it('lets the name of a deleted group begin anew in any mode', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', numbered('m', 7));
    await passed(5);
    const from = new Date().toISOString();
    await passed(5);
    await client.pushAll(queue, 'p', ['n1', 'n2', 'n3']);
    const expected: [Parameters<BrokerClient['pop']>[1], number][] = [
      [{ mode: 'all' }, 10],
      [{ mode: 'new' }, 0],
      [{ from }, 3],
      // The default of the server, which /health shows.
      [{}, 0],
    ];
    const health = await client.request<{ defaultSubscriptionMode: string }>('GET', '/health');
    assert.equal(health.body.defaultSubscriptionMode, 'new');
    assert.equal((await drain(client, queue, group)).length, 10);
    for (const [start, count] of expected) {
      const deleted = await deleteGroup(client, group);
      assert.deepEqual([deleted.success, deleted.metadataDeleted, deleted.queueName], [true, true, null]);
      assert.deepEqual(deleted.queues, [queue]);
      const messages = await client.pop(queue, { group, batch: 100, ...start });
      assert.equal(messages.length, count, JSON.stringify(start));
      const row = await groupRow(client, group, queue);
      assert.equal(row?.subscriptionMode, start?.from !== undefined ? 'timestamp' : (start?.mode ?? 'new'));
    }
  });

  it('starts a group again as it first did when only its positions are deleted', async () => {
    const { client } = broker;
    const queue = freshName('q');
    await client.pushAll(queue, 'p', ['old']);
    assert.deepEqual(await client.pop(queue, { group: 'new', mode: 'new' }), []);
    await client.pushAll(queue, 'p', ['fresh']);
    assert.deepEqual(dataOf(await drain(client, queue, 'new', 'all')), ['fresh']);
    const deleted = await deleteGroup(client, 'new', queue, 'false');
    assert.deepEqual([deleted.deletedPartitions, deleted.metadataDeleted, deleted.queueName], [1, false, queue]);
    assert.deepEqual(dataOf(await drain(client, queue, 'new', 'all')), ['fresh']);
  });

  it('wakes parked pops when the positions of their group are deleted, and ends them when the group is', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    for (const partition of ['p', 'q']) await client.pushAll(queue, partition, [partition]);
    await drain(client, queue, group);
    const woken = [1, 2].map(() => client.pop(queue, { group, waitMs: 20_000 }));
    assert.ok(await isOpenAfter(Promise.race(woken), 200));
    await deleteGroup(client, group, queue, 'false');
    assert.deepEqual((await Promise.all(woken)).flatMap(dataOf).sort(), ['p', 'q']);
    const ended = client.pop(queue, { group, waitMs: 20_000 });
    assert.ok(await isOpenAfter(ended, 200));
    await deleteGroup(client, group);
    assert.deepEqual((await timed(ended)).result, []);
  });

  it('answers the acks of a deleted group as stale, and deletes what is not there', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', ['a', 'b']);
    const held = await client.pop(queue, { group, mode: 'all' });
    await deleteGroup(client, group);
    const acked = await client.ack(held);
    assert.ok(acked.every(({ success, error }) => !success && /unresolvable|lease/.test(error ?? '')));
    assert.equal((await client.extend(held[0].leaseId, 60)).success, false);
    const absent = await deleteGroup(client, group);
    assert.deepEqual([absent.success, absent.deletedPartitions, absent.queues], [true, 0, []]);
    const detail = await client.request('GET', groupPath(group));
    assert.deepEqual([detail.status, detail.body.error], [404, 'Consumer group not found']);
  });

  it('switches registered groups to a time, where they have no position yet', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'seen', ['a']);
    await client.pushAll(queue, 'unseen', ['old']);
    assert.deepEqual(await client.pop(queue, { group, mode: 'new' }), []);
    await client.pushAll(queue, 'seen', ['b']);
    await drain(client, queue, group);
    const text = hourAgo();
    const answer = await client.request<{ newTimestamp: string; rowsUpdated: number; success: boolean }>(
      'POST',
      `${groupPath(group)}/subscription`,
      { json: { subscriptionTimestamp: text } },
    );
    assert.deepEqual(answer.body, { success: true, consumerGroup: group, newTimestamp: text, rowsUpdated: 1 });
    assert.deepEqual(dataOf(await drain(client, queue, group)), ['old']);
    assert.equal((await groupRow(client, group, queue))?.subscriptionMode, 'timestamp');
    const bad = await client.request('POST', `${groupPath(group)}/subscription`, { json: {} });
    assert.deepEqual([bad.status, bad.body.code], [400, 'bad_request']);
  });

  it('delivers nothing of a paused queue, group or partition, takes acks, and goes on with parked pops', async () => {
    const { client } = broker;
    for (const what of ['queue', 'group', 'partition'] as const) {
      const [queue, group] = [freshName('q'), freshName('g')];
      await client.pushAll(queue, 'p', ['a', 'b']);
      const held = await client.pop(queue, { group, mode: 'all', batch: 1 });
      const path =
        what === 'queue' ? queuePath(queue) : what === 'group' ? groupPath(group, queue) : partitionPath(queue, 'p');
      assert.equal(await setPaused(client, path, true), true);
      assert.equal(await setPaused(client, path, true), false);
      assert.ok((await client.ack(held)).every(({ success }) => success));
      await client.pushAll(queue, 'p', ['c']);
      assert.deepEqual(await client.pop(queue, { group }), []);
      assert.deepEqual(await client.pop(queue, { group, partition: 'p' }), []);
      if (what !== 'group') assert.deepEqual(await client.pop(queue, { group: 'another', mode: 'all' }), []);
      const anywhere = client.pop(queue, { group, waitMs: 20_000 });
      assert.ok(await isOpenAfter(anywhere, 150));
      await client.pushAll(queue, 'p', ['d']);
      assert.ok(await isOpenAfter(anywhere, 150), `a pop of a paused ${what} stays parked`);
      assert.equal(await setPaused(client, path, false), true);
      const { result, tookMs } = await timed(anywhere);
      assert.deepEqual(dataOf(result), ['b', 'c', 'd']);
      assert.ok(tookMs < 2000);
      await client.ack(result);
      await setPaused(client, path, true);
      const pinned = client.pop(queue, { group, partition: 'p', waitMs: 20_000 });
      await client.pushAll(queue, 'p', ['e']);
      assert.ok(await isOpenAfter(pinned, 150));
      await setPaused(client, path, false);
      assert.deepEqual(dataOf(await pinned), ['e']);
    }
  });

  it('leaves the other partitions and groups alone when one is paused, and answers 404 for what is not there', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', ['a']);
    await client.pushAll(queue, 'q', ['b']);
    await setPaused(client, partitionPath(queue, 'p'), true);
    assert.deepEqual(dataOf(await client.pop(queue, { group, mode: 'all', partitions: 9 })), ['b']);
    await setPaused(client, groupPath(group, queue), true);
    assert.deepEqual(dataOf(await client.pop(queue, { group: 'another', mode: 'all', partitions: 9 })), ['b']);
    const row = await groupRow(client, group, queue);
    assert.deepEqual([row?.paused, row?.queuePaused], [true, false]);
    const detail = await client.queueDetail(queue);
    const paused = detail.partitions as unknown as { name: string; paused: boolean }[];
    assert.deepEqual(
      paused.map(({ name, paused: isPaused }) => [name, isPaused]),
      [
        ['p', true],
        ['q', false],
      ],
    );
    for (const path of [queuePath('nothing'), partitionPath(queue, 'nothing'), groupPath('nobody', queue)]) {
      const answer = await client.request('POST', `${path}/pause`);
      assert.equal(answer.status, 404);
    }
  });

  it('keeps a pause when the queue is configured', async () => {
    const { client } = broker;
    const queue = freshName('q');
    await client.pushAll(queue, 'p', ['a']);
    await setPaused(client, queuePath(queue), true);
    await client.configure(queue, { leaseTime: 5 });
    assert.deepEqual(await client.pop(queue), []);
    const row = (await client.queueRow(queue)) as unknown as { paused: boolean };
    assert.equal(row.paused, true);
    await setPaused(client, queuePath(queue), false);
    assert.deepEqual(dataOf(await client.pop(queue)), ['a']);
  });

  it('lists groups with exact lag, positions and members', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', numbered('m', 5));
    await client.pushAll(queue, 'q', numbered('n', 3));
    const held = await client.pop(queue, { group, mode: 'all', batch: 2 });
    await client.ack(held.slice(0, 1));
    const row = await groupRow(client, group, queue);
    assert.ok(row !== undefined);
    assert.deepEqual(
      [row.topics, row.totalLag, row.partitionsWithLag, row.partitionCursors, row.lagIsExact, row.kind, row.state],
      [[queue], 7, 2, 1, true, 'queen', 'Stable'],
    );
    assert.ok(row.members >= 1);
    const detail = (await describeGroup(client, group))[queue];
    assert.deepEqual(
      detail.partitions.map((each) => [
        each.partition,
        each.offsetLag,
        each.nextOffset,
        each.leaseActive,
        each.totalConsumed,
      ]),
      [
        ['p', 4, 1, true, 1],
        ['q', 3, null, false, 0],
      ],
    );
    assert.equal(detail.partitions[0].workerId, held[0].leaseId);
    const page = (await describeGroup(client, group, '?limit=1&offset=1'))[queue];
    assert.deepEqual([page.partitions.map(({ partition }) => partition), page.partitionsTruncated], [['q'], false]);
    assert.equal((await describeGroup(client, group, '?limit=1'))[queue].partitionsTruncated, true);
    const ask = async (body: object): Promise<unknown> =>
      (await client.request<object>('POST', '/api/v1/consumer-groups/positions', { json: body })).body;
    assert.deepEqual(await ask({ consumerGroup: group }), {
      consumerGroup: group,
      entries: [{ queue, partition: 'p', offset: 1, metadata: null }],
      truncated: false,
    });
    assert.deepEqual(
      await ask({
        consumerGroup: group,
        entries: [{ queue, partition: 'q' }, { queue: 'nothing', partition: 'x' }, { queue }],
      }),
      {
        consumerGroup: group,
        entries: [
          { queue, partition: 'q', offset: null, metadata: null },
          { queue: 'nothing', partition: 'x', offset: null, metadata: null },
          { queue, partition: 'p', offset: 1, metadata: null },
        ],
        truncated: false,
      },
    );
  });

  it('lists the partitions in which a group lags', async () => {
    const { client } = broker;
    const [queue, group] = [freshName('q'), freshName('g')];
    await client.pushAll(queue, 'p', ['a', 'b']);
    await client.pop(queue, { group, mode: 'all', batch: 1 });
    await passed(1100);
    await client.pushAll(queue, 'young', ['x']);
    const path = '/api/v1/consumer-groups/lagging';
    const answer = await client.request<Record<string, unknown>[]>('GET', `${path}?minLagSeconds=1`);
    const rows = answer.body.filter((row) => row['consumer_group'] === group);
    assert.equal(rows.length, 1);
    assert.deepEqual([rows[0]['queue_name'], rows[0]['partition_name'], rows[0]['offset_lag']], [queue, 'p', 2]);
    assert.match(String(rows[0]['oldest_unconsumed_at']), /\.\d{3}Z$/);
    assert.ok(Number(rows[0]['time_lag_seconds']) >= 1);
    const none = await client.request<Record<string, unknown>[]>('GET', path);
    assert.ok(none.body.every((row) => row['consumer_group'] !== group));
  });
});

describe('consumer groups over a restart', () => {
  it('keeps seeks, deletions and pauses over SIGKILL and over a stop', async () => {
    const broker = await BrokerProcess.start();
    try {
      const { client } = broker;
      const queue = 'orders';
      await client.pushAll(queue, 'p', ['a', 'b', 'c']);
      await client.pushAll(queue, 'q', ['x']);
      for (const group of ['sought', 'deleted', 'restarted']) await drain(client, queue, group);
      await seek(client, 'sought', queue, { offset: 1 }, 'p');
      await deleteGroup(client, 'deleted');
      await deleteGroup(client, 'restarted', queue, 'false');
      await setPaused(client, partitionPath(queue, 'q'), true);
      await setPaused(client, groupPath('restarted', queue), true);
      for (const again of [() => broker.killAndRestart(), () => broker.restart()]) {
        await again();
        assert.deepEqual((await listGroups(client)).map(({ name }) => name).sort(), ['restarted', 'sought']);
        assert.deepEqual(await client.pop(queue, { group: 'restarted', mode: 'all' }), []);
        assert.equal((await groupRow(client, 'restarted', queue))?.totalLag, 4);
        assert.equal((await groupRow(client, 'sought', queue))?.totalLag, 2);
      }
      assert.deepEqual(dataOf(await drain(client, queue, 'sought')), ['b', 'c']);
      await setPaused(client, groupPath('restarted', queue), false);
      assert.deepEqual(dataOf(await drain(client, queue, 'restarted')), ['a', 'b', 'c']);
      await setPaused(client, queuePath(queue), true);
      await setPaused(client, partitionPath(queue, 'q'), false);
      await broker.killAndRestart();
      assert.deepEqual(await client.pop(queue, { group: 'restarted', mode: 'all' }), []);
      await setPaused(client, queuePath(queue), false);
      assert.deepEqual(dataOf(await drain(client, queue, 'restarted')), ['x']);
    } finally {
      await broker.dispose();
    }
  });

  it('seeks, deletes and lists with many partitions while others are served', async () => {
    const broker = await BrokerProcess.start();
    try {
      const { client } = broker;
      const count = sized(20_000, 200_000);
      for (let at = 0; at < count; at += 5000) {
        await client.push(
          Array.from({ length: 5000 }, (_, i) => ({ queue: 'many', partition: `p${at + i}`, payload: i })),
        );
      }
      await client.pushAll('other', 'p', ['a']);
      let slowest = 0;
      let isOver = false;
      const watch = (async () => {
        while (!isOver) {
          const { tookMs } = await timed(client.pop('other', { group: freshName('g'), mode: 'all' }));
          slowest = Math.max(slowest, tookMs);
        }
      })();
      assert.equal((await seek(client, 'g', 'many', { toBeginning: true })).partitionsUpdated, count);
      const from = new Date(Date.now() - 1).toISOString();
      assert.equal((await seek(client, 'g', 'many', { timestamp: from })).partitionsUpdated, count);
      assert.equal((await seek(client, 'g', 'many', { toBeginning: true })).partitionsUpdated, count);
      assert.deepEqual(
        [(await groupRow(client, 'g', 'many'))?.totalLag, (await groupRow(client, 'g', 'many'))?.partitionsWithLag],
        [count, count],
      );
      const deleted = await timed(deleteGroup(client, 'g'));
      assert.equal(deleted.result.deletedPartitions, count);
      // Its rows are given back by and by.
      await eventually(
        async () => {
          const metrics = await client.request<Record<string, number>>('GET', '/metrics');
          return metrics.body['cursors'] < count;
        },
        20_000,
        'the cursors of a deleted group are given back',
      );
      isOver = true;
      await watch;
      assert.ok(slowest < 1000, `a pop of another queue took ${slowest} ms`);
    } finally {
      await broker.dispose();
    }
  });
});
