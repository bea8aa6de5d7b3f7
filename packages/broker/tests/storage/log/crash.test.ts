/** Power cuts, killed processes and failing operations at random moments, by seed. LANEMQ_LOG_SEEDS sets how many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogOptions } from '../../../src/storage/log-options.ts';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { SimulatedRandom } from '../../simulation/simulated-random.ts';
import { SimulatedScheduler } from '../../simulation/simulated-scheduler.ts';
import { append, openLog, readAll } from './log-driver.ts';

const { LANEMQ_LOG_SEEDS = '500', LANEMQ_LOG_FIRST_SEED = '1' } = process.env;
const seeds = Number(LANEMQ_LOG_SEEDS);
const firstSeed = Number(LANEMQ_LOG_FIRST_SEED);

/** Extremes on purpose: one-entry segments, slabs that hold nothing, reads that cut headers. */
function optionsFor(random: SimulatedRandom): Partial<LogOptions> {
  const pick = (...values: number[]): number => values[random.integer(values.length)];
  return {
    segmentBytes: pick(256, 700, 4096, 16_384),
    slabBytes: pick(256, 1000, 8192),
    tailBytes: pick(256, 4096, 65_536),
    coldBytes: pick(0, 1000, 65_536),
    coldPageBytes: pick(64, 512, 4096),
    scanBytes: pick(200, 2048, 16_384),
    zeroStepBytes: pick(256, 1024, 65_536),
    openSegmentsMax: pick(1, 3, 64),
    largeWriteBytes: pick(64, 300, 65_536),
  };
}

async function live(seed: number): Promise<void> {
  const random = new SimulatedRandom(seed, 1);
  const scheduler = new SimulatedScheduler();
  const disk = new SimulatedDisk({ seed, scheduler, latencyMsMax: 2 });
  const options = optionsFor(random);
  const lengthMax = random.chance(0.2) ? 5000 : 300;
  /** The true history: body length by sequence − 1. */
  let history: number[] = [];
  let durableThrough = 0;
  for (let life = 0; life < 4; life++) {
    const log = await scheduler.runUntil(openLog(disk, options, scheduler));
    const found = [...(await scheduler.runUntil(readAll(log))).values()];
    if (found.length === history.length + 1 && found[history.length] === -1) history.push(-1);
    assert.ok(found.length >= durableThrough, `${durableThrough} entries were durable, ${found.length} are there`);
    assert.deepEqual(found, history.slice(0, found.length));
    history = found;
    durableThrough = found.length;
    let hasFailed = false;
    log.onDurable = (through) => {
      assert.ok(through > durableThrough && through <= history.length);
      durableThrough = through;
    };
    log.onFailure = () => {
      assert.equal(hasFailed, false, 'a failure is told once');
      hasFailed = true;
    };
    if (random.chance(0.1)) disk.failOperation(1 + random.integer(30));
    const steps = random.integer(60);
    for (let i = 0; i < steps; i++) {
      const length = random.integer(lengthMax);
      history.push(length);
      append(log, length);
      if (random.chance(0.5)) await scheduler.advance(random.integer(4));
    }
    const end = random.integer(4);
    if (end === 0 && !hasFailed) {
      history.push(-1);
      await scheduler.runUntil(log.close().catch(() => undefined));
    } else if (end === 1) {
      disk.kill();
      await scheduler.advance(10);
    }
    if (end >= 2 || random.chance(0.5)) {
      disk.crash();
      await scheduler.advance(10);
    }
    disk.kill();
    if (end === 0 && history.at(-1) === -1 && durableThrough < history.length) history.pop();
  }
}

test(`nothing durable is lost and nothing else appears, whatever a crash leaves (${seeds} seeds)`, async () => {
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    await live(seed).catch((error: Error) => {
      error.message = `seed ${seed} (repeat with LANEMQ_LOG_FIRST_SEED=${seed} LANEMQ_LOG_SEEDS=1): ${error.message}`;
      throw error;
    });
  }
});
