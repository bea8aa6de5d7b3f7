/** Dead letters against a plain list: rows come and go, also in the middle of walks and pages. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DeadLetters, type LetterSelection } from '../../src/core/dead-letters.ts';
import type { DeadLetterRecord } from '../../src/core/records.ts';

const groups = ['a', 'b'];

class World {
  readonly letters = new DeadLetters();
  rows: DeadLetterRecord[] = [];
  #stampUs = 0;

  add(queueNumber: number, group: string): void {
    const row = {
      stampUs: ++this.#stampUs,
      index: 0,
      queueNumber,
      pid: 1 + (this.#stampUs % 3),
      group,
      offset: this.#stampUs,
      error: '',
      retryCount: 0,
    };
    this.letters.add(row);
    this.rows.push(row);
  }

  remove(row: DeadLetterRecord): void {
    assert.equal(this.letters.remove(row.stampUs, row.index), row);
    this.rows = this.rows.filter((other) => other !== row);
  }

  removeQueue(queueNumber: number): void {
    this.letters.removeQueue(queueNumber);
    this.rows = this.rows.filter((row) => row.queueNumber !== queueNumber);
  }

  selected({ queueNumber, group }: LetterSelection): DeadLetterRecord[] {
    return this.rows.filter(
      (row) => (queueNumber === null || row.queueNumber === queueNumber) && (group === null || row.group === group),
    );
  }

  check(selection: LetterSelection): void {
    const expected = this.selected(selection);
    assert.equal(this.letters.countOf(selection), expected.length);
    const offset = expected.length >> 2;
    const pages = this.letters.page(selection, offset, 100);
    let page = pages.next();
    while (page.done !== true) page = pages.next();
    assert.deepEqual(page.value.rows, expected.toReversed().slice(offset, offset + 100));
    // A walk over every row names no group without a queue.
    if (selection.queueNumber === null && selection.group !== null) return;
    const walked: DeadLetterRecord[] = [];
    const place = { stampUs: -1, index: 0 };
    const visit = (row: DeadLetterRecord) => walked.push(row) > 0;
    while (!this.letters.walk(selection, place, 50, visit));
    assert.deepEqual(walked, expected);
  }
}

const selections: readonly LetterSelection[] = [
  { queueNumber: null, group: null },
  { queueNumber: null, group: 'a' },
  { queueNumber: 1, group: null },
  { queueNumber: 2, group: 'b' },
];

describe('dead letters', () => {
  it('are what a plain list holds, whatever comes and goes', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), count: fc.integer({ min: 1, max: 300 }) }),
      fc.record({ kind: fc.constant('remove' as const), count: fc.integer({ min: 1, max: 300 }), from: fc.nat() }),
      fc.record({ kind: fc.constant('purge' as const), count: fc.integer({ min: 1, max: 300 }), which: fc.nat(3) }),
      fc.record({ kind: fc.constant('queue' as const), queueNumber: fc.integer({ min: 1, max: 2 }) }),
      fc.record({ kind: fc.constant('garbage' as const), count: fc.integer({ min: 1, max: 100 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const world = new World();
        const { letters } = world;
        for (const each of steps) {
          if (each.kind === 'add') {
            for (let i = 0; i < each.count; i++) world.add(1 + (i % 2), groups[(i >> 1) % 2]);
          } else if (each.kind === 'remove') {
            for (let i = 0; i < each.count && world.rows.length > 0; i++) {
              world.remove(world.rows[(each.from + i * 7) % world.rows.length]);
            }
          } else if (each.kind === 'purge') {
            let left = each.count;
            const { queueNumber } = selections[each.which];
            const place = { stampUs: -1, index: 0 };
            const visit = (row: DeadLetterRecord): boolean => {
              world.remove(row);
              return --left > 0;
            };
            while (!letters.walk({ queueNumber, group: null }, place, 50, visit) && left > 0);
          } else if (each.kind === 'queue') world.removeQueue(each.queueNumber);
          else letters.collectGarbage(each.count);
          for (const selection of selections) world.check(selection);
          assert.deepEqual([...letters.all()], world.rows);
          assert.equal(letters.count, world.rows.length);
        }
      }),
      { numRuns: 60 },
    );
  });
});
