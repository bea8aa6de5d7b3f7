/** The table of due messages against a slow twin, and what of it a snapshot keeps. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DueTable } from '../../src/core/due-table.ts';

interface TwinRow {
  readonly pid: number;
  readonly offset: number;
  readonly stampUs: number;
  /** 0 = cancelled. */
  dueUs: number;
}

/** The same as one list that is searched from its beginning. */
class Twin {
  rows: TwinRow[] = [];

  sorted(): TwinRow[] {
    return [...this.rows].sort((a, b) => a.pid - b.pid || a.offset - b.offset);
  }

  find(pid: number, offset: number): TwinRow | undefined {
    return this.rows.find((row) => row.pid === pid && row.offset === offset);
  }

  next(pid: number, offset: number): TwinRow | undefined {
    return this.sorted().find((row) => row.pid === pid && row.offset >= offset);
  }

  waitingByTime(): TwinRow[] {
    return this.rows
      .filter(({ dueUs }) => dueUs > 0)
      .sort((a, b) => a.dueUs - b.dueUs || a.pid - b.pid || a.offset - b.offset);
  }
}

type Step =
  | { readonly kind: 'add'; readonly pid: number; readonly inUs: number }
  | { readonly kind: 'move'; readonly pick: number; readonly inUs: number }
  | { readonly kind: 'cancel'; readonly pick: number }
  | { readonly kind: 'pass'; readonly us: number }
  | { readonly kind: 'forget'; readonly pid: number; readonly records: number };

const pids = 4;
const inUs = fc.integer({ min: 1, max: 2000 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('add' as const), pid: fc.integer({ min: 1, max: pids }), inUs }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('move' as const), pick: fc.nat(), inUs }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), us: fc.integer({ min: 1, max: 400 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('forget' as const),
      pid: fc.integer({ min: 1, max: pids }),
      records: fc.integer({ min: 1, max: 30 }),
    }),
  },
);

class Pair {
  readonly table = new DueTable();
  readonly twin = new Twin();
  readonly #nextOffset = new Map<number, number>();
  nowUs = 1_000_000;

  run(each: Step): void {
    const { table, twin } = this;
    this.nowUs++;
    switch (each.kind) {
      case 'add': {
        const offset = this.#nextOffset.get(each.pid) ?? 0;
        this.#nextOffset.set(each.pid, offset + 1);
        const dueUs = this.nowUs + each.inUs;
        table.add(each.pid, offset, dueUs, this.nowUs, 0);
        twin.rows.push({ pid: each.pid, offset, stampUs: this.nowUs, dueUs });
        return;
      }
      case 'move':
      case 'cancel': {
        const waiting = twin.waitingByTime();
        if (waiting.length === 0) return;
        const row = waiting[each.pick % waiting.length];
        const at = table.find(row.pid, row.offset);
        row.dueUs = each.kind === 'move' ? this.nowUs + each.inUs : 0;
        if (each.kind === 'move') table.move(at, row.dueUs);
        else table.cancel(at);
        return;
      }
      case 'pass':
        this.nowUs += each.us;
        table.collectGarbage(this.nowUs, 1_000_000);
        twin.rows = twin.rows.filter(({ dueUs }) => dueUs === 0 || dueUs > this.nowUs);
        return;
      case 'forget': {
        const below = (twin.next(each.pid, 0)?.offset ?? 0) + each.records;
        table.forgetBelow(each.pid, below);
        while (table.hasGarbage(0)) table.collectGarbage(0, 3);
        twin.rows = twin.rows.filter((row) => row.pid !== each.pid || row.offset >= below);
        return;
      }
    }
  }

  check(): void {
    const { table, twin, nowUs } = this;
    assert.equal(table.size, twin.rows.length);
    assert.equal(table.cancelled, twin.rows.filter(({ dueUs }) => dueUs === 0).length);
    const shown = [...table.all()].map((row) => [
      table.pidOf(row),
      table.offsetOf(row),
      table.isCancelled(row) ? 0 : table.dueUsOf(row),
      table.stampOf(row),
    ]);
    assert.deepEqual(
      shown,
      twin.sorted().map((row) => [row.pid, row.offset, row.dueUs, row.stampUs]),
    );
    const byTime = twin.waitingByTime();
    assert.equal(table.firstDueUs, byTime[0]?.dueUs ?? Number.POSITIVE_INFINITY);
    const from = byTime[Math.floor(byTime.length / 2)];
    const listed: number[][] = [];
    table.forEachByTime(from?.dueUs ?? 0, from?.pid ?? 0, from?.offset ?? 0, (row) => {
      listed.push([table.dueUsOf(row), table.pidOf(row), table.offsetOf(row)]);
      return listed.length < 7;
    });
    const expected = byTime.slice(Math.floor(byTime.length / 2)).slice(0, 7);
    assert.deepEqual(
      listed,
      expected.map((row) => [row.dueUs, row.pid, row.offset]),
    );
    for (let pid = 1; pid <= pids; pid++) this.#checkPartition(pid, nowUs);
  }

  #checkPartition(pid: number, nowUs: number): void {
    const { table, twin } = this;
    const last = this.#nextOffset.get(pid) ?? 0;
    for (const offset of [0, Math.floor(last / 2), last]) {
      const next = table.next(pid, offset);
      assert.equal(next < 0 ? undefined : table.offsetOf(next), twin.next(pid, offset)?.offset);
      const expiredBeforeUs = nowUs - 500;
      const waiting = twin
        .sorted()
        .find((row) => row.pid === pid && row.offset >= offset && row.dueUs > nowUs && row.stampUs >= expiredBeforeUs);
      assert.equal(
        table.firstWaiting(pid, offset, nowUs, expiredBeforeUs),
        waiting?.offset ?? Number.POSITIVE_INFINITY,
      );
      let kept = last;
      while (kept >= offset && twin.find(pid, kept)?.dueUs === 0) kept--;
      assert.equal(table.lastKept(pid, offset, last), Math.max(kept, offset - 1));
      const cancelled = twin.rows.filter(
        (row) => row.pid === pid && row.dueUs === 0 && row.offset >= offset && row.offset <= last - 2,
      );
      assert.equal(table.cancelledIn(pid, offset, last - 2), cancelled.length);
    }
  }
}

describe('the table of due messages', () => {
  it('agrees with a list that is searched', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const pair = new Pair();
        for (const each of steps) {
          pair.run(each);
          pair.check();
        }
      }),
      { numRuns: 100 },
    );
  });

  it('agrees with it also when chunks are cut, emptied and joined', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 3000, maxLength: 4000, size: 'max' }), (steps) => {
        const pair = new Pair();
        steps.forEach((each, i) => {
          // Times far apart keep most rows in the table.
          if (each.kind === 'add' || each.kind === 'move') pair.run({ ...each, inUs: each.inUs * 1000 });
          else if (each.kind !== 'forget' || i % 5 === 0) pair.run(each);
          if (i % 500 === 0) pair.check();
        });
        pair.check();
      }),
      { numRuns: 5 },
    );
  });

  it('drops what is due when more is added, so that a replay does not collect it', () => {
    const table = new DueTable();
    for (let i = 0; i < 10_000; i++) table.add(1, i, i + 10, i, i);
    assert.ok(table.size < 30, `${table.size} rows`);
  });
});
