import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CursorTable } from '../../src/core/cursor-table.ts';
import { CursorRecord } from '../../src/core/mod.ts';

type Fields = { -readonly [K in keyof CursorRecord]: CursorRecord[K] };

interface TwinRow {
  readonly lane: number;
  readonly subscription: number;
  record: Fields | null;
  consumed: number;
  batches: number;
}

const lease = fc.constantFrom(0, 0, 101, 102, 103);
const record = fc.record({
  committed: fc.integer({ min: -1, max: 50 }),
  leaseStamp: lease,
  leaseEnd: fc.nat(60),
  expiresAtUs: fc.nat(1000),
  conflated: fc.boolean(),
  retryCount: fc.constantFrom(0, 0, 1, 3),
  attempt: fc.constantFrom({ attemptOffset: -1, attemptCount: 0 }, { attemptOffset: 4, attemptCount: 2 }),
  heldUntilUs: fc.constantFrom(0, 0, 500),
  memoStamp: fc.constantFrom(0, 101),
  memoFrom: fc.nat(10),
  memoCount: fc.nat(10),
  consumed: fc.nat(5),
  batchDone: fc.boolean(),
});

const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ lane: fc.nat(4), subscription: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 5, arbitrary: fc.record({ write: fc.nat(1000), record }) },
  { weight: 1, arbitrary: fc.record({ remove: fc.nat(1000) }) },
);

function asRecord(row: TwinRow, given: typeof record extends fc.Arbitrary<infer T> ? T : never): CursorRecord {
  const { attempt, ...rest } = given;
  return Object.assign(new CursorRecord(), rest, attempt, { pid: row.lane + 1, subscription: row.subscription });
}

/** What a reader of the row gets: what only a claim keeps is gone when nothing of it is in force. */
function asRead(row: TwinRow): Fields {
  const read = Object.assign(new CursorRecord(), { pid: row.lane + 1, subscription: row.subscription });
  if (row.record === null) return read;
  const { committed, memoStamp, memoFrom, memoCount } = row.record;
  Object.assign(read, { committed, memoStamp, memoFrom, memoCount });
  if (rests(row.record)) return read;
  const { leaseStamp, leaseEnd, expiresAtUs, conflated, retryCount, attemptOffset, attemptCount, heldUntilUs } =
    row.record;
  return Object.assign(read, {
    leaseStamp,
    leaseEnd,
    expiresAtUs,
    conflated,
    retryCount,
    attemptOffset,
    attemptCount,
    heldUntilUs,
  });
}

function rests({ leaseStamp, retryCount, attemptCount, heldUntilUs }: Fields): boolean {
  return leaseStamp === 0 && retryCount === 0 && attemptCount === 0 && heldUntilUs === 0;
}

describe('the cursor table', () => {
  it('reads back what was written, and lists the cursors of each lease, whatever comes and goes', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
        const table = new CursorTable(1);
        const first = new Map<number, number>();
        const twin = new Map<number, TwinRow>();
        for (const action of steps) {
          if ('lane' in action) {
            const { lane, subscription } = action;
            if ([...twin.values()].some((row) => row.lane === lane && row.subscription === subscription)) continue;
            const row = table.add(lane, subscription, first.get(lane) ?? -1);
            assert.ok(!twin.has(row), 'a row is given once');
            first.set(lane, row);
            twin.set(row, { lane, subscription, record: null, consumed: 0, batches: 0 });
          } else if (twin.size === 0) {
          } else if ('write' in action) {
            const [row, expected] = [...twin][action.write % twin.size];
            const written = asRecord(expected, action.record);
            table.write(row, written);
            expected.record = { ...written };
            expected.consumed += written.consumed;
            if (written.batchDone) expected.batches++;
          } else {
            // A lane goes as a whole.
            const { lane } = [...twin.values()][action.remove % twin.size];
            for (const [row, expected] of [...twin]) {
              if (expected.lane !== lane) continue;
              table.remove(row);
              twin.delete(row);
            }
            first.delete(lane);
          }
        }
        assert.equal(table.count, twin.size);
        for (const [row, expected] of twin) {
          assert.deepEqual({ ...table.read(row, expected.lane + 1, new CursorRecord()) }, { ...asRead(expected) });
          assert.equal(table.find(first.get(expected.lane) ?? -1, expected.subscription), row);
          assert.equal(table.totalConsumed[row], expected.consumed);
          assert.equal(table.batchesConsumed[row], expected.batches);
          const isClaimed = expected.record !== null && !rests(expected.record);
          assert.equal(table.claim[row] >= 0, isClaimed, 'a claim row exists exactly while it says something');
          const { leaseStamp, expiresAtUs } = asRead(expected);
          assert.equal(table.hasLiveLease(row, 500), leaseStamp !== 0 && expiresAtUs >= 500);
        }
        for (const stamp of [101, 102, 103]) {
          const listed: number[] = [];
          for (let row = table.firstOfLease(stamp); row >= 0; row = table.nextOfLease[table.claim[row]])
            listed.push(row);
          const wanted = [...twin].filter(([, expected]) => asRead(expected).leaseStamp === stamp).map(([row]) => row);
          assert.deepEqual(listed.sort(), wanted.sort());
        }
      }),
      { numRuns: 200 },
    );
  });
});
