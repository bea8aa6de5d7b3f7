/**
 * Bugs that are put in on purpose: a simulation that does not catch them proves nothing. Each is caught by one of the
 * fixed seeds; production code knows nothing of them, they wrap or replace what it is made of.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Deadlines } from '../../src/core/deadlines.ts';
import { DueTable } from '../../src/core/due-table.ts';
import { EdgeState } from '../../src/core/edges/edge-state.ts';
import { BrokerState, type CursorRecord, EdgeRows, edgeRow, Schedule } from '../../src/core/mod.ts';
import type { Disk } from '../../src/ports/mod.ts';
import { DraftJournal } from '../../src/runtime/draft-journal.ts';
import { Waiters } from '../../src/runtime/waiters.ts';
import { fixedSeeds } from './fixed-seeds.ts';
import type { ProcessHooks } from './simulated-process.ts';
import { runWorld } from './world.ts';
import { drawWorld } from './world-options.ts';

/** Worlds that are tried when none of the fixed ones shows a bug: what a seed leads to changes with every disk operation. */
const furtherSeeds = Array.from({ length: 500 }, (_, i) => 301 + i);

async function assertCaught(hooks: ProcessHooks): Promise<void> {
  for (const seed of [...fixedSeeds, ...furtherSeeds]) {
    if ((await runWorld(drawWorld(seed), hooks)).failure !== null) return;
  }
  assert.fail(`none of ${fixedSeeds.length + furtherSeeds.length} worlds showed it`);
}

/** Runs the worlds, or whatever `run` does, with a method of a class replaced. */
async function assertPatchCaught<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  patch: (original: Target[Name]) => Target[Name],
  run: () => Promise<void> = () => assertCaught({}),
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
  it('that delivers messages before their time', () =>
    assertPatchCaught(DueTable.prototype, 'isWaiting', () => () => false));

  it('that cancels the message behind the one that was meant', () =>
    assertPatchCaught(
      DueTable.prototype,
      'cancel',
      (cancel) =>
        function (this: DueTable, row: number) {
          const next = this.next(this.pidOf(row), this.offsetOf(row) + 1);
          cancel.call(this, next >= 0 && !this.isCancelled(next) ? next : row);
        },
    ));

  it('whose disk says "synced" without syncing', () => assertCaught({ disk: lyingDisk }));

  it('that answers before its log is durable', () =>
    assertCaught({
      store: ({ log }) => {
        Object.defineProperty(log, 'durableSequence', { get: () => log.nextSequence - 1 });
      },
    }));

  it('whose sidecars miss the newest blocks of their segment', () =>
    assertCaught({
      segmentVisitor: (visit) => async (base, visitor) => {
        let held: (() => void) | null = null;
        await visit(base, (header, bytes, _view, from, to) => {
          held?.();
          const copy = bytes.slice(from, to);
          held = () => visitor({ ...header }, copy, new DataView(copy.buffer), 0, copy.length);
        });
      },
    }));

  it('that forgets with a restart which ids it has seen', () =>
    assertCaught({
      store: ({ index, state }) => {
        const startedUs = state.lastStampUs;
        const find = index.findId.bind(index);
        index.findId = (pid, high, low) => find(pid, high, low, startedUs + 1);
        index.mayHoldId = () => false;
      },
    }));

  it('whose journal leaves out every 40th cursor record', () => {
    let records = 0;
    return assertPatchCaught(
      DraftJournal.prototype,
      'cursor',
      (original) =>
        function (this: DraftJournal, record: CursorRecord): void {
          if (++records % 40 !== 0) original.call(this, record);
        },
    );
  });

  it('whose live state drifts from what its log says', () => {
    let records = 0;
    return assertCaught({
      store: ({ state }) => {
        const apply = state.cursor.bind(state);
        state.cursor = (record: CursorRecord) => {
          if (++records % 40 === 0) record.retryCount++;
          apply(record);
        };
      },
    });
  });

  it('that commits one record too many, live and in replay alike', () =>
    assertPatchCaught(
      BrokerState.prototype,
      'cursor',
      (original) =>
        function (this: BrokerState, record: CursorRecord): void {
          const lane = this.laneOf(record.pid);
          const isInside = record.committed + 1 < this.partitions.nextOffset[lane];
          if (record.batchDone && isInside) record.committed++;
          original.call(this, record);
        },
    ));

  it('that gives a partition away one microsecond before its lease has ended', () =>
    assertPatchCaught(
      Deadlines.prototype,
      'set',
      (original) =>
        function (this: Deadlines, row: number, atUs: number): void {
          original.call(this, row, atUs - 1);
        },
      () =>
        assertPatchCaught(
          Schedule.prototype,
          'evaluate',
          (original) =>
            function (this: Schedule, ...row): void {
              this.nowUs++;
              original.apply(this, row);
              this.nowUs--;
            },
        ),
    ));

  it('that loses sight of partitions whose blocks had to be read from disk', () =>
    assertPatchCaught(Schedule.prototype, 'giveBack', () => () => undefined));

  it('whose groups never go back, live and in replay alike', () =>
    assertPatchCaught(
      BrokerState.prototype,
      'cursor',
      (original) =>
        function (this: BrokerState, record: CursorRecord): void {
          const first = this.partitions.firstCursor[this.laneOf(record.pid)];
          const row = this.cursors.find(first, record.subscription);
          if (row >= 0) record.committed = Math.max(record.committed, this.cursors.committed[row]);
          original.call(this, record);
        },
    ));

  it('that pauses a partition whose messages are ready only once they were delivered', () =>
    assertPatchCaught(Schedule.prototype, 'pauseChanged', () => () => undefined));

  it('that wakes nobody when a pause ends', () =>
    assertPatchCaught(Waiters.prototype, 'manyReady', () => () => undefined));

  it('that loses count of what a group has left to do', () => {
    let records = 0;
    return assertPatchCaught(
      BrokerState.prototype,
      'cursor',
      (original) =>
        function (this: BrokerState, record: CursorRecord): void {
          original.call(this, record);
          const subscription = this.subscriptions.get(record.subscription);
          if (++records % 20 === 0 && subscription !== undefined) subscription.placedPending++;
        },
    );
  });

  it('that now and then wakes nobody when a partition is ready', () => {
    let ready = 0;
    return assertPatchCaught(
      Waiters.prototype,
      'rowReady',
      (original) =>
        function (this: Waiters, subscription, row): void {
          if (++ready % 10 !== 0) original.call(this, subscription, row);
        },
    );
  });

  it('whose commits take messages that came after the page', () =>
    assertPatchCaught(
      EdgeRows.prototype,
      'countThrough',
      (count) =>
        function (this: EdgeRows, bound): number {
          return count.call(this, bound, Number.POSITIVE_INFINITY);
        },
      () =>
        assertPatchCaught(
          EdgeRows.prototype,
          'removeThrough',
          (remove) =>
            function (this: EdgeRows, bound): number {
              return remove.call(this, bound, Number.POSITIVE_INFINITY);
            },
        ),
    ));

  it('that stores a message under another seq, live and in replay alike', () =>
    assertPatchCaught(
      EdgeState.prototype,
      'row',
      (original) =>
        function (this: EdgeState, source, words, numbers): void {
          if (words[edgeRow.seqLowAt] === 7) words[edgeRow.seqLowAt] = 8;
          original.call(this, source, words, numbers);
        },
    ));
});
