/**
 * A scheduler of due jobs on queue/v1; examples/README.md tells how it works.
 *
 *   node dist/examples/scheduler.js schedule <key> <inMs> <job>     runs the job once its time has come
 *   node dist/examples/scheduler.js work <k>/<n>                    the k-th of n workers that share the partitions
 */
const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
const queues = `${LANEMQ_URL}/queue/v1/namespaces/scheduler/queues`;
const jobs = `${queues}/jobs`;
const partitions = 6;
const waitMs = 10_000;
const retryMs = 500;

interface Page {
  readonly messages: readonly { readonly seq: number; readonly value: string }[];
  readonly offset: number | null;
  readonly watermark: string;
}

const say = (text: string) => process.stdout.write(`${text}\n`);

/** Statuses in `expected` are fine, all others throw. */
async function call(method: string, url: string, body?: object, expected = [200]): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(url, body === undefined ? { method } : { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!expected.includes(response.status)) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** 409: somebody made it before. */
async function prepare(): Promise<void> {
  await call('POST', `${LANEMQ_URL}/graph/v3/databases`, { database: 'scheduler' }, [200, 409]);
  await call('POST', queues, { queue: 'jobs', storage: 'datastore://scheduler/jobs', partitions }, [200, 409]);
}

/** The due time is the seq: a partition is in the order of due times, whenever jobs were scheduled. */
async function schedule(key: string, inMs: number, job: string): Promise<void> {
  const seq = Date.now() + inMs;
  await call('POST', `${jobs}/messages`, { messages: [{ key, seq, value: job }] });
  say(`scheduled ${job} for ${seq}`);
}

/** Runs what is due in a partition, and waits for more. A job that was run and not committed runs again. */
async function work(partition: number): Promise<never> {
  const path = `${jobs}/partitions/${partition}`;
  for (;;) {
    try {
      // Always from the beginning: what was run is gone, so whatever is due is found, also when it was scheduled late.
      const page = (await call('GET', `${path}/poll?until=now&waitMs=${waitMs}`)) as Page;
      for (const { seq, value } of page.messages)
        say(`ran ${value} at ${Date.now()}, due ${seq}, partition ${partition}`);
      if (page.offset === null) continue;
      // The watermark spares jobs that came while these ran and are due before the last of them.
      await call('DELETE', `${path}/messages?offset=${page.offset}&watermark=${page.watermark}`);
    } catch (error) {
      process.stderr.write(`${(error as Error).message}; trying again\n`);
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }
}

const [command, ...given] = process.argv.slice(2);
const [, k, n] = (/^(\d+)\/(\d+)$/.exec(given[0] ?? '') ?? []).map(Number);
if (command === 'schedule' && given.length === 3 && /^\d+$/.test(given[1])) {
  await prepare();
  await schedule(given[0], Number(given[1]), given[2]);
} else if (command === 'work' && k >= 1 && k <= n && n <= partitions) {
  await prepare();
  const mine = Array.from({ length: partitions }, (_, p) => p).filter((p) => p % n === k - 1);
  say(`working on partitions ${mine.join(', ')}`);
  await Promise.all(mine.map(work));
} else {
  process.stderr.write(
    `usage: scheduler schedule <key> <inMs> <job> | scheduler work <k>/<n>, with 1 <= k <= n <= ${partitions}\n`,
  );
  process.exitCode = 2;
}
