/** The official Python client `queen-mq` 2.6.0, unchanged, against our broker. What it sends is in docs/conformance.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { BrokerProcess, repositoryRoot } from '../e2e/broker-process.ts';
import { pythonClient } from './python-client.ts';

const run = promisify(execFile);
const client = await pythonClient();
const skip = 'missing' in client ? `SKIPPED, no Python client: ${client.missing}` : false;
if (skip !== false) process.stderr.write(`\n*** conformance of queen-mq 2.6.0 (Python): ${skip}\n\n`);

/** What queen-mq.py does, in its order. */
const checks = [
  'push_pop_ack',
  'payloads_of_every_kind',
  'waiting_pop_wakes',
  'consume_each',
  'consume_concurrently_by_autopilot',
  'nack_until_dead_letter_and_retry',
  'renew',
  'commit_on_delivery',
  'conflation',
  'fetch_and_changed_since',
  'buffered_push',
  'admin_routes',
  'observe_transaction',
  'binary_push',
  'observe_push_compression',
  'observe_framed_pop',
];

interface Line {
  readonly check: string;
  readonly ok: boolean;
  readonly seen: unknown;
}

describe('the Python client of queen-mq 2.6.0', { skip, timeout: 180_000 }, () => {
  let broker: BrokerProcess;
  const lines = new Map<string, Line>();

  before(async () => {
    broker = await BrokerProcess.start();
    if ('missing' in client) return;
    const script = join(repositoryRoot, 'tests/conformance/queen-mq.py');
    const { stdout } = await run(client.python, [script, broker.url], { timeout: 150_000 });
    for (const text of stdout.trim().split('\n')) {
      if (!text.startsWith('{')) continue;
      const line = JSON.parse(text) as Line;
      lines.set(line.check, line);
    }
  });
  after(() => broker.dispose());

  for (const name of checks) {
    it(name.replaceAll('_', ' '), (context) => {
      const line = lines.get(name);
      assert.ok(line?.ok, `${name}: ${line?.seen ?? 'the script did not come to it'}`);
      if (line.seen !== null) context.diagnostic(`${name}: ${JSON.stringify(line.seen)}`);
    });
  }

  it('does everything that the script has', () => {
    assert.deepEqual([...lines.keys()], checks);
  });
});
