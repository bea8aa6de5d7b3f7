/** The examples in the client's doc comments compile, and run against a broker. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { BrokerProcess, repositoryRoot } from '../e2e/broker-process.ts';
import { documentedExamples, membersWithoutExample, programOf } from './documented-examples.ts';

const run = promisify(execFile);

test('every example compiles under the rules of the tree, and runs', { timeout: 120_000 }, async () => {
  const examples = documentedExamples(join(repositoryRoot, 'packages/client/src'));
  assert.ok(examples.length > 10, `only ${examples.length} examples were found`);
  // Inside the tree, so that the packages are found from there.
  const folder = join(repositoryRoot, 'dist/tests/documented-examples');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'examples.ts'), programOf(examples));
  const config = {
    extends: join(repositoryRoot, 'tsconfig.base.json'),
    compilerOptions: {
      types: ['node'],
      lib: ['ES2023', 'DOM'],
      composite: false,
      declaration: false,
      outDir: '.',
      // Examples name what the reader goes on with.
      noUnusedLocals: false,
    },
    files: ['examples.ts'],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const broker = await BrokerProcess.start();
  try {
    const compiled = await run(join(repositoryRoot, 'node_modules/.bin/tsc'), ['-p', folder]).catch(
      (error: { stdout: string }) => error,
    );
    assert.equal(compiled.stdout, '');
    const { stdout } = await run(process.execPath, [join(folder, 'examples.js')], {
      env: { ...process.env, LANEMQ_URL: broker.url },
      timeout: 90_000,
    });
    assert.deepEqual(
      stdout.trim().split('\n'),
      examples.map(({ place }) => place),
    );
  } finally {
    await broker.dispose();
    await rm(folder, { recursive: true });
  }
});

test('every method of the classes that programs see has an example', () => {
  assert.deepEqual(membersWithoutExample(join(repositoryRoot, 'packages/client/src')), []);
});
