/**
 * A scheduler of due jobs on queue/v1; examples/README.md tells how it works.
 *
 *   node dist/examples/scheduler.js schedule <key> <inMs> <job>     runs the job once its time has come
 *   node dist/examples/scheduler.js work <k>/<n>                    the k-th of n workers that share the partitions
 */
import { LaneClient, newTransactionId } from '@lanemq/client';

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const jobs = client.v1('scheduler').queue<string>('jobs');

const partitions = 6;

const say = (text: string) => process.stdout.write(`${text}\n`);

/** The due time is the seq: a partition is in the order of due times, whenever jobs were scheduled. */
async function schedule(key: string, inMs: number, value: string): Promise<void> {
  const seq = Date.now() + inMs;
  // With a dedupId it may be sent again after a broken connection, and is one job all the same.
  await jobs.enqueue({ key, seq, value, dedupId: newTransactionId() });
  say(`scheduled ${value} for ${seq}`);
}

/** Runs what is due in this worker's partitions, until it is told to end. */
function work(worker: number, of: number): Promise<void> {
  return jobs.consume(
    ({ partition, seq, value }) => say(`ran ${value} at ${Date.now()}, due ${seq}, partition ${partition}`),
    {
      share: { worker, of },
      until: 'now',
      waitMillis: 10_000,
      onTrouble: (error) => process.stderr.write(`${error}; trying again\n`),
    },
  );
}

const [command, ...given] = process.argv.slice(2);
const [, k, n] = (/^(\d+)\/(\d+)$/.exec(given[0] ?? '') ?? []).map(Number);
if (command === 'schedule' && given.length === 3 && /^\d+$/.test(given[1])) {
  await jobs.ensure({ partitions });
  await schedule(given[0], Number(given[1]), given[2]);
} else if (command === 'work' && k >= 1 && k <= n && n <= partitions) {
  await jobs.ensure({ partitions });
  await work(k, n);
} else {
  process.stderr.write(
    `usage: scheduler schedule <key> <inMs> <job> | scheduler work <k>/<n>, with 1 <= k <= n <= ${partitions}\n`,
  );
  process.exitCode = 2;
}
