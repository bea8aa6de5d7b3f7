import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type Hasher, scanPushBody } from '../../src/codec/mod.ts';
import { itemStatus, type PushOutcome, type Refusal } from '../../src/core/mod.ts';
import { openDataFolder } from '../../src/data-folder.ts';
import { Shard, type Store } from '../../src/runtime/mod.ts';
import { NodeDisk } from '../../src/system/node-disk.ts';
import { SystemClock } from '../../src/system/system-clock.ts';
import { SystemRandom } from '../../src/system/system-random.ts';
import { SystemScheduler } from '../../src/system/system-scheduler.ts';

/** A hasher that gives every id the same fingerprint, as ids made to collide would have. */
function colliding(real: Hasher): Hasher {
  const hasher = Object.create(real) as Hasher;
  hasher.hash = () => {
    hasher.high = 7;
    hasher.low = 7;
  };
  hasher.checksum = (bytes, start, end) => {
    real.checksum(bytes, start, end);
    hasher.high = real.high;
    hasher.low = real.low;
  };
  return hasher;
}

async function openShard(folder: string): Promise<Shard> {
  const scheduler = new SystemScheduler();
  const clock = new SystemClock();
  const refuse = (): never => {
    throw new Error('no background work is expected here');
  };
  const open = async (): Promise<Store> => {
    const store = await openDataFolder({
      disk: new NodeDisk(folder),
      scheduler,
      clock,
      random: new SystemRandom(),
      background: {
        buildSegmentIndex: refuse,
        buildSnapshot: refuse,
        cancel: async () => undefined,
        close: async () => undefined,
      },
      logOptions: {},
      log: () => undefined,
    });
    return { ...store, hasher: colliding(store.hasher) };
  };
  const host = {
    clock,
    scheduler,
    cipher: null,
    reopen: open,
    isDiskFull: () => false,
    log: () => undefined,
    fatal: (error: Error) => {
      throw error;
    },
  };
  return new Shard(await open(), host, { snapshotLogBytes: 2 ** 30, parkedPopsMax: 10 });
}

function push(shard: Shard, ids: readonly string[]): Promise<{ statuses: number[]; offsets: number[] }> {
  const items = ids.map((transactionId) => ({ queue: 'q', partition: 'p', transactionId, payload: transactionId }));
  const scanned = scanPushBody(Buffer.from(JSON.stringify({ items })));
  assert.ok(scanned.ok);
  return new Promise((resolve, reject) => {
    let answer = { statuses: [] as number[], offsets: [] as number[] };
    shard.push(scanned.items, {
      encode: (outcome: PushOutcome) => {
        answer = {
          statuses: [...outcome.statuses.subarray(0, outcome.count)],
          offsets: [...outcome.offsets.subarray(0, outcome.count)],
        };
      },
      send: (failure: Refusal | null) => (failure === null ? resolve(answer) : reject(new Error(failure.message))),
    });
  });
}

describe('ids with equal fingerprints', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lanemq-duplicates-'));
  after(() => rm(folder, { recursive: true, force: true }));

  it('are told apart by the ids themselves: only an equal id is a duplicate', async () => {
    const shard = await openShard(folder);
    const { queued, duplicate } = itemStatus;
    assert.deepEqual(await push(shard, ['a', 'b', 'a']), {
      statuses: [queued, queued, duplicate],
      offsets: [0, 1, 0],
    });
    assert.deepEqual(await push(shard, ['c']), { statuses: [queued], offsets: [2] });
    assert.deepEqual(await push(shard, ['c']), { statuses: [duplicate], offsets: [2] });
    await shard.stop();
  });
});
