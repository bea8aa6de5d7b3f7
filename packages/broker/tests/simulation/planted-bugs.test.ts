/**
 * Bugs that are put in on purpose: a simulation that does not catch them proves nothing. Each is caught by one of a few
 * seeds; the worlds themselves are the ones of worlds.test.ts.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BrokerState, type CursorRecord, Schedule } from '../../src/core/mod.ts';
import type { Disk } from '../../src/ports/mod.ts';
import type { ProcessHooks } from './simulated-process.ts';
import { runWorld } from './world.ts';
import { drawWorld } from './world-options.ts';

/** Worlds that a bug may take to be noticed. */
const seedsMax = 24;

async function isCaught(hooks: ProcessHooks): Promise<boolean> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    if ((await runWorld(drawWorld(seed), hooks)).failure !== null) return true;
  }
  return false;
}

/** Runs with a method of a class replaced. */
async function withPatch<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  patch: (original: Target[Name]) => Target[Name],
  run: () => Promise<void>,
): Promise<void> {
  const original = target[name];
  target[name] = patch(original);
  try {
    await run();
  } finally {
    target[name] = original;
  }
}

function lyingDisk(disk: Disk): Disk {
  const lying = Object.create(disk) as Disk;
  lying.open = async (path, mode) => {
    const file = await disk.open(path, mode);
    return {
      size: () => file.size(),
      read: (target, position) => file.read(target, position),
      write: (source, position) => file.write(source, position),
      sync: () => Promise.resolve(),
      truncate: (length) => file.truncate(length),
      close: () => file.close(),
    };
  };
  for (const name of ['list', 'remove', 'rename', 'makeFolder', 'syncFolder', 'space', 'lock'] as const) {
    Object.defineProperty(lying, name, { value: (disk[name] as () => unknown).bind(disk) });
  }
  return lying;
}

describe('the net catches a broker', () => {
  it('whose disk says "synced" without syncing', async () => {
    assert.ok(await isCaught({ disk: lyingDisk }));
  });

  it('that answers before its log is durable', async () => {
    const early: ProcessHooks = {
      store: ({ log }) => {
        Object.defineProperty(log, 'durableSequence', { get: () => log.nextSequence - 1 });
      },
    };
    assert.ok(await isCaught(early));
  });

  it('whose sidecars miss some of the blocks', async () => {
    let entries = 0;
    const forgetful: ProcessHooks = {
      segmentVisitor: (visit) => (base, visitor) =>
        visit(base, (header, bytes, view, from, to) => {
          if (++entries % 5 !== 0) visitor(header, bytes, view, from, to);
        }),
    };
    assert.ok(await isCaught(forgetful));
  });

  it('that forgets the ids of older segments', async () => {
    const forgetful: ProcessHooks = {
      store: ({ index }) => {
        index.mayHoldId = () => false;
      },
    };
    assert.ok(await isCaught(forgetful));
  });

  it('that does not remember ids at all', async () => {
    const forgetful: ProcessHooks = {
      store: ({ index }) => {
        index.findId = () => undefined;
        index.mayHoldId = () => false;
      },
    };
    assert.ok(await isCaught(forgetful));
  });

  it('whose live state drifts from what its log says', async () => {
    let records = 0;
    const drifting: ProcessHooks = {
      store: ({ state }) => {
        const apply = state.cursor.bind(state);
        state.cursor = (record: CursorRecord) => {
          if (++records % 40 === 0) record.retryCount++;
          apply(record);
        };
      },
    };
    assert.ok(await isCaught(drifting));
  });

  it('that commits one record too many, live and in replay alike', async () => {
    const tooFar = (original: BrokerState['cursor']): BrokerState['cursor'] =>
      function (this: BrokerState, record: CursorRecord): void {
        const lane = this.laneOf(record.pid);
        const isInside = record.committed + 1 < this.partitions.nextOffset[lane];
        if (record.batchDone && isInside) record.committed++;
        original.call(this, record);
      };
    await withPatch(BrokerState.prototype, 'cursor', tooFar, async () => {
      assert.ok(await isCaught({}));
    });
  });

  it('that loses sight of partitions whose blocks had to be read from disk', async () => {
    const lost = (): Schedule['giveBack'] => () => undefined;
    await withPatch(Schedule.prototype, 'giveBack', lost, async () => {
      assert.ok(await isCaught({}));
    });
  });
});
