/** What the README prints works: its commands and its example, run against a real broker. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { BrokerProcess, repositoryRoot } from './e2e/broker-process.ts';

const run = promisify(execFile);
const printedAddress = 'http://127.0.0.1:6632';

/** The fenced blocks of a language, in order. */
function blocksOf(markdown: string, language: string): string[] {
  return [...markdown.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    (match) => match[1] ?? '',
  );
}

describe('the README', () => {
  const readme = readFileSync(join(repositoryRoot, 'README.md'), 'utf8');
  const hasCurl = spawnSync('curl', ['--version']).status === 0;
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  it('shows examples/quickstart.ts as it is', () => {
    assert.equal(blocksOf(readme, 'ts')[0], readFileSync(join(repositoryRoot, 'examples/quickstart.ts'), 'utf8'));
  });

  it('has an example that runs, twice on the same broker', { timeout: 60_000 }, async () => {
    for (let round = 0; round < 2; round++) {
      const { stdout } = await run(process.execPath, [join(repositoryRoot, 'dist/examples/quickstart.js')], {
        env: { ...process.env, LANEMQ_URL: broker.url },
      });
      const lines = stdout.trim().split('\n');
      const ofCustomer = (customer: string) =>
        lines.filter((line) => line.startsWith(customer)).map((line) => line.replace(/.*#\d+ /, ''));
      assert.deepEqual(ofCustomer('customer-7'), ['created: done', 'paid: done', 'shipped: done']);
      assert.deepEqual(ofCustomer('customer-42'), [
        'created: done',
        'paid: declined, try again',
        'paid: done',
        'shipped: done',
      ]);
    }
  });

  it('prints commands that work as they stand', { skip: hasCurl ? false : 'curl is not installed' }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lanemq-readme-'));
    try {
      const commands = blocksOf(readme, 'sh').filter((block) => /curl|popped\.json/.test(block));
      assert.equal(commands.length, 6);
      const script = commands.join('echo\n').replaceAll(printedAddress, broker.url);
      const { stdout, stderr } = await run('sh', ['-eu', '-c', script], { cwd: folder });
      assert.equal(stderr, '');
      assert.equal(stdout.match(/"status":"queued"/g)?.length, 3);
      assert.match(stdout, /"partition":"customer-42".*"offset":0.*"offset":1/);
      assert.equal(stdout.match(/"success":true,"error":null/g)?.length, 2);
      assert.match(stdout, /"name":"orders"/);
      assert.match(stdout, /"name":"billing"/);
      assert.match(stdout, /"status":"healthy"/);
      assert.match(stdout, /"group":"billing","state":"consumed"/);
      assert.match(stdout, /"highWatermark":2/);
      assert.match(stdout, /"partitionsUpdated":2/);
      assert.match(stdout, /"messages":\[\],"total":0/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('docs/queue-v1.md', () => {
  const page = readFileSync(join(repositoryRoot, 'docs/queue-v1.md'), 'utf8');
  const hasCurl = spawnSync('curl', ['--version']).status === 0;

  it('prints commands that work as they stand', { skip: hasCurl ? false : 'curl is not installed' }, async () => {
    const broker = await BrokerProcess.start();
    try {
      const script = blocksOf(page, 'sh')[0].replaceAll(printedAddress, broker.url);
      const { stdout } = await run('sh', ['-eu', '-c', script]);
      assert.match(stdout, /"accepted":2,.*"messages":\[\{"partition":25,.*"watermark":"2".*"committed":1\}$/);
      assert.doesNotMatch(stdout, /"status":[45]/);
    } finally {
      await broker.dispose();
    }
  });
});

describe('the scheduler', () => {
  const program = join(repositoryRoot, 'dist/examples/scheduler.js');
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  const schedule = async (key: string, inMs: number, job: string): Promise<void> => {
    const env = { ...process.env, LANEMQ_URL: broker.url };
    await run(process.execPath, [program, 'schedule', key, String(inMs), job], { env });
  };

  it('runs every job once, not before its time, by two workers that share the partitions', {
    timeout: 60_000,
  }, async () => {
    const ran: { job: string; atMs: number; dueMs: number; partition: number; worker: number }[] = [];
    const jobs = Array.from({ length: 12 }, (_, i) => `job-${i}`);
    let allRan: () => void = () => undefined;
    const whenAllRan = new Promise<void>((resolve) => {
      allRan = resolve;
    });
    const listen = (worker: number, line: string): void => {
      const found = /^ran (\S+) at (\d+), due (\d+), partition (\d+)$/.exec(line);
      if (found === null) return;
      const [, job, atMs, dueMs, partition] = found;
      ran.push({ job, worker, atMs: Number(atMs), dueMs: Number(dueMs), partition: Number(partition) });
      if (ran.length === jobs.length) allRan();
    };
    const workers = [1, 2].map((worker) => startWorker(worker, (line) => listen(worker, line)));
    try {
      for (const [i, job] of jobs.entries()) await schedule(`key-${i}`, (i % 4) * 400, job);
      await whenAllRan;
    } finally {
      for (const worker of workers) {
        worker.kill();
        await once(worker, 'exit');
      }
    }
    assert.deepEqual(ran.map(({ job }) => job).sort(), [...jobs].sort());
    for (const { atMs, dueMs, partition, worker } of ran) {
      assert.ok(atMs >= dueMs - 5, `due ${dueMs}, ran ${atMs}`);
      assert.equal(partition % 2, worker - 1);
    }
    assert.equal(new Set(ran.map(({ worker }) => worker)).size, 2);
  });

  function startWorker(number: number, heard: (line: string) => void): ChildProcess {
    const env = { ...process.env, LANEMQ_URL: broker.url };
    const worker = spawn(process.execPath, [program, 'work', `${number}/2`], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    worker.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) heard(line);
    });
    return worker;
  }

  it('says how it is used', async () => {
    const error = await run(process.execPath, [program]).catch((failure: { code: number; stderr: string }) => failure);
    assert.ok('code' in error && error.code === 2 && error.stderr.startsWith('usage: scheduler'));
  });
});

/** What each guide's program prints. */
const guides: Readonly<Record<string, string>> = {
  'work-queue': 'beach.jpg at 320\ncity.jpg at 320\nforest.jpg at 320',
  'entity-pipeline': 'alice: 300\nbob: 300\ncarol: 300',
  'fan-out': ['billing', 'mail', 'search']
    .flatMap((group) => [`${group} got 9137`, `${group} got 9138`])
    .concat('billing has 0 before it', 'mail has 0 before it', 'search has 0 before it')
    .join('\n'),
  'retries-and-dead-letters': [
    '500 EUR, attempt 1',
    '700 DKK, attempt 1',
    '700 DKK, attempt 2',
    '700 DKK, attempt 3',
    '900 EUR, attempt 1',
    'dead: payment-2, unknown currency DKK',
    '700 DKK, attempt 1',
    '0 dead letters',
  ].join('\n'),
  'exactly-once-step': 'attempt 1: queued\nattempt 2: duplicate\n1 invoice',
  replay: 'apple 30, apple 30, apple 35, apple 35, pear 50, pear 50\napple: 35, pear: 55',
  'queue-v1': [
    'alice #9007199254740993: 500',
    'alice #9007199254740995: -300',
    'bob #9007199254740994: 200',
    'bob #9007199254740996: -50',
  ].join('\n'),
  'due-messages': 'waiting: tea, trip, party\nthe tea is ready\npack',
};

describe('the guides', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  it('are all run here', () => {
    const pages = readdirSync(join(repositoryRoot, 'docs/guides')).filter((name) => name !== 'README.md');
    assert.deepEqual(
      pages.sort(),
      Object.keys(guides)
        .map((name) => `${name}.md`)
        .sort(),
    );
  });

  for (const [name, printed] of Object.entries(guides)) {
    it(`${name} shows its program as it is, and the program does what the guide says`, {
      timeout: 60_000,
    }, async () => {
      const page = readFileSync(join(repositoryRoot, `docs/guides/${name}.md`), 'utf8');
      assert.equal(blocksOf(page, 'ts')[0], readFileSync(join(repositoryRoot, `examples/${name}.ts`), 'utf8'));
      const { stdout } = await run(process.execPath, [join(repositoryRoot, `dist/examples/${name}.js`)], {
        env: { ...process.env, LANEMQ_URL: broker.url },
      });
      // The groups of the fan-out are listed in the order in which they came to be known.
      const lines = stdout.trim().split('\n');
      if (name === 'fan-out') lines.splice(6, 3, ...lines.slice(6).sort());
      assert.equal(lines.join('\n'), printed);
    });
  }
});
