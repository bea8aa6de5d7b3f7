import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import fc from 'fast-check';
import { BrokerState, CursorRecord, StateLoader, saveState } from '../../src/core/mod.ts';
import { hashState } from '../../src/data-folder.ts';
import { snapshotChunkBytesMax } from '../../src/storage/snapshot-file.ts';

const options = Object.fromEntries(
  Object.entries(queueOptionTable).map(([name, facts]) => [name, facts.default]),
) as unknown as QueueOptions;
const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

function emptyState(): BrokerState {
  const state = new BrokerState();
  state.genesis({ saltHigh: 1, saltLow: 2, seedHigh: 3, seedLow: 4, createdAtUs: 1_000 });
  return state;
}

function withQueue(state: BrokerState, number: number): void {
  state.queue({
    number,
    name: `queue-${number}`,
    namespace: '',
    task: '',
    options,
    createdAtUs: 2_000 + number,
  });
}

function withPartition(state: BrokerState, queue: number, records: number): number {
  const pid = state.nextPid;
  const name = Buffer.from(`partition-${pid}`);
  state.partition(pid, queue, 10_000 + pid, pid * 7, name, 0, name.length);
  if (records > 0) state.block(pid, 0, 20_000 + pid, records, 64, noBytes, noView, 0);
  return pid;
}

function reloaded(state: BrokerState): BrokerState {
  const loader = new StateLoader();
  for (const { name, bytes } of saveState(state)) {
    assert.ok(bytes.length <= snapshotChunkBytesMax, `a piece of ${name} has ${bytes.length} bytes`);
    loader.add({ name, bytes: bytes.slice() });
  }
  return loader.finish();
}

describe('a saved state', () => {
  it('comes back as it was, with queues, partitions, cursors, leases and dead letters', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ records: fc.nat(5), committed: fc.nat(5), leased: fc.boolean() }), { maxLength: 40 }),
        async (partitions) => {
          const state = emptyState();
          withQueue(state, 1);
          withQueue(state, 2);
          for (const number of [1, 2]) {
            state.subscription({
              number,
              queueNumber: number,
              group: 'g',
              mode: 'all',
              sinceUs: 0,
              conflation: false,
              registered: true,
              createdAtUs: 5_000,
            });
          }
          partitions.forEach(({ records, committed, leased }, i) => {
            const queue = 1 + (i % 2);
            const pid = withPartition(state, queue, records);
            if (records === 0) return;
            const record = new CursorRecord();
            record.pid = pid;
            record.subscription = queue;
            record.committed = Math.min(committed, records - 1) - 1;
            record.consumed = record.committed + 1;
            if (leased) {
              record.leaseStamp = 30_000 + pid;
              record.leaseEnd = records - 1;
              record.expiresAtUs = 40_000;
              record.attemptOffset = record.committed + 1;
              record.attemptCount = 2;
            }
            state.cursor(record);
          });
          const again = reloaded(state);
          assert.equal(await hashState(again), await hashState(state));
          assert.equal(again.digest, state.digest);
          for (const [name, queue] of state.queues) {
            assert.equal(again.queues.get(name)?.retainedRecords, queue.retainedRecords);
            assert.equal(again.queues.get(name)?.depth(), queue.depth());
          }
        },
      ),
    );
  });

  it('is cut into pieces that a snapshot takes whole, however many dead letters have long error texts', async () => {
    const state = emptyState();
    withQueue(state, 1);
    const pid = withPartition(state, 1, 5_000);
    for (let offset = 0; offset < 5_000; offset++) {
      state.deadLetter({
        stampUs: 50_000 + offset,
        index: 0,
        queueNumber: 1,
        pid,
        group: 'g',
        offset,
        error: 'é'.repeat(2_000),
        retryCount: 3,
      });
    }
    const again = reloaded(state);
    assert.equal(again.deadLetters.count, 5_000);
    assert.equal(await hashState(again), await hashState(state));
  });
});
