/** Killed consumers, restarted brokers and cut connections: nothing is lost, and nothing that was acked comes again. */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LaneClient, LaneError } from '@lanemq/client';
import { BrokerProcess, repositoryRoot, sized } from '../e2e/broker-process.ts';
import { Relay } from './relay.ts';
import type { WorkerNote, WorkerTask } from './worker.ts';

const workerMain = join(repositoryRoot, 'dist/tests/client/worker.js');

/** What all workers of a test did. */
class Observed {
  readonly handled = new Map<string, number>();
  readonly acked = new Set<string>();
  readonly repeatedAfterAck: string[] = [];

  take(note: WorkerNote): void {
    for (const id of note.transactionIds) {
      if (note.kind === 'acked') this.acked.add(id);
      else {
        if (this.acked.has(id)) this.repeatedAfterAck.push(id);
        this.handled.set(id, (this.handled.get(id) ?? 0) + 1);
      }
    }
  }
}

/** Those that run. A failed test leaves some behind. */
const workers = new Set<ChildProcess>();
after(() => {
  for (const worker of workers) worker.kill('SIGKILL');
});

function startWorker(task: WorkerTask, observed: Observed): ChildProcess {
  const child = fork(workerMain, [JSON.stringify(task)], { execArgv: [] });
  workers.add(child);
  child.once('exit', () => workers.delete(child));
  child.on('message', (note: WorkerNote) => observed.take(note));
  return child;
}

async function until(isDone: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const endsAtMs = performance.now() + timeoutMs;
  while (!(await isDone())) {
    assert.ok(performance.now() < endsAtMs, 'it did not come to its end in time');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const lanes = 20;

/** Pushes `count` messages over the lanes; a push that fails is pushed again with the same ids until it is stored. */
async function pushAll(client: LaneClient, queue: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => `${queue}-${n}`);
  for (let at = 0; at < count; at += 10) {
    const items = ids.slice(at, at + 10).map((transactionId) => ({ payload: at, transactionId }));
    for (;;) {
      try {
        await client
          .queue<number>(queue)
          .partition(`lane-${(at / 10) % lanes}`)
          .push(items);
        break;
      } catch (error) {
        if (!(error instanceof LaneError) || !error.retriable) throw error;
      }
    }
  }
  return ids;
}

/**
 * Waits until the broker has nothing left for the group, and compares. An ack whose answer was lost settled its messages
 * without its worker knowing; what was never handled, and what came again after a confirmed ack, must not be.
 */
async function checkAll(client: LaneClient, queue: string, ids: readonly string[], observed: Observed): Promise<void> {
  await until(async () => {
    const { pending, processing } = await client.admin.getQueueDepth(queue, 'g');
    return pending + processing === 0;
  });
  assert.deepEqual(
    ids.filter((id) => !observed.handled.has(id)),
    [],
    'lost',
  );
  assert.deepEqual(observed.repeatedAfterAck, [], 'came again after its ack was confirmed');
  assert.equal(observed.handled.size, ids.length);
}

test('consumers that are killed in the middle of their work lose nothing and repeat nothing that was acked', {
  timeout: 120_000,
}, async () => {
  const broker = await BrokerProcess.start();
  const observed = new Observed();
  const task = { urls: [broker.url], queue: 'killed-consumers', handleMs: 100 };
  const workers = [startWorker(task, observed), startWorker(task, observed)];
  const client = new LaneClient(broker.url);
  const ids = await pushAll(client, task.queue, sized(600, 20_000));
  for (let kill = 0; kill < 3; kill++) {
    await until(() => observed.acked.size > (kill * ids.length) / 5);
    workers[kill % 2].kill('SIGKILL');
    workers[kill % 2] = startWorker(task, observed);
  }
  await checkAll(client, task.queue, ids, observed);
  for (const worker of workers) worker.kill('SIGKILL');
  await client.close();
  await broker.dispose();
});

test('a broker that is killed and restarted under its producers and consumers loses nothing and repeats nothing that was acked', {
  timeout: 120_000,
}, async () => {
  const broker = await BrokerProcess.start();
  const relay = await Relay.start(() => broker.client.port);
  const observed = new Observed();
  const task = { urls: [relay.url], queue: 'killed-broker', handleMs: 5 };
  const worker = startWorker(task, observed);
  const client = new LaneClient({ url: relay.url, retryDelayMillis: 50 });
  const count = sized(2000, 50_000);
  const pushing = pushAll(client, task.queue, count);
  for (const share of [0.1, 0.4]) {
    await until(() => observed.acked.size > count * share);
    await broker.killAndRestart();
  }
  const ids = await pushing;
  await checkAll(client, task.queue, ids, observed);
  worker.kill('SIGKILL');
  await client.close();
  await relay.close();
  await broker.dispose();
});

test('connections that are cut while requests and answers are on them lose nothing and repeat nothing that was acked', {
  timeout: 120_000,
}, async () => {
  const broker = await BrokerProcess.start();
  const relay = await Relay.start(() => broker.client.port);
  const observed = new Observed();
  const task = { urls: [relay.url], queue: 'cut-connections', handleMs: 5 };
  const worker = startWorker(task, observed);
  const cutting = setInterval(() => relay.cut(), 150);
  const client = new LaneClient({ url: relay.url, retryDelayMillis: 20, retryAttempts: 10 });
  const ids = await pushAll(client, task.queue, sized(2000, 50_000));
  await until(() => observed.acked.size > ids.length / 2);
  clearInterval(cutting);
  await checkAll(client, task.queue, ids, observed);
  worker.kill('SIGKILL');
  await client.close();
  await relay.close();
  await broker.dispose();
});

test('a process that is told to end settles its handlers and sends its buffers first', async () => {
  const broker = await BrokerProcess.start();
  const observed = new Observed();
  const task = { urls: [broker.url], queue: 'told-to-end', handleMs: 300 };
  const client = new LaneClient(broker.url);
  const ids = await pushAll(client, task.queue, 10);
  const worker = startWorker(task, observed);
  await until(() => observed.handled.size === ids.length);
  const ended = new Promise((resolve) => worker.once('exit', (code, signal) => resolve({ code, signal })));
  worker.kill('SIGTERM');
  assert.deepEqual(await ended, { code: null, signal: 'SIGTERM' });
  assert.equal(observed.acked.size, ids.length);
  await client.close();
  await broker.dispose();
});
