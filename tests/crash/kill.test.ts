/**
 * A real broker that is killed, started, killed while starting, doubled, stopped and frozen under load. What it said
 * before must be true afterwards.
 *
 *   LANEMQ_CRASH_ROUNDS   kills in the long test (default 10; 200 and more for a thorough run)
 *   LANEMQ_CRASH_SEED     the seed of a run that failed
 *
 * SIGKILL ends the process and not the machine, so what the kernel had taken is kept: power loss is the subject of the
 * simulated disk in packages/broker/tests.
 */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { BrokerProcess } from '../e2e/broker-process.ts';
import { passed } from '../e2e/clock.ts';
import { chooseCount, chooseSeed, SeededRandom } from './seeded-random.ts';
import { serving } from './serving.ts';
import { Workload } from './workload.ts';

const rounds = chooseCount('LANEMQ_CRASH_ROUNDS', 10);
const seed = chooseSeed('LANEMQ_CRASH_SEED');
const repeat = `LANEMQ_CRASH_SEED=${seed} LANEMQ_CRASH_ROUNDS=${rounds} node --test dist/tests/crash/kill.test.js`;

/** Lets clients wait for the broker while it is down. */
class UpGate {
  #up: Promise<void> = Promise.resolve();
  #open: () => void = () => undefined;

  readonly whenUp = (): Promise<void> => this.#up;

  close(): void {
    this.#up = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#open();
  }
}

/** Sizes at their extremes, so that segments roll, indexes and snapshots are written and memory runs out all the time. */
function storageArgs(random: SeededRandom): string[] {
  const choose = (flag: string, values: readonly string[]): string[] => [flag, random.pick(values)];
  return [
    ...choose('--segment-bytes', ['64KiB', '64KiB', '512KiB', '4MiB', '64MiB']),
    ...choose('--snapshot-log-bytes', ['64KiB', '256KiB', '2MiB', '256MiB']),
    ...choose('--tail-bytes', ['1MiB', '32MiB']),
    ...choose('--cold-bytes', ['1MiB', '32MiB']),
  ];
}

interface CrashPlan {
  readonly kills: number;
  readonly clients: number;
  /** How long a broker lives before it is killed. */
  readonly lifeMs: readonly [number, number];
  /** Chance of a further kill while it starts. */
  readonly startKillPercent: number;
  readonly startKillMs: number;
}

async function crashUnderLoad(context: TestContext, random: SeededRandom, plan: CrashPlan): Promise<void> {
  const args = storageArgs(random);
  context.diagnostic(`${args.join(' ')}; repeat with: ${repeat}`);
  const payloadBytesMax = random.pick([400, 3000, 60_000]);
  const use = async (broker: BrokerProcess): Promise<void> => {
    const gate = new UpGate();
    const workload = new Workload({
      client: broker.client,
      random,
      whenUp: gate.whenUp,
      prefix: '',
      payloadBytesMax,
      leaseSecondsMax: 3,
      failPercent: 22,
      latePercent: 2,
    });
    await workload.setUp();
    const stop = new AbortController();
    const load = workload.run(plan.clients, stop.signal);
    try {
      for (let kill = 0; kill < plan.kills && workload.faults.length === 0; kill++) {
        await passed(random.between(plan.lifeMs[0], plan.lifeMs[1]));
        gate.close();
        await broker.kill();
        while (random.chance(plan.startKillPercent)) await killWhileStarting(broker, random.integer(plan.startKillMs));
        await broker.launch();
        gate.open();
      }
    } finally {
      stop.abort();
      gate.open();
    }
    await load;
    await workload.drainAndAudit();
    const counts = workload.auditor.counts();
    context.diagnostic(JSON.stringify(counts));
    assert.ok(counts.records > 0 && counts.runs > 0 && counts.acks > 0, 'the load did something');
  };
  await serving({ args }, use, `repeat with: ${repeat}`);
}

async function killWhileStarting(broker: BrokerProcess, afterMs: number): Promise<void> {
  const exit = await broker.launchToExit(afterMs);
  assert.equal(exit.signal, 'SIGKILL', `a start after a kill failed by itself:\n${exit.output}`);
}

describe('crash', { concurrency: true }, () => {
  // S-063, S-058, S-059, S-016; contract section 19, item 40
  it('what was answered 2xx survives kill -9 at any moment under sixteen clients', async (context) => {
    await crashUnderLoad(context, new SeededRandom(seed), {
      kills: rounds,
      clients: 16,
      lifeMs: [100, 900],
      startKillPercent: 30,
      startKillMs: 400,
    });
  });

  // S-063
  it('fifty kills in a row lose nothing', async (context) => {
    await crashUnderLoad(context, new SeededRandom(seed + 1), {
      kills: 50,
      clients: 6,
      lifeMs: [0, 60],
      startKillPercent: 10,
      startKillMs: 200,
    });
  });

  // S-060
  it('a broker that is killed again and again while it recovers starts in the end with everything', async (context) => {
    await crashUnderLoad(context, new SeededRandom(seed + 2), {
      kills: 2,
      clients: 8,
      lifeMs: [600, 900],
      startKillPercent: 85,
      startKillMs: 300,
    });
  });
});
