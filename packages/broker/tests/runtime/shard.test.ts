import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type Hasher, scanPushBody } from '../../src/codec/mod.ts';
import { itemStatus, type PushOutcome, type Refusal } from '../../src/core/mod.ts';
import type { Shard } from '../../src/runtime/mod.ts';
import { openShard } from './open-shard.ts';

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
    const shard = await openShard(folder, (store) => ({ ...store, hasher: colliding(store.hasher) }));
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
