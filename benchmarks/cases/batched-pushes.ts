/**
 * Case a: many messages of one thing at a time. 100 messages per push, all to one partition, 10,000 partitions.
 *
 * First the three operations one after the other over the same messages, so that each has its own figures: the pops
 * read what is no longer in the broker's memory, and all leases are open at once. Then all three at the same time,
 * with a bounded number of messages on their way, which is how a broker is used.
 */
import type { BenchOptions } from '../options.ts';
import { atOnce } from '../support/at-once.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { ackLoop, type ConsumeLoad, consumeLoop, OrderWatch, pushLoop, registerGroup } from '../support/load.ts';
import type { PushShape } from '../support/push-request.ts';
import { type CaseFigures, totalOf } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-a';
const group = 'workers';
const itemsPerPush = 100;
const popBatch = 1000;
const popPartitions = 10;
const leaseSeconds = 3600;
const warmUpItems = 10;
const windowMessages = 20_000;
const parkedMs = 100;

export const batchedPushes: BenchCase = {
  id: 'a',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 10_000;
    const connections = options.connections ?? 16;
    const shape: PushShape = {
      queue,
      items: itemsPerPush,
      payloadBytes: options.payloadBytes,
      withIds: options.withIds,
    };
    const watch = new OrderWatch(partitions);
    const broker = await BenchBroker.start(options);
    const { port } = broker;
    const consumeShape = { port, queue, group, connections, batch: popBatch, partitions: popPartitions, leaseSeconds };
    await registerGroup(port, queue, group);
    let next = 0;
    const push = (items: number, mayContinue: (pushed: number) => boolean | Promise<boolean>) =>
      pushLoop({
        port,
        shape: { ...shape, items },
        connections,
        // All items of a request go to one partition; the requests go round them.
        chooserOf: () => {
          let partition = 0;
          return (request, i, timeUs) => {
            if (i === 0) partition = next++ % partitions;
            request.set(i, partition, 0, timeUs);
          };
        },
        mayContinue,
      });
    const drain = (messages: number, more: Partial<ConsumeLoad> = {}) =>
      consumeLoop({
        ...consumeShape,
        waitMs: 0,
        onMessages: (answer) => watch.see(answer, false),
        mayContinue: (acked) => acked < messages,
        ...more,
      });

    const warmUp = await push(warmUpItems, () => next < partitions);
    await drain(warmUp.messages);

    next = 0;
    const endsAtMs = performance.now() + options.seconds * 1000;
    const acks: { request: Uint8Array; count: number }[] = [];
    const pushed = await broker.phase('push', () =>
      push(itemsPerPush, () => next < partitions && performance.now() < endsAtMs),
    );
    const popped = await broker.phase('pop', () => drain(pushed.messages, { keptAcks: acks }));
    const acked = await broker.phase('ack', () => ackLoop(port, connections, acks));
    acks.length = 0;

    const together = await broker.phase('push + pop + ack at once', () =>
      atOnce({
        consume: { ...consumeShape, waitMs: parkedMs },
        push: (mayContinue) => push(itemsPerPush, mayContinue),
        itemsPerPush,
        windowMessages,
        seconds: options.seconds,
        onMessages: (answer) => watch.see(answer, false),
      }),
    );
    await broker.end();
    return {
      name: 'a',
      question: 'batches to one partition, pushed, popped and acked',
      shape: { ...shape, partitions, connections, popBatch, popPartitions, windowMessages },
      phases: [pushed, popped, acked, totalOf('push, then pop, then ack', [pushed, popped, acked]), together],
      facts: { 'order violations': watch.violations },
    };
  },
};
