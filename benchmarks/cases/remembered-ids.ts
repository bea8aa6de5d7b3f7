/**
 * Case f: what a remembered transactionId costs. The same messages are pushed to two fresh brokers, to one with
 * transactionIds and to the other without; the difference of their memory, after a rest, is the ids'.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { pushLoop } from '../support/load.ts';
import { type PushShape, payloadBytesMin } from '../support/push-request.ts';
import type { CaseFigures, PhaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-f';
const itemsPerPush = 1000;
const restMs = 10_000;

export const rememberedIds: BenchCase = {
  id: 'f',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const messages = options.messages ?? 5_000_000;
    const partitions = options.partitions ?? 1000;
    const connections = options.connections ?? 8;
    const shape = { queue, items: itemsPerPush, payloadBytes: payloadBytesMin };
    const without = await pushAndRest(options, { ...shape, withIds: false }, { messages, partitions, connections });
    const withIds = await pushAndRest(options, { ...shape, withIds: true }, { messages, partitions, connections });
    return {
      name: 'f',
      question: 'memory per remembered transactionId',
      shape: { ...shape, messages, partitions, connections },
      phases: [without.phase, withIds.phase],
      facts: {
        'RSS without ids, MB': without.rssBytes / 1024 ** 2,
        'RSS with ids, MB': withIds.rssBytes / 1024 ** 2,
        'RSS per id, bytes': (withIds.rssBytes - without.rssBytes) / messages,
        ...Object.fromEntries(withIds.metrics),
      },
    };
  },
};

interface Load {
  readonly messages: number;
  readonly partitions: number;
  readonly connections: number;
}

async function pushAndRest(
  options: BenchOptions,
  shape: PushShape,
  load: Load,
): Promise<{ phase: PhaseFigures; rssBytes: number; metrics: Map<string, number> }> {
  const broker = await BenchBroker.start(options);
  let next = 0;
  const phase = await broker.phase(shape.withIds ? 'push with ids' : 'push without ids', () =>
    pushLoop({
      port: broker.port,
      shape,
      connections: load.connections,
      // A request is 1,000 messages of one partition: the ids are the subject, not the lanes.
      chooserOf: () => (request, i, timeUs) =>
        request.set(i, Math.floor(next++ / itemsPerPush) % load.partitions, 0, timeUs),
      mayContinue: (pushed) => pushed < load.messages,
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, restMs));
  const rssBytes = broker.rssBytes();
  const metrics = await broker.metrics();
  await broker.end();
  return { phase, rssBytes, metrics };
}
