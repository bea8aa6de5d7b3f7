/**
 * Work on very many partitions or dead letters is done in slices, and pushes are served between them.
 * With LANEMQ_TEST_SLOW=1 there are a million of them, and the longest turn is measured against its limit.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHasher, scanAckBody } from '../../src/codec/mod.ts';
import { idText, type PopOutcome, type SeekTarget } from '../../src/core/mod.ts';
import type { Reply, RowsReply, Shard } from '../../src/runtime/mod.ts';
import { call, pushItems, turnMsMax, whilePushing } from './loop-watch.ts';
import { openShard } from './open-shard.ts';

const { LANEMQ_TEST_SLOW } = process.env;
const slow = LANEMQ_TEST_SLOW === '1';
const partitionCount = slow ? 1_000_000 : 20_000;
const letterCount = slow ? 1_000_000 : 20_000;
const itemsPerPush = 2000;
const group = 'g';
/**
 * A million dead letters are millions of objects. While they go one by one the collector has to look at all of them a few
 * times, and its last step alone takes longer than a turn may.
 */
const collectorMsMax = 80;

/** Hands on how many rows there were: to keep a million of them would itself hold up the loop. */
function counted<Row, End>(reply: Reply<End>, count: (rows: readonly Row[]) => void): RowsReply<Row, End> {
  return {
    rows: count,
    encode: (end) => reply.encode(end),
    send: (failure) => reply.send(failure),
  };
}

describe('work on very many rows', () => {
  let folder: string;
  let shard: Shard;

  async function watched<Outcome>(
    context: TestContext,
    work: () => Promise<Outcome>,
    msMax = turnMsMax,
  ): Promise<Outcome> {
    const seen = await whilePushing(shard, { queue: 'other', partition: 'p', payload: 1 }, work);
    context.diagnostic(seen.text);
    if (slow) assert.ok(seen.longestMs < msMax, seen.text);
    return seen.outcome;
  }

  before(async () => {
    await createHasher(0, 0);
    folder = await mkdtemp(join(tmpdir(), 'lanemq-stalls-'));
    shard = await openShard(folder, (store) => store, { segmentBytes: 1024 * 1024 * 1024 });
  });

  after(async () => {
    await shard.stop();
    await rm(folder, { recursive: true, force: true });
  });

  describe(`groups on ${partitionCount} partitions`, () => {
    let middleUs = 0;

    async function pushEverywhere(): Promise<void> {
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
    }

    async function seek(context: TestContext, target: SeekTarget): Promise<void> {
      const { partitions } = await watched(context, () =>
        call<{ partitions: number }>((reply) =>
          shard.groups.seek({ group, queue: 'q', partition: null, target }, reply),
        ),
      );
      assert.equal(partitions, partitionCount);
    }

    before(async () => {
      await pushEverywhere();
      middleUs = Date.now() * 1000;
      await delay(5);
      await pushEverywhere();
    });

    it('are made by a seek', (context) => seek(context, { kind: 'end' }));

    it('are moved to a time that lies inside of every partition', (context) =>
      seek(context, { kind: 'time', stampUs: middleUs }));

    it('are moved to the beginning', (context) => seek(context, { kind: 'beginning' }));

    it('are moved to an offset', (context) => seek(context, { kind: 'offset', offset: 1 }));

    it('are listed', async (context) => {
      let pending = 0;
      await watched(context, () =>
        call((reply: Reply<object>) =>
          shard.groups.list(
            { limit: 100, offset: 0 },
            counted(reply, (rows) => {
              for (const row of rows) pending += row.pending;
            }),
          ),
        ),
      );
      assert.equal(pending, partitionCount);
    });

    it('are described', async (context) => {
      const found = await watched(context, () =>
        call<{ queues: readonly { partitions: readonly object[] }[] } | null>((reply) =>
          shard.groups.describe({ group, limit: 4000, offset: partitionCount / 2 }, reply),
        ),
      );
      assert.equal(found?.queues[0].partitions.length, 4000);
    });

    it('tell where they lag', async (context) => {
      let count = 0;
      await watched(context, () =>
        call((reply: Reply<object>) =>
          shard.groups.lagging(
            { ageUs: 0, limit: partitionCount },
            counted(reply, (rows) => {
              count += rows.length;
            }),
          ),
        ),
      );
      assert.equal(count, partitionCount);
    });

    it('tell their positions', async (context) => {
      let count = 0;
      await watched(context, () =>
        call((reply: Reply<{ truncated: boolean }>) =>
          shard.groups.positions(
            { group, entries: null },
            counted(reply, (rows) => {
              count += rows.length;
            }),
          ),
        ),
      );
      assert.equal(count, Math.min(partitionCount, 65_536));
    });

    it('are deleted', async (context) => {
      const { partitions } = await watched(context, async () => {
        const deleted = await call<{ partitions: number }>((reply) =>
          shard.groups.delete({ group, queue: null, keepRegistration: false }, reply),
        );
        // Their rows are given back in turns that follow.
        for (const cursors = shard.metrics()['cursors']; cursors > 0 && shard.metrics()['cursors'] > 0; )
          await delay(5);
        return deleted;
      });
      assert.equal(partitions, partitionCount);
    });

    it('go with a queue that is deleted', async (context) => {
      await watched(context, async () => {
        await call<object>((reply) => shard.deleteQueue('q', reply));
        while (shard.metrics()['partitions'] > 1) await delay(5);
      });
    });
  });

  describe(`${letterCount} dead letters`, () => {
    const itemsPerPartition = 10_000;

    /** Messages that are pushed, popped and given up on. */
    async function fill(queue: string): Promise<void> {
      for (let first = 0; first < letterCount; first += itemsPerPartition) {
        const partition = `p${first}`;
        const ids = Array.from({ length: itemsPerPartition }, (_, i) => `${queue}-${first + i}`);
        for (let from = 0; from < ids.length; from += itemsPerPush) {
          const part = ids.slice(from, from + itemsPerPush);
          await pushItems(
            shard,
            part.map((transactionId) => ({ queue, partition, transactionId, payload: 1 })),
          );
        }
        const popped = await call<PopOutcome>((reply) =>
          shard.pop(
            {
              target: { kind: 'partition', queue, partition },
              group,
              batch: itemsPerPartition,
              partitions: 1,
              wait: false,
              timeoutMs: 0,
              leaseSeconds: 600,
              subscriptionMode: 'all',
              subscriptionFrom: null,
              commitOnDelivery: false,
              conflation: false,
              autopilot: false,
            },
            reply,
          ),
        );
        const [run] = popped.runs;
        const acknowledgments = ids.map((transactionId) => ({
          transactionId,
          partitionId: String(run.pid),
          leaseId: idText(shard.identity, popped.leaseStamp, 0, 0),
          status: 'dlq',
          error: 'not wanted',
        }));
        const scanned = scanAckBody(Buffer.from(JSON.stringify({ acknowledgments })), shard.identity);
        assert.ok(scanned.ok);
        await call<object>((reply) => shard.ack(group, scanned.items, reply));
      }
    }

    const every = {
      queue: 'purged',
      group: null,
      error: 'wanted',
      fromUs: null,
      toUs: null,
      max: null,
      perSecond: null,
      target: { queue: 'again', partition: null },
    };

    before(async () => {
      await fill('purged');
      assert.equal(shard.metrics()['deadLetters'], letterCount);
    });

    it('are counted', async (context) => {
      const { matched } = await watched(context, () =>
        call<{ matched: number }>((reply) => shard.deadLetterChanges.countRedrive(every, reply)),
      );
      assert.equal(matched, letterCount);
    });

    it('are listed', async (context) => {
      const { total } = await watched(context, () =>
        call<{ total: number }>((reply) =>
          shard.deadLetters({ queue: null, group, limit: 1000, offset: letterCount / 2 }, reply),
        ),
      );
      assert.equal(total, letterCount);
    });

    it('are redriven', async (context) => {
      await watched(
        context,
        async () => {
          const { id } = await call<{ id: string }>((reply) => shard.deadLetterChanges.startRedrive(every, reply));
          while (shard.deadLetterChanges.redrive(id)?.state === 'running') await delay(5);
          assert.equal(shard.deadLetterChanges.redrive(id)?.moved, letterCount);
        },
        collectorMsMax,
      );
      assert.equal(shard.metrics()['deadLetters'], 0);
    });

    it('are purged', async (context) => {
      await fill('purged too');
      const { deleted } = await watched(context, () =>
        call<{ deleted: number }>((reply) => shard.deadLetterChanges.purge('purged too', null, reply)),
      );
      assert.equal(deleted, letterCount);
    });
  });
});
