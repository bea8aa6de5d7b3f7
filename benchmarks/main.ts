/**
 * `npm run bench`: measures a real broker process under load from this one, prints tables, and writes JSON.
 * What the cases are and what they are for: docs/benchmarks.md. How to repeat a figure: benchmarks/README.md.
 */
import { writeFileSync } from 'node:fs';
import { batchedPushes } from './cases/batched-pushes.ts';
import type { BenchCase } from './cases/case.ts';
import { coldReplay } from './cases/cold-replay.ts';
import { edgeQueue } from './cases/edge-queue.ts';
import { expiringBacklog } from './cases/expiring-backlog.ts';
import { longOperations } from './cases/long-operations.ts';
import { longPartition } from './cases/long-partition.ts';
import { manyPartitions } from './cases/many-partitions.ts';
import { rememberedIds } from './cases/remembered-ids.ts';
import { scatteredPushes } from './cases/scattered-pushes.ts';
import { sdkOverhead } from './cases/sdk-overhead.ts';
import { singlePushes } from './cases/single-pushes.ts';
import { waitingPop } from './cases/waiting-pop.ts';
import { type BenchOptions, parseBenchOptions, usage } from './options.ts';
import { probeDisk } from './support/disk-probe.ts';
import { machineFacts } from './support/machine.ts';
import { type CaseFigures, caseText } from './support/report.ts';

const cases: readonly BenchCase[] = [
  batchedPushes,
  scatteredPushes,
  singlePushes,
  waitingPop,
  manyPartitions,
  rememberedIds,
  coldReplay,
  expiringBacklog,
  longOperations,
  longPartition,
  edgeQueue,
  sdkOverhead,
];

async function main(options: BenchOptions): Promise<void> {
  const machine = machineFacts();
  const disk = probeDisk(options.folder);
  print(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB; Linux ${machine.kernel}; Node ${machine.node}`,
  );
  print(`commit ${machine.commit}, ${machine.date}`);
  print(`disk: 64 KiB write + fdatasync p50 ${disk.p50Ms.toFixed(2)} ms, p99 ${disk.p99Ms.toFixed(2)} ms`);
  print(`repeat: npm run bench -- ${process.argv.slice(2).join(' ')}`);
  const figures: CaseFigures[] = [];
  for (const id of options.cases) {
    const chosen = cases.find((candidate) => candidate.id === id);
    if (chosen === undefined) throw new Error(`there is no case "${id}"`);
    const result = await chosen.run(options);
    figures.push(result);
    print(`\n${caseText(result)}`);
  }
  if (options.jsonFile !== null) {
    const run = { machine, disk, options, cases: figures };
    writeFileSync(options.jsonFile, `${JSON.stringify(run, null, 2)}\n`);
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Wrong options are the user's: their text is enough. Everything else shows where it happened. */
function optionsOrExit(): BenchOptions | null {
  try {
    return parseBenchOptions(
      process.argv.slice(2),
      cases.map((candidate) => candidate.id),
    );
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
    return process.exit(2);
  }
}

const options = optionsOrExit();
if (options === null) print(usage);
else {
  try {
    await main(options);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    // Also ends a broker that is still running, and connections that still wait.
    process.exit(1);
  }
}
