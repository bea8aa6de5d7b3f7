/** The fixed seeds: each is a world of clients, faults and an auditor, run twice. `npm run sim` draws fresh ones. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fixedSeeds } from './fixed-seeds.ts';
import { runWorld } from './world.ts';
import { drawWorld } from './world-options.ts';

describe('in every simulated world all promises are kept, and a second run ends alike', () => {
  for (const seed of fixedSeeds) {
    it(`seed ${seed}`, async () => {
      const options = drawWorld(seed);
      const first = await runWorld(options);
      const repeat = `repeat: npm run sim -- --seeds 1 --from ${seed}`;
      assert.equal(first.failure, null, `${first.failure?.stack}\n${first.events.slice(-30).join('\n')}\n${repeat}`);
      const second = await runWorld(options);
      assert.equal(second.hash, first.hash, `the seed is not deterministic\n${repeat}`);
    });
  }
});
