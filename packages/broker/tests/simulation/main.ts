/**
 * Runs worlds with fresh seeds until something breaks or time is up.
 *
 *   npm run sim -- [--seeds N] [--from SEED] [--minutes M] [--once]
 *
 * Each seed is run twice, and both runs must end alike. `--once` runs it once. A failure prints the last events, the
 * commit, and the command that repeats it; the exit code is then 1.
 */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { runWorld, type WorldReport } from './world.ts';
import { describeWorld, drawWorld } from './world-options.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string' },
    minutes: { type: 'string', default: '60' },
    once: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});

const first = values.from === undefined ? Date.now() % 1_000_000_000 : Number(values.from);
const seeds = Number(values.seeds);
const endMs = performance.now() + Number(values.minutes) * 60_000;
const totals = {
  worlds: 0,
  crashes: 0,
  reloads: 0,
  pushed: 0,
  delivered: 0,
  acked: 0,
  virtualHours: 0,
  removed: 0,
  reclaimed: 0,
};

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function commit(): string {
  try {
    const head = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
    const isChanged = execFileSync('git', ['status', '--porcelain'], { encoding: 'utf8' }).trim() !== '';
    return isChanged ? `${head} and uncommitted changes` : head;
  } catch {
    return 'unknown';
  }
}

function add(report: WorldReport): void {
  totals.worlds++;
  totals.crashes += report.crashes;
  totals.reloads += report.reloads;
  totals.pushed += report.counts.pushed;
  totals.delivered += report.counts.delivered;
  totals.acked += report.counts.acked;
  totals.removed += report.counts.removed;
  totals.reclaimed += report.reclaimed;
  totals.virtualHours += report.virtualMs / 3_600_000;
}

function failed(seed: number, message: string, events: readonly string[]): void {
  for (const event of events) say(event);
  say('');
  say(`seed ${seed} failed: ${message}`);
  say(describeWorld(drawWorld(seed)));
  say(`commit: ${commit()}`);
  say(`repeat: npm run sim -- --seeds 1 --from ${seed}`);
  process.exitCode = 1;
}

async function runSeed(seed: number): Promise<boolean> {
  const options = drawWorld(seed);
  const report = await runWorld(options);
  add(report);
  if (values.verbose) {
    const { counts, groupCounts, crashes, reloads, snapshots, segments, coldReads, virtualMs } = report;
    const { reclaimed, relocatedBytes } = report;
    const facts = { crashes, reloads, snapshots, segments, coldReads, reclaimed, relocatedBytes, virtualMs };
    say(`${seed} ${JSON.stringify({ ...counts, ...groupCounts, ...facts })}`);
  }
  if (report.failure !== null) {
    failed(seed, report.failure.stack ?? report.failure.message, report.events);
    return false;
  }
  if (values.once) return true;
  const again = await runWorld(options);
  if (again.hash === report.hash) return true;
  failed(seed, `two runs of one seed end differently: ${report.hash} and ${again.hash}`, again.events);
  return false;
}

for (let seed = first; seed < first + seeds && performance.now() < endMs; seed++) {
  if (!(await runSeed(seed))) break;
}
say(
  `${totals.worlds} worlds, ${totals.virtualHours.toFixed(1)} virtual hours, ${totals.crashes} crashes, ` +
    `${totals.reloads} reloads, ${totals.pushed} records pushed, ${totals.delivered} delivered, ${totals.acked} acked, ` +
    `${totals.removed} removed, ${totals.reclaimed} segments reclaimed`,
);
