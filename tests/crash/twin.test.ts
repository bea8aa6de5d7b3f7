/**
 * The whole net, workload and auditor together, on the twin: a broker that keeps the contract passes whatever
 * connections break, and one with a fault does not.
 */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { passed } from '../e2e/clock.ts';
import { chooseSeed, SeededRandom } from './seeded-random.ts';
import { type PlantedFault, plantedFaults, TwinBroker } from './twin-broker.ts';
import { Workload } from './workload.ts';

const seed = chooseSeed('LANEMQ_CRASH_SEED');
const kills = 6;

async function runOnTwin(context: TestContext, fault: PlantedFault | null): Promise<void> {
  context.diagnostic(`repeat with: LANEMQ_CRASH_SEED=${seed} node --test dist/tests/crash/twin.test.js`);
  const random = new SeededRandom(seed);
  const twin = new TwinBroker(random.fork(), fault);
  const workload = new Workload({
    client: twin,
    random,
    whenUp: () => passed(1),
    prefix: '',
    payloadBytesMax: 400,
    leaseSecondsMax: 1,
  });
  await workload.setUp();
  const stop = new AbortController();
  const load = workload.run(6, stop.signal);
  for (let i = 0; i < kills; i++) {
    await passed(random.between(100, 300));
    twin.kill();
  }
  stop.abort();
  await load;
  await workload.drainAndAudit();
}

describe('the net', { concurrency: true }, () => {
  it('passes a broker that keeps the contract', (context) => runOnTwin(context, null));

  for (const fault of plantedFaults) {
    it(`catches a broker of which this is true: ${fault}`, async (context) => {
      await assert.rejects(runOnTwin(context, fault));
    });
  }
});
