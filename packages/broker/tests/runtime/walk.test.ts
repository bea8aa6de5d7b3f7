/**
 * Reads of a queue with very many partitions: they take many turns, and pushes are served between them.
 * With LANEMQ_TEST_SLOW=1 the queue has a million partitions, and the longest turn is measured against its limit.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { createHasher } from '../../src/codec/mod.ts';
import type { Reply, Shard } from '../../src/runtime/mod.ts';
import { rowsPerTurn } from '../../src/runtime/turn-budget.ts';
import { call, pushItems, turnMsMax, type WatchedWork, whilePushing } from './loop-watch.ts';
import { openShard } from './open-shard.ts';

const { LANEMQ_TEST_SLOW } = process.env;
const slow = LANEMQ_TEST_SLOW === '1';
const partitionCount = slow ? 1_000_000 : 60_000;
const itemsPerPush = 2000;

describe(`reads of a queue with ${partitionCount} partitions`, () => {
  let folder: string;
  let shard: Shard;

  before(async () => {
    await createHasher(0, 0);
    folder = await mkdtemp(join(tmpdir(), 'lanemq-walks-'));
    shard = await openShard(folder, (store) => store, { segmentBytes: 1024 * 1024 * 1024 });
    for (let first = 0; first < partitionCount; first += itemsPerPush) {
      await pushItems(
        shard,
        Array.from({ length: itemsPerPush }, (_, i) => ({
          queue: 'q',
          partition: `partition-${first + i}`,
          payload: 1,
        })),
      );
    }
  });

  after(async () => {
    await shard.stop();
    await rm(folder, { recursive: true, force: true });
  });

  async function watched<Outcome>(context: TestContext, read: () => Promise<Outcome>): Promise<WatchedWork<Outcome>> {
    const work = await whilePushing(shard, { queue: 'q', partition: 'partition-0', payload: 1 }, read);
    context.diagnostic(work.text);
    if (slow) assert.ok(work.longestMs < turnMsMax, work.text);
    return work;
  }

  const everyPartition = Math.floor(partitionCount / rowsPerTurn);

  it('measure the depth in many turns, and pushes go on between them', async (context) => {
    const page = { limit: 1000, after: 0 };
    const { outcome, turns, pushes } = await watched(context, () =>
      call((reply: Reply<{ pending: number; partitionsPending: number } | null>) =>
        shard.views.queueDepth('q', 'g', page, reply),
      ),
    );
    assert.equal(outcome?.partitionsPending, partitionCount);
    assert.ok(outcome.pending >= partitionCount);
    assert.ok(turns >= everyPartition, `${turns} turns`);
    assert.ok(pushes > 1, 'pushes are answered before the walk is over');
  });

  it('find the newest messages of all partitions in many turns', async (context) => {
    const filter = {
      queue: 'q',
      partition: null,
      namespace: null,
      task: null,
      status: null,
      fromUs: 0,
      toUs: null,
      limit: 1000,
      offset: 0,
    };
    const { outcome, turns } = await watched(context, () =>
      call((reply: Reply<{ rows: readonly { createdAtUs: number }[] }>) => shard.views.messages(filter, reply)),
    );
    assert.equal(outcome.rows.length, 1000);
    for (let i = 1; i < outcome.rows.length; i++) {
      assert.ok(outcome.rows[i - 1].createdAtUs >= outcome.rows[i].createdAtUs);
    }
    assert.ok(turns >= everyPartition, `${turns} turns`);
  });

  it('find no message with a status that none has, and stop looking', async (context) => {
    const filter = {
      queue: 'q',
      partition: null,
      namespace: null,
      task: null,
      status: 'completed' as const,
      fromUs: 0,
      toUs: null,
      limit: 10,
      offset: 0,
    };
    const { outcome } = await watched(context, () =>
      call((reply: Reply<{ rows: readonly object[]; totalIsExact: boolean }>) => shard.views.messages(filter, reply)),
    );
    assert.deepEqual([outcome.rows.length, outcome.totalIsExact], [0, false]);
  });

  it('page through all partitions, each once', async (context) => {
    const names = new Set<string>();
    let seen = 0;
    await watched(context, async () => {
      let after = 0;
      for (let pages = 0; pages < 20; pages++) {
        const page = await call(
          (reply: Reply<{ partitions: readonly { name: string }[]; partitionsNext: number | null } | null>) =>
            shard.views.queueSizes('q', { limit: 1000, after }, reply),
        );
        for (const { name } of page?.partitions ?? []) names.add(name);
        seen += page?.partitions.length ?? 0;
        after = page?.partitionsNext ?? 0;
      }
    });
    assert.deepEqual([names.size, seen], [20_000, 20_000]);
  });

  it('show a page of its detail', async (context) => {
    const { outcome } = await watched(context, () =>
      call((reply: Reply<{ partitions: readonly object[] } | null>) =>
        shard.views.queueDetail('q', { limit: 1000, after: 0 }, reply),
      ),
    );
    assert.equal(outcome?.partitions.length, 1000);
  });

  it('read twenty depths at once within the budget of one', async (context) => {
    const page = { limit: 10, after: 0 };
    const { turns } = await watched(context, () =>
      Promise.all(
        Array.from({ length: slow ? 5 : 20 }, () =>
          call((reply: Reply<object | null>) => shard.views.queueDepth('q', 'g', page, reply)),
        ),
      ),
    );
    assert.ok(turns >= everyPartition * (slow ? 5 : 20), `${turns} turns`);
  });

  it('walk over many traces in many turns', async (context) => {
    const count = slow ? 100_000 : 12_000;
    const facts = { pid: 0, partitionCreatedAtUs: 0, group: null, eventType: 'event', worker: null, traceId: null };
    for (let first = 0; first < count; first += 2000) {
      await Promise.all(
        Array.from({ length: 2000 }, (_, i) =>
          call((reply: Reply<object>) =>
            shard.views.recordTrace(
              { ...facts, transactionId: `t${first + i}`, names: ['all', `n${i}`], data: 'null', messageId: null },
              reply,
            ),
          ),
        ),
      );
    }
    const { outcome } = await watched(context, () =>
      call((reply: Reply<{ rows: readonly { name: string; messages: number }[]; total: number }>) =>
        shard.views.traceNames({ limit: 10, offset: 0 }, reply),
      ),
    );
    assert.equal(outcome.total, 2001);
    assert.equal(outcome.rows.find(({ name }) => name === 'all')?.messages, count);
  });
});
