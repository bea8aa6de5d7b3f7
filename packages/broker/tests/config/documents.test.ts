import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';

it('docs/errors.md and docs/options.md say what the tables in the code say', () => {
  const script = fileURLToPath(new URL('../../../../../scripts/generate-docs.mjs', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  assert.equal(stderr, '');
  assert.equal(status, 0);
});
