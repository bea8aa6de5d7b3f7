/**
 * Case e: what a partition costs. 1,000,000 of them made by their first push while one group exists; the memory
 * before and after; then the group consumes everything, which gives it a cursor in each; then the broker is
 * restarted on the data, once after a proper stop and once after SIGKILL.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { consumeLoop, OrderWatch, pushLoop, registerGroup } from '../support/load.ts';
import { type PushShape, payloadBytesMin } from '../support/push-request.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-e';
const group = 'workers';
const itemsPerPush = 1000;
const popBatch = 1000;
const popPartitions = 64;
const leaseSeconds = 3600;
/** Long enough for the broker's background work and its garbage collection to settle before memory is read. */
const restMs = 5000;

export const manyPartitions: BenchCase = {
  id: 'e',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 1_000_000;
    const connections = options.connections ?? 8;
    const shape: PushShape = { queue, items: itemsPerPush, payloadBytes: payloadBytesMin, withIds: options.withIds };
    const broker = await BenchBroker.start(options);
    await registerGroup(broker.port, queue, group);
    await rest();
    const rssBefore = broker.rssBytes();

    let next = 0;
    const created = await broker.phase('create by first push', () =>
      pushLoop({
        port: broker.port,
        shape,
        connections,
        chooserOf: () => (request, i, timeUs) => request.set(i, next++ % partitions, 0, timeUs),
        mayContinue: () => next < partitions,
      }),
    );
    await rest();
    const rssCreated = broker.rssBytes();

    const watch = new OrderWatch(partitions);
    const consumed = await broker.phase('pop + ack', () =>
      consumeLoop({
        port: broker.port,
        queue,
        group,
        connections,
        batch: popBatch,
        partitions: popPartitions,
        leaseSeconds,
        waitMs: 0,
        onMessages: (answer) => watch.see(answer, false),
        mayContinue: (acked) => acked < created.messages,
      }),
    );
    await rest();
    const rssConsumed = broker.rssBytes();

    const restartMs = await broker.restart('stop');
    const recoveryMs = await broker.restart('kill');
    const counted = await partitionCount(broker.url);
    if (counted < partitions) throw new Error(`${counted} partitions after the restart, ${partitions} before`);
    await rest();
    const rssRestarted = broker.rssBytes();
    await broker.end();
    const mb = (bytes: number) => bytes / 1024 ** 2;
    return {
      name: 'e',
      question: 'partitions made by their first push',
      shape: { ...shape, partitions, connections, popBatch, popPartitions },
      phases: [created, consumed],
      facts: {
        'order violations': watch.violations,
        'RSS before, MB': mb(rssBefore),
        'RSS with all partitions, MB': mb(rssCreated),
        'RSS per partition, bytes': (rssCreated - rssBefore) / partitions,
        'RSS after the group consumed all, MB': mb(rssConsumed),
        'RSS after restarts, MB': mb(rssRestarted),
        'RSS per partition with its cursor after restarts, bytes': (rssRestarted - rssBefore) / partitions,
        'restart after a stop until healthy, ms': restartMs,
        'restart after SIGKILL until healthy, ms': recoveryMs,
      },
    };
  },
};

function rest(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, restMs));
}

async function partitionCount(url: string): Promise<number> {
  const response = await fetch(`${url}/api/v1/resources/queues?stats=lanes`);
  const body = (await response.json()) as { queues: { name: string; partitions: number }[] };
  return body.queues.find((row) => row.name === queue)?.partitions ?? 0;
}
