/** Reads by offset against a state whose logs do not begin at 0 any more, and against their limits. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { limits } from '@lanemq/protocol';
import { scanPushBody } from '../../src/codec/mod.ts';
import type { Refusal } from '../../src/core/mod.ts';
import type {
  ChangedEntry,
  EntryError,
  FetchRequest,
  FoundOffset,
  PartitionBounds,
  Shard,
  Store,
} from '../../src/runtime/mod.ts';
import { openShard } from './open-shard.ts';

interface Entry extends PartitionBounds {
  readonly offsets: readonly number[];
}

describe('reads by offset', () => {
  let folder: string;
  let store: Store;
  let shard: Shard;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lanemq-reads-'));
    shard = await openShard(folder, (opened) => {
      store = opened;
      return opened;
    });
  });

  after(async () => {
    await shard.stop();
    await rm(folder, { recursive: true, force: true });
  });

  function push(partition: string, count: number): Promise<void> {
    const items = Array.from({ length: count }, (_, payload) => ({ queue: 'q', partition, payload }));
    const scanned = scanPushBody(Buffer.from(JSON.stringify({ items })));
    assert.ok(scanned.ok);
    return new Promise((resolve, reject) => {
      shard.push(scanned.items, {
        encode: () => undefined,
        send: (failure) => (failure === null ? resolve() : reject(new Error(failure.message))),
      });
    });
  }

  function fetch(
    request: Partial<FetchRequest> & Pick<FetchRequest, 'entries'>,
    hasRoom: () => boolean = () => true,
  ): {
    answer: Promise<Entry[]>;
    cancel: () => void;
  } {
    let cancel: () => void = () => undefined;
    const answer = new Promise<Entry[]>((resolve, reject) => {
      let entries: Entry[] = [];
      let offsets: number[] = [];
      cancel = shard.reads.fetch(
        { maxWaitMs: 0, minBytes: 1, maxBytes: Number.POSITIVE_INFINITY, ...request },
        {
          bytes: 0,
          begin: () => {
            entries = [];
            return null;
          },
          openEntry: () => {
            offsets = [];
          },
          record: (block, index) => offsets.push(block.firstOffset + index),
          closeEntry: (_, { error, highWatermark, logStart }) =>
            entries.push({ error, highWatermark, logStart, offsets }),
          hasRoom,
          send: (failure) => (failure === null ? resolve(entries) : reject(new Error(failure.message))),
        },
      );
    });
    return { answer, cancel };
  }

  function entry(partition: string, offset: number) {
    return { queue: 'q', partition, offset, maxBytes: 1_000_000 };
  }

  function laneOf(partition: string): number {
    return shard.reads.find('q', partition).lane;
  }

  it('end an answer for good where memory was short, also in the middle of an append', async () => {
    for (let i = 0; i < 3; i++) await push('short', 4);
    let looks = 0;
    const { answer } = fetch({ entries: [entry('short', 0), entry('short', 6)] }, () => ++looks !== 2);
    const [first, second] = await answer;
    assert.deepEqual(
      first.offsets.map((_, index) => index),
      first.offsets,
    );
    assert.ok(first.offsets.length < 4, `${first.offsets.length} records came`);
    assert.deepEqual(second, { error: null, highWatermark: 12, logStart: 0, offsets: [] });
  });

  // Contract 8.1, rules 5 and 8; checklist 31
  it('refuse offsets before the log start with the real bounds, and begin with the oldest record that is kept', async () => {
    for (let i = 0; i < 4; i++) await push('cut', 2);
    store.state.partitions.logStart[laneOf('cut')] = 4;
    const { answer } = fetch({ entries: [0, 3, 4, 8, 9].map((offset) => entry('cut', offset)) });
    const bounds = { highWatermark: 8, logStart: 4 };
    const outside = { ...bounds, error: 'OFFSET_OUT_OF_RANGE', offsets: [] };
    assert.deepEqual(await answer, [
      outside,
      outside,
      { ...bounds, error: null, offsets: [4, 5, 6, 7] },
      { ...bounds, error: null, offsets: [] },
      outside,
    ]);
  });

  // Contract 8.1, rule 8, and 8.3, rule 2
  it('know a partition that was emptied: its start is its end', async () => {
    await push('emptied', 3);
    store.state.partitions.logStart[laneOf('emptied')] = 3;
    const [at, below] = await fetch({ entries: [entry('emptied', 3), entry('emptied', 0)] }).answer;
    assert.deepEqual(at, { error: null, highWatermark: 3, logStart: 3, offsets: [] });
    assert.equal(below.error, 'OFFSET_OUT_OF_RANGE');
    assert.deepEqual(await offsetOf('emptied', 0), [-1, 0]);
    const rows = await changed([{ queue: 'q', sinceUs: Number.NEGATIVE_INFINITY, after: 0, limit: 1000 }]);
    assert.deepEqual(
      rows.find(({ name }) => name === 'emptied'),
      { name: 'emptied', nextOffset: 3, logStart: 3 },
    );
  });

  // Contract 8.2
  it('find no time before the log start: the first record that is kept answers for it', async () => {
    for (let i = 0; i < 3; i++) await push('timed', 2);
    const lane = laneOf('timed');
    store.state.partitions.logStart[lane] = 2;
    const stampUs = store.index.find(lane, store.state.partitions.pid[lane], 2)?.stampUs ?? 0;
    assert.deepEqual(await offsetOf('timed', 0), [2, stampUs]);
    assert.deepEqual(await offsetOf('timed', stampUs), [2, stampUs]);
    assert.equal((await offsetOf('timed', stampUs + 1))[0], 4);
  });

  // Contract 8.1, rule 9: checklist of limits
  it('wait in a bounded number', async () => {
    const waits = { maxWaitMs: 30_000 };
    const many = Array.from({ length: limits.readEntriesMax }, (_, i) => entry(`none-${i}`, 0));
    const parked = Array.from({ length: limits.parkedFetchEntriesMax / limits.readEntriesMax }, () =>
      fetch({ entries: many, ...waits }),
    );
    await assert.rejects(fetch({ entries: [entry('none', 0)], ...waits }).answer, /which is the limit/);
    // One that does not wait is answered all the same.
    assert.equal((await fetch({ entries: [entry('none', 0)] }).answer).length, 1);
    for (const { cancel } of parked) cancel();
    assert.equal(shard.metrics()['parkedFetches'], 0);
    const waiting = fetch({ entries: [entry('none', 0)], ...waits });
    await fetch({ entries: [entry('none', 0)] }).answer;
    await push('none', 1);
    assert.deepEqual((await waiting.answer)[0].offsets, [0]);
  });

  // Contract 8.1, rule 9
  it('wait for bytes that come while less than that is being read', async () => {
    await push('grows', 1);
    const waiting = fetch({ entries: [entry('grows', 0)], maxWaitMs: 30_000, minBytes: 3 });
    const one = push('grows', 1);
    const two = push('grows', 1);
    assert.deepEqual((await waiting.answer)[0].offsets, [0, 1, 2]);
    await Promise.all([one, two]);
  });

  function offsetOf(partition: string, stampUs: number): Promise<[number, number]> {
    return new Promise((resolve, reject) => {
      let found: readonly FoundOffset[] = [];
      shard.reads.fetchOffsets([{ queue: 'q', partition, stampUs }], {
        encode: (offsets) => {
          found = offsets;
        },
        send: (failure) =>
          failure === null ? resolve([found[0].offset, found[0].stampUs]) : reject(new Error(failure.message)),
      });
    });
  }

  function changed(
    entries: readonly ChangedEntry[],
  ): Promise<{ name: string; nextOffset: number; logStart: number }[]> {
    return new Promise((resolve, reject) => {
      const rows: { name: string; nextOffset: number; logStart: number }[] = [];
      shard.reads.changed(entries, {
        bytes: 0,
        begin: () => undefined,
        openEntry: () => undefined,
        partition: ({ name, nextOffset, logStart }) =>
          rows.push({ name: Buffer.from(name).toString(), nextOffset, logStart }),
        closeEntry: () => undefined,
        failEntry: (_, error: EntryError) => reject(new Error(error)),
        send: (failure: Refusal | null) => (failure === null ? resolve(rows) : reject(new Error(failure.message))),
      });
    });
  }
});
