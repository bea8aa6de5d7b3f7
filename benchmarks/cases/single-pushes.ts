/** Case c: the most frequent request there is, one message per push, from 64 connections that wait for each answer. */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { pushLoop } from '../support/load.ts';
import type { PushShape } from '../support/push-request.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-c';
const warmUpSeconds = 1;

export const singlePushes: BenchCase = {
  id: 'c',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 10_000;
    const connections = options.connections ?? 64;
    const shape: PushShape = { queue, items: 1, payloadBytes: options.payloadBytes, withIds: options.withIds };
    const broker = await BenchBroker.start(options);
    let next = 0;
    const pushFor = (seconds: number) => {
      const endsAtMs = performance.now() + seconds * 1000;
      return pushLoop({
        port: broker.port,
        shape,
        connections,
        chooserOf: () => (request, i, timeUs) => request.set(i, next++ % partitions, 0, timeUs),
        mayContinue: () => performance.now() < endsAtMs,
      });
    };
    await pushFor(warmUpSeconds);
    const pushed = await broker.phase('push', () => pushFor(options.seconds));
    await broker.end();
    return {
      name: 'c',
      question: 'one message per push',
      shape: { ...shape, partitions, connections },
      phases: [pushed],
      facts: {},
    };
  },
};
