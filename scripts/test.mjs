/**
 * Runs the compiled tests and ends with one line of totals.
 *
 *   node scripts/test.mjs [--only SUBSTRING] [--concurrency N]
 *
 * Node 20 expands no globs, so the files are found here. The exit code is 1 when a test failed or none ran.
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
const stream = run({ files, concurrency: Number(values.concurrency ?? availableParallelism()) });
stream.on('test:pass', (event) => {
  if (event.details.type === 'suite') return;
  if (event.skip !== undefined || event.todo !== undefined) totals.skipped++;
  else totals.passed++;
});
stream.on('test:fail', (event) => {
  if (event.details.type === 'suite') return;
  totals.failed++;
  failures.push(`${event.file ?? ''}: ${event.name}`);
});
stream.compose(spec).pipe(process.stdout);
stream.on('end', () => {
  process.exitCode = totals.failed > 0 || totals.passed === 0 ? 1 : 0;
});
process.on('exit', () => {
  for (const failure of failures) process.stdout.write(`failed: ${failure}\n`);
  const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : '';
  process.stdout.write(`\n${totals.passed} passed, ${totals.failed} failed${skipped}\n`);
});
