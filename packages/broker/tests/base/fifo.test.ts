import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Fifo } from '../../src/base/fifo.ts';

describe('a fifo', () => {
  it('gives back what was pushed, in order, over any number of refills', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(6000), fc.nat(6000)), { maxLength: 8 }), (steps) => {
        const fifo = new Fifo<{ number: number }>();
        let pushed = 0;
        let taken = 0;
        for (const [pushes, takes] of steps) {
          for (let i = 0; i < pushes; i++) fifo.push({ number: pushed++ });
          for (let i = 0; i < takes; i++) {
            const element = fifo.shift();
            if (taken === pushed) assert.equal(element, null);
            else assert.equal(element?.number, taken++);
          }
          assert.equal(fifo.size, pushed - taken);
          assert.equal(fifo.oldest?.number, taken === pushed ? undefined : taken);
        }
      }),
      { numRuns: 50 },
    );
  });
});
