/**
 * Case i: what others feel of operations over 1,000,000 rows. A queue of 1,000,000 partitions with two messages each,
 * and as many dead letters. Each operation runs while another queue is pushed to, one message every 2 ms: how long it
 * takes, the latency of those pushes, and for how long the broker's loop was held up at most.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { BenchOptions } from '../options.ts';
import { askJson } from '../support/json-request.ts';
import { pushLoop } from '../support/load.ts';
import { ProbedBroker } from '../support/probed-broker.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-i';
const letters = 'bench-i-letters';
const group = 'workers';
const itemsPerPush = 1000;
const lettersPerPartition = 10_000;
const payloadBytes = 64;
const otherEveryMs = 2;

export const longOperations: BenchCase = {
  id: 'i',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const count = options.partitions ?? 1_000_000;
    const probed = await ProbedBroker.start(options);
    const { broker } = probed;
    const { url } = broker;
    await fill(broker.port, queue, count, (number) => number);
    const middle = new Date().toISOString();
    await delay(5);
    await fill(broker.port, queue, count, (number) => number);

    const facts: Record<string, number> = {};
    const beside = async (name: string, work: () => Promise<unknown>): Promise<void> => {
      await probed.longestMs();
      let isOver = false;
      let tookMs = 0;
      const startedAtMs = performance.now();
      const working = work().finally(() => {
        isOver = true;
        tookMs = performance.now() - startedAtMs;
      });
      const { latency } = await pushLoop({
        port: broker.port,
        shape: { queue: 'others', items: 1, payloadBytes, withIds: options.withIds },
        connections: 1,
        chooserOf: () => (request, i, timeUs) => request.set(i, 0, 0, timeUs),
        mayContinue: async () => {
          await delay(otherEveryMs);
          return !isOver;
        },
      });
      await working;
      facts[`${name}, ms`] = tookMs;
      facts[`${name}, slowest push beside it, ms`] = latency.figures()?.maxMs ?? 0;
      facts[`${name}, loop held up at most, ms`] = await probed.longestMs();
    };
    const seek = (body: object) => () =>
      askJson(url, 'POST', `/api/v1/consumer-groups/${group}/queues/${queue}/seek`, body);
    const get = (path: string) => () => askJson(url, 'GET', path);

    await beside('nothing', () => delay(2000));
    await beside('seek to the end', seek({ toEnd: true }));
    await beside('seek to a time', seek({ timestamp: middle }));
    await beside('seek to the beginning', seek({ toBeginning: true }));
    await beside('depth', get(`/api/v1/resources/queues/${queue}/depth?consumerGroup=${group}`));
    await beside('queues', get('/api/v1/resources/queues'));
    await beside('status of the queue', get(`/api/v1/status/queues/${queue}`));
    await beside('messages', get(`/api/v1/messages?queue=${queue}&limit=1000`));
    await beside('groups', get('/api/v1/consumer-groups'));
    await beside('group', get(`/api/v1/consumer-groups/${group}?limit=5000`));
    await beside('lagging', get('/api/v1/consumer-groups/lagging?minLagSeconds=1&limit=5000'));
    await beside('positions', () =>
      askJson(url, 'POST', '/api/v1/consumer-groups/positions', { consumerGroup: group }),
    );
    await beside('changed', () =>
      askJson(url, 'POST', '/api/v1/partitions/changed', { entries: [{ queue, since: middle }] }),
    );
    await beside('group deletion', () => askJson(url, 'DELETE', `/api/v1/consumer-groups/${group}`));
    await beside('queue deletion', async () => {
      await askJson(url, 'DELETE', `/api/v1/resources/queues/${queue}`);
      while (((await broker.metrics()).get('partitions') ?? 0) > count / 2) await delay(20);
    });
    await makeLetters(broker.port, url, count);
    await beside('dead letters', get(`/api/v1/dlq?queue=${letters}&limit=1000&offset=${count / 2}`));
    await beside('redrive', async () => {
      const half = { queue: letters, max: count / 2, destination: { queue: 'again' } };
      const { redrive } = (await askJson(url, 'POST', '/api/v1/dlq/redrive', half)) as { redrive: { id: string } };
      for (let state = 'running'; state === 'running'; await delay(20)) {
        const seen = (await askJson(url, 'GET', `/api/v1/dlq/redrive/${redrive.id}`)) as { redrive: { state: string } };
        state = seen.redrive.state;
      }
    });
    await beside('purge', () => askJson(url, 'DELETE', `/api/v1/dlq?queue=${letters}&consumerGroup=${group}`));
    await probed.end();
    return {
      name: 'i',
      question: 'operations over very many rows, and what others feel',
      shape: { partitions: count, 'dead letters': count, itemsPerPush, payloadBytes },
      phases: [],
      facts,
    };
  },
};

async function fill(port: number, name: string, count: number, partitionOf: (number: number) => number): Promise<void> {
  let next = 0;
  await pushLoop({
    port,
    shape: { queue: name, items: itemsPerPush, payloadBytes, withIds: false },
    connections: 4,
    chooserOf: () => (request, i, timeUs) => request.set(i, partitionOf(next++), 0, timeUs),
    mayContinue: () => next < count,
  });
}

/** Messages that are popped and given up on. */
async function makeLetters(port: number, url: string, count: number): Promise<void> {
  await fill(port, letters, count, (number) => Math.floor(number / lettersPerPartition));
  const pop = `/api/v1/pop/queue/${letters}?consumerGroup=${group}&subscriptionMode=all&batch=${lettersPerPartition}`;
  for (let made = 0; made < count; ) {
    const popped = (await askJson(url, 'GET', pop)) as { messages: Record<string, unknown>[] };
    const acknowledgments = popped.messages.map(({ transactionId, partitionId, leaseId }) => ({
      transactionId,
      partitionId,
      leaseId,
      status: 'dlq',
      error: 'not wanted',
    }));
    await askJson(url, 'POST', '/api/v1/ack/batch', { consumerGroup: group, acknowledgments });
    made += acknowledgments.length;
  }
}
