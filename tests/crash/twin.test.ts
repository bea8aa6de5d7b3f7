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
const kills = 7;
const killsMax = 60;
const acksMin = 350;

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
    failPercent: 40,
    latePercent: fault === 'an ended lease still counts' ? 20 : 2,
  });
  await workload.setUp();
  const stop = new AbortController();
  const load = workload.run(12, stop.signal);
  // A busy machine gets less done in the same time, and a fault needs its occasions.
  for (let i = 0; i < kills || (workload.auditor.counts().acks < acksMin && i < killsMax); i++) {
    await passed(random.between(200, 300));
    twin.kill();
  }
  stop.abort();
  await load;
  await workload.drainAndAudit();
}

/** By which rule each planted fault is found. */
const ruleOf: Readonly<Record<PlantedFault, RegExp>> = {
  'a crash forgets the last records': /^(kept|identity|invented|counts): /m,
  'a crash forgets the last acks': /^settled: /m,
  'a crash forgets leases': /^(holder|kept): /m,
  'a crash forgets transactionIds': /^identity: /m,
  'a crash forgets dead letters': /^kept: .*not in the list/m,
  'a crash forgets options': /^kept: .*retentionSeconds/m,
  'a crash forgets registrations': /^(kept|order): /m,
  'an ended lease still counts': /^holder: /m,
  'a lease does not keep others out': /^holder: /m,
  'a failed message is passed over': /^(order|kept): /m,
  'a batch ack settles what lies above a failure': /^(order|kept): /m,
  'the attempt is not counted': /^attempt: /m,
  'the wrong payload is delivered': /^identity: /m,
  'a refused push is stored': /^invented: /m,
};

describe('the net', { concurrency: true }, () => {
  it('passes a broker that keeps the contract', (context) => runOnTwin(context, null));

  for (const fault of plantedFaults) {
    it(`catches a broker of which this is true: ${fault}`, async (context) => {
      await assert.rejects(runOnTwin(context, fault), { message: ruleOf[fault] });
    });
  }
});
