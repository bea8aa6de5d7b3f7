/**
 * Runs the compiled tests and ends with one line of totals.
 *
 *   node scripts/test.mjs [--only SUBSTRING] [--concurrency N]
 *
 * Node 20 expands no globs, so the files are found here. A file that does not end in time has failed. The exit code is 1 when a test failed or none ran.
 */
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, concurrency: { type: 'string' } },
});
/** A file that takes longer fails; the others go on. The longest takes one minute on two processors. */
const fileMinutesMax = process.env.LANEMQ_TEST_SLOW === '1' ? 120 : 15;
const root = fileURLToPath(new URL('..', import.meta.url));

function testFiles(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join(root, folder, name))
    .filter((name) => name.includes(values.only))
    .sort();
}

const files = [...testFiles('packages/broker/dist/tests'), ...testFiles('dist/tests')];
const totals = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
/** Tests that began and have not ended, by file and name: where a file that ran out of time stands. */
const unfinished = new Set();
const stream = run({
  files,
  concurrency: Number(values.concurrency ?? availableParallelism()),
  timeout: fileMinutesMax * 60_000,
});
const nameOf = (event) => `${event.file ?? ''}: ${event.name}`;
stream.on('test:dequeue', (event) => unfinished.add(nameOf(event)));
stream.on('test:complete', (event) => unfinished.delete(nameOf(event)));
stream.on('test:pass', (event) => {
  if (event.details.type === 'suite') return;
  if (event.skip !== undefined || event.todo !== undefined) totals.skipped++;
  else totals.passed++;
});
stream.on('test:fail', (event) => {
  if (event.details.type === 'suite') return;
  totals.failed++;
  failures.push(nameOf(event));
});
stream.compose(spec).pipe(process.stdout);
stream.on('end', () => {
  process.exitCode = totals.failed > 0 || totals.passed === 0 ? 1 : 0;
});
process.on('exit', () => {
  for (const name of unfinished) process.stdout.write(`unfinished: ${name}\n`);
  for (const failure of failures) process.stdout.write(`failed: ${failure}\n`);
  const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : '';
  process.stdout.write(`\n${totals.passed} passed, ${totals.failed} failed${skipped}\n`);
});
