/**
 * One partition of very many appends: what looks for a place in it searches, and reads the blocks it is asked for.
 * Counted, not timed. With LANEMQ_TEST_SLOW=1 there are a million appends.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BlockReader, createHasher } from '../../src/codec/mod.ts';
import type { PopOutcome } from '../../src/core/mod.ts';
import type { FoundOffset, Shard, Store } from '../../src/runtime/mod.ts';
import { call, pushItems } from './loop-watch.ts';
import { openShard } from './open-shard.ts';

const { LANEMQ_TEST_SLOW } = process.env;
const appends = LANEMQ_TEST_SLOW === '1' ? 1_000_000 : 20_000;
const appendsAtOnce = 2000;
const offsets = [0, 1, 17, appends / 2, appends - 2, appends - 1];
const queue = 'q';
const partition = 'p';

/** Counts what is asked of the index and how many blocks are looked at or read. */
class Counts {
  asked = 0;
  blocks = 0;

  around(store: Store): Store {
    const { index, log } = store;
    const count = <Name extends string>(
      target: { [N in Name]: (...args: never[]) => unknown },
      name: Name,
      counted: () => void,
    ): void => {
      const original = target[name].bind(target) as (...args: unknown[]) => unknown;
      Object.assign(target, {
        [name]: (...args: unknown[]) => {
          counted();
          return original(...args);
        },
      });
    };
    for (const name of ['find', 'load', 'loadByTime'] as const) count(index, name, () => this.asked++);
    for (const name of ['recent', 'resident', 'load', 'readInto'] as const) count(log, name, () => this.blocks++);
    return store;
  }

  reset(): void {
    this.asked = 0;
    this.blocks = 0;
  }

  /** What is within reach whatever the partition holds. */
  assertFew(what: string): void {
    assert.ok(this.asked <= 8, `${what}: the index was asked ${this.asked} times`);
    assert.ok(this.blocks <= 8, `${what}: ${this.blocks} blocks were looked at`);
  }
}

describe(`one partition of ${appends} appends`, () => {
  const counts = new Counts();
  let folder: string;
  let shard: Shard;
  let groups = 0;

  before(async () => {
    await createHasher(0, 0);
    folder = await mkdtemp(join(tmpdir(), 'lanemq-long-'));
    shard = await openShard(folder, (store) => counts.around(store), { segmentBytes: 1024 * 1024 * 1024 });
    for (let first = 0; first < appends; first += appendsAtOnce) {
      await Promise.all(
        Array.from({ length: appendsAtOnce }, (_, i) =>
          pushItems(shard, [{ queue, partition, payload: first + i, transactionId: `t${first + i}` }]),
        ),
      );
    }
  });

  after(async () => {
    await shard.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Offset and stamp of the first record from an offset on. */
  function fetchOne(offset: number): Promise<{ offset: number; stampUs: number }> {
    let found = { offset: -1, stampUs: 0 };
    return new Promise((resolve, reject) => {
      shard.reads.fetch(
        { entries: [{ queue, partition, offset, maxBytes: 1 }], maxWaitMs: 0, minBytes: 1, maxBytes: 1 },
        {
          bytes: 0,
          begin: () => null,
          openEntry: () => undefined,
          record: (block, index) => {
            found = { offset: block.firstOffset + index, stampUs: block.stampUs };
          },
          closeEntry: () => undefined,
          hasRoom: () => true,
          send: (failure) => (failure === null ? resolve(found) : reject(new Error(failure.message))),
        },
      );
    });
  }

  async function stampAt(offset: number): Promise<number> {
    const { stampUs } = await fetchOne(offset);
    counts.reset();
    return stampUs;
  }

  /** The offset of the message that a pop gives. */
  async function pop(group: string, subscriptionFrom: number | null): Promise<number> {
    let offset = -1;
    await call<PopOutcome>(({ encode, send }) =>
      shard.pop(
        {
          target: { kind: 'queue', queue },
          group,
          batch: 1,
          partitions: 1,
          wait: false,
          timeoutMs: 0,
          leaseSeconds: null,
          subscriptionMode: 'all',
          subscriptionFrom,
          commitOnDelivery: false,
          conflation: false,
          autopilot: false,
        },
        {
          encode: (outcome) => {
            const [piece] = outcome.runs[0].pieces;
            offset = new BlockReader().open(piece.bytes, piece.view, piece.at).firstOffset + piece.fromIndex;
            encode(outcome);
          },
          send,
        },
      ),
    );
    return offset;
  }

  it('is fetched from any offset by reading what is given', async () => {
    for (const offset of offsets) {
      counts.reset();
      assert.equal((await fetchOne(offset)).offset, offset);
      counts.assertFew(`fetch at ${offset}`);
    }
  });

  it('is searched for a time', async () => {
    for (const offset of offsets) {
      const stampUs = await stampAt(offset);
      for (const [asked, expected] of [
        [stampUs, offset],
        [stampUs - 1, offset],
        [stampUs + 1, offset + 1],
      ]) {
        counts.reset();
        let found: readonly FoundOffset[] = [];
        await new Promise<void>((resolve, reject) => {
          shard.reads.fetchOffsets([{ queue, partition, stampUs: asked }], {
            encode: (all) => {
              found = all;
            },
            send: (failure) => (failure === null ? resolve() : reject(new Error(failure.message))),
          });
        });
        counts.assertFew(`a time near ${offset}`);
        // Stamps rise by one at least; a gap before this one belongs to it.
        const isRight = found[0].offset === expected || (asked < stampUs && found[0].offset === offset - 1);
        assert.ok(isRight || expected === appends, `${found[0].offset} instead of ${expected}`);
      }
    }
  });

  it('is where a group is moved to a time', async () => {
    for (const offset of offsets) {
      const stampUs = await stampAt(offset);
      const group = `seek-${groups++}`;
      await call<object>((reply) =>
        shard.groups.seek({ group, queue, partition, target: { kind: 'time', stampUs } }, reply),
      );
      counts.assertFew(`seek to ${offset}`);
      counts.reset();
      assert.equal(await pop(group, null), offset);
      counts.assertFew(`pop at ${offset}`);
    }
  });

  it('is where a group begins at a time', async () => {
    for (const offset of offsets) {
      const stampUs = await stampAt(offset);
      assert.equal(await pop(`from-${groups++}`, stampUs), offset);
      counts.assertFew(`subscriptionFrom ${offset}`);
    }
  });
});
