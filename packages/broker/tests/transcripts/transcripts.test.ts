/**
 * Scenarios as text. A file holds scenarios that begin with `# title`; each step is a command, a line `----`, and what the
 * core decided and wrote, up to an empty line. The commands are those of core-bench.ts.
 *
 * `LANEMQ_REWRITE_TRANSCRIPTS=1` writes what happened into the files instead of comparing: read the difference.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CoreBench } from './core-bench.ts';

// The compiled test lies in dist/tests/transcripts, the texts beside the source.
const folder = fileURLToPath(new URL('../../../tests/transcripts/', import.meta.url));
const rewrites = process.env['LANEMQ_REWRITE_TRANSCRIPTS'] !== undefined;

/** The scenario with what its steps give now. */
function played(scenario: string): string {
  const bench = new CoreBench();
  const [title, ...steps] = scenario.trimEnd().split('\n\n');
  const lines = steps.map((step) => {
    const [command] = step.split('\n----');
    if (command.startsWith('//')) return command;
    return `${command}\n----\n${bench.run(command.trim())}`;
  });
  return [title, ...lines].join('\n\n');
}

for (const file of readdirSync(folder).filter((name) => name.endsWith('.txt'))) {
  const scenarios = readFileSync(folder + file, 'utf8').split(/^(?=# )/m);
  describe(file, () => {
    for (const scenario of scenarios) {
      const title = scenario.slice(2, scenario.indexOf('\n'));
      if (rewrites) continue;
      it(title, () => assert.equal(played(scenario), scenario.trimEnd()));
    }
  });
  if (rewrites) writeFileSync(folder + file, `${scenarios.map(played).join('\n\n')}\n`);
}
