/**
 * Bugs that are put in on purpose: a simulation that does not catch them proves nothing. Each is caught by one of the
 * fixed seeds; production code knows nothing of them, they wrap or replace what it is made of.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Deadlines } from '../../src/core/deadlines.ts';
import { DueTable } from '../../src/core/due-table.ts';
import { EdgeState } from '../../src/core/edges/edge-state.ts';
import { BrokerState, type CursorRecord, EdgeRows, edgeRow, Schedule, type Subscription } from '../../src/core/mod.ts';
import type { Disk } from '../../src/ports/mod.ts';
import { DraftJournal } from '../../src/runtime/draft-journal.ts';
import { Waiters } from '../../src/runtime/waiters.ts';
import { fixedSeeds } from './fixed-seeds.ts';
import type { ProcessHooks } from './simulated-process.ts';
import { runWorld } from './world.ts';
import { drawWorld, type WorldOptions } from './world-options.ts';

/** Worlds that are tried when none of the fixed ones shows a bug: what a seed leads to changes with every disk operation. */
const furtherSeeds = Array.from({ length: 500 }, (_, i) => 301 + i);

/** A bug, and how it gets into a broker. */
interface Bug {
  readonly hooks?: ProcessHooks;
  /** Each puts one in and gives back what takes it out. */
  readonly plants?: readonly (() => () => void)[];
  /** Which worlds can show it at all; the others are passed over. */
  readonly concerns?: (world: WorldOptions) => boolean;
}

/** Replaces a method of a class. */
function replaced<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  patch: (original: Target[Name]) => Target[Name],
): () => () => void {
  return () => {
    const original = target[name];
    target[name] = patch(original);
    return () => {
      target[name] = original;
    };
  };
}

/** Changes cursor records before they are applied, live and in replay alike. */
function withCursors(change: (state: BrokerState, record: CursorRecord) => void): () => () => void {
  return replaced(
    BrokerState.prototype,
    'cursor',
    (original) =>
      function (this: BrokerState, record: CursorRecord): void {
        change(this, record);
        original.call(this, record);
      },
  );
}

async function assertCaught({ hooks = {}, plants = [], concerns = () => true }: Bug): Promise<void> {
  const worlds = [...fixedSeeds, ...furtherSeeds].map(drawWorld).filter(concerns);
  for (const world of worlds) {
    const removals = plants.map((plant) => plant());
    const { failure } = await runWorld(world, hooks).finally(() => {
      for (const remove of removals.reverse()) remove();
    });
    if (failure === null) continue;
    const without = await runWorld(world);
    assert.equal(without.failure, null, `seed ${world.seed} fails without the bug as well`);
    return;
  }
  assert.fail(`none of ${worlds.length} worlds showed it`);
}

const hasPauses = ({ features }: WorldOptions): boolean => features.pauses;

function lyingDisk(disk: Disk): Disk {
  const lying = Object.create(disk) as Disk;
  lying.open = async (path, mode) => {
    // Durable writes are not asked for either.
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
  const bugs: Readonly<Record<string, Bug>> = {
    'that delivers messages before their time': {
      plants: [replaced(DueTable.prototype, 'isWaiting', () => () => false)],
    },

    'that cancels the message behind the one that was meant': {
      plants: [
        replaced(
          DueTable.prototype,
          'cancel',
          (cancel) =>
            function (this: DueTable, row: number) {
              const next = this.next(this.pidOf(row), this.offsetOf(row) + 1);
              cancel.call(this, next >= 0 && !this.isCancelled(next) ? next : row);
            },
        ),
      ],
    },

    'whose disk says "synced" without syncing': { hooks: { disk: lyingDisk } },

    'that answers before its log is durable': {
      hooks: {
        store: ({ log }) => {
          Object.defineProperty(log, 'durableSequence', { get: () => log.nextSequence - 1 });
        },
      },
    },

    'whose sidecars miss the newest blocks of their segment': {
      hooks: {
        segmentVisitor: (visit) => async (base, visitor) => {
          let held: (() => void) | null = null;
          await visit(base, (header, bytes, _view, from, to) => {
            held?.();
            const copy = bytes.slice(from, to);
            held = () => visitor({ ...header }, copy, new DataView(copy.buffer), 0, copy.length);
          });
        },
      },
    },

    'that forgets with a restart which ids it has seen': {
      hooks: {
        store: ({ index, state }) => {
          const startedUs = state.lastStampUs;
          const find = index.findId.bind(index);
          index.findId = (pid, high, low) => find(pid, high, low, startedUs + 1);
          index.mayHoldId = () => false;
        },
      },
    },

    'whose journal leaves out every 40th cursor record': {
      plants: [
        replaced(DraftJournal.prototype, 'cursor', (original) => {
          let records = 0;
          return function (this: DraftJournal, record: CursorRecord): void {
            if (++records % 40 !== 0) original.call(this, record);
          };
        }),
      ],
    },

    'whose live state drifts from what its log says': {
      hooks: {
        store: ({ state }) => {
          let records = 0;
          const apply = state.cursor.bind(state);
          state.cursor = (record: CursorRecord) => {
            if (++records % 40 === 0) record.retryCount++;
            apply(record);
          };
        },
      },
    },

    'that commits one record too many, live and in replay alike': {
      plants: [
        withCursors((state, record) => {
          const lane = state.laneOf(record.pid);
          const isInside = record.committed + 1 < state.partitions.nextOffset[lane];
          if (record.batchDone && isInside) record.committed++;
        }),
      ],
    },

    'that gives a partition away one microsecond before its lease has ended': {
      plants: [
        replaced(
          Deadlines.prototype,
          'set',
          (original) =>
            function (this: Deadlines, row: number, atUs: number): void {
              original.call(this, row, atUs - 1);
            },
        ),
        replaced(
          Schedule.prototype,
          'evaluate',
          (original) =>
            function (this: Schedule, ...row): void {
              this.nowUs++;
              original.apply(this, row);
              this.nowUs--;
            },
        ),
      ],
    },

    'that loses sight of partitions whose blocks had to be read from disk': {
      plants: [replaced(Schedule.prototype, 'giveBack', () => () => undefined)],
    },

    'whose groups never go back, live and in replay alike': {
      plants: [
        withCursors((state, record) => {
          const first = state.partitions.firstCursor[state.laneOf(record.pid)];
          const row = state.cursors.find(first, record.subscription);
          if (row >= 0) record.committed = Math.max(record.committed, state.cursors.committed[row]);
        }),
      ],
    },

    'that pauses a partition whose messages are ready only once they were delivered': {
      plants: [replaced(Schedule.prototype, 'pauseChanged', () => () => undefined)],
      concerns: hasPauses,
    },

    'that wakes nobody when a pause ends': {
      plants: [replaced(Waiters.prototype, 'manyReady', () => () => undefined)],
      concerns: hasPauses,
    },

    'that loses count of what a group has left to do': {
      plants: [
        replaced(BrokerState.prototype, 'cursor', (original) => {
          let records = 0;
          return function (this: BrokerState, record: CursorRecord): void {
            original.call(this, record);
            const subscription = this.subscriptions.get(record.subscription);
            if (++records % 20 === 0 && subscription !== undefined) subscription.placedPending++;
          };
        }),
      ],
    },

    'that now and then wakes nobody when a partition is ready': {
      plants: [
        replaced(Waiters.prototype, 'rowReady', (original) => {
          let ready = 0;
          return function (this: Waiters, subscription, row): void {
            if (++ready % 10 !== 0) original.call(this, subscription, row);
          };
        }),
      ],
    },

    'whose commits take messages that came after the page': {
      plants: [
        replaced(
          EdgeRows.prototype,
          'countThrough',
          (count) =>
            function (this: EdgeRows, bound): number {
              return count.call(this, bound, Number.POSITIVE_INFINITY);
            },
        ),
        replaced(
          EdgeRows.prototype,
          'removeThrough',
          (remove) =>
            function (this: EdgeRows, bound): number {
              return remove.call(this, bound, Number.POSITIVE_INFINITY);
            },
        ),
      ],
    },

    'that stores a message under another seq, live and in replay alike': {
      plants: [
        replaced(
          EdgeState.prototype,
          'row',
          (original) =>
            function (this: EdgeState, source, words, numbers): void {
              if (words[edgeRow.seqLowAt] === 7) words[edgeRow.seqLowAt] = 8;
              original.call(this, source, words, numbers);
            },
        ),
      ],
    },

    'that breaks over what is left of a deleted group': {
      plants: [
        replaced(
          BrokerState.prototype,
          'subscriptionOf',
          (original) =>
            function (this: BrokerState, row: number): Subscription {
              const subscription = original.call(this, row);
              assert.ok(subscription !== undefined, 'the group of a row is known');
              return subscription;
            },
        ),
      ],
      concerns: ({ features }) => features.groupDeletes,
    },
  };

  for (const [name, bug] of Object.entries(bugs)) it(name, () => assertCaught(bug));
});
