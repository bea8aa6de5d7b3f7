import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CursorTable } from '../../src/core/cursor-table.ts';
import { Deadlines } from '../../src/core/deadlines.ts';

const rows = 40;
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ set: fc.nat(rows - 1), atUs: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ clear: fc.nat(rows - 1) }) },
  { weight: 2, arbitrary: fc.record({ takeUntilUs: fc.nat(100) }) },
);

describe('deadlines', () => {
  it('are taken earliest first, moved and cleared like those of a plain map', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        const cursors = new CursorTable(rows);
        for (let row = 0; row < rows; row++) cursors.add(row, 1, -1);
        const deadlines = new Deadlines(cursors);
        const twin = new Map<number, number>();
        for (const action of steps) {
          if ('set' in action) {
            deadlines.set(action.set, action.atUs);
            twin.set(action.set, action.atUs);
          } else if ('clear' in action) {
            deadlines.clear(action.clear);
            twin.delete(action.clear);
          } else {
            const earliestUs = Math.min(...twin.values());
            const row = deadlines.take(action.takeUntilUs);
            if (earliestUs > action.takeUntilUs) assert.equal(row, -1);
            else assert.equal(twin.get(row), earliestUs, 'the one that is taken is due first');
            twin.delete(row);
          }
          assert.equal(deadlines.count, twin.size);
          assert.equal(deadlines.nextUs, Math.min(...twin.values()));
        }
        const left: number[] = [];
        for (let place = 0; place < deadlines.count; place++) left.push(deadlines.rowAt(place));
        assert.deepEqual(left.sort(), [...twin.keys()].sort());
        for (let row = 0; row < rows; row++) assert.equal(cursors.deadlineAt[row] > 0, twin.has(row));
      }),
      { numRuns: 200 },
    );
  });
});
