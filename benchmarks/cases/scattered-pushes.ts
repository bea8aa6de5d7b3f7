/**
 * Case b: few messages of many things at a time. 1,000 messages per push, each to another of 100,000 partitions;
 * consumed 64 partitions at a time and acked, and the order of every partition checked.
 *
 * First all at once, as a running system does it. Then pushed and consumed one after the other, so that each half has its
 * own figures; then at once again, because a broker that has this behind it has more to look through: ids it has to remember,
 * and indexes and snapshots to make.
 */
import type { BenchOptions } from '../options.ts';
import { atOnce } from '../support/at-once.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { consumeLoop, type ItemChooser, OrderWatch, pushLoop, registerGroup } from '../support/load.ts';
import type { PushShape } from '../support/push-request.ts';
import { type CaseFigures, totalOf } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-b';
const group = 'workers';
const itemsPerPush = 1000;
const popBatch = 1000;
const popPartitions = 64;
const leaseSeconds = 3600;
const windowMessages = 20_000;
const parkedMs = 100;
/** Prime to every number of partitions that is not its multiple, so that a connection visits all of its own. */
const stride = 7919;

export const scatteredPushes: BenchCase = {
  id: 'b',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 100_000;
    const connections = options.connections ?? 8;
    const messagesMax = options.messages ?? 2_000_000;
    const shape: PushShape = {
      queue,
      items: itemsPerPush,
      payloadBytes: options.payloadBytes,
      withIds: options.withIds,
    };
    const watch = new OrderWatch(partitions);
    const numbers = new Int32Array(partitions);
    const broker = await BenchBroker.start(options);
    const { port } = broker;
    const consumeShape = { port, queue, group, connections, batch: popBatch, partitions: popPartitions, leaseSeconds };
    await registerGroup(port, queue, group);
    const push = (mayContinue: (pushed: number) => boolean | Promise<boolean>) =>
      pushLoop({
        port,
        shape,
        connections,
        chooserOf: (connection) => scatterOver(partitions, connections, connection, numbers),
        mayContinue,
      });
    const drain = (messages: number) =>
      consumeLoop({
        ...consumeShape,
        waitMs: 0,
        onMessages: (answer) => watch.see(answer, true),
        mayContinue: (acked) => acked < messages,
      });

    // Once over all partitions: their creation is the subject of case e.
    const warmUp = await push((pushed) => pushed < partitions);
    await drain(warmUp.messages);

    const allAtOnce = (name: string) =>
      broker.phase(name, () =>
        atOnce({
          consume: { ...consumeShape, waitMs: parkedMs },
          push,
          itemsPerPush,
          windowMessages,
          seconds: options.seconds,
          onMessages: (answer) => watch.see(answer, true),
        }),
      );
    const together = await allAtOnce('push + pop + ack at once');

    const endsAtMs = performance.now() + options.seconds * 1000;
    const pushed = await broker.phase('push', () =>
      push((count) => count < messagesMax && performance.now() < endsAtMs),
    );
    const consumed = await broker.phase('pop + ack', () => drain(pushed.messages));
    const afterwards = await allAtOnce('at once, after that');
    await broker.end();
    return {
      name: 'b',
      question: 'messages scattered over many partitions, consumed and acked in order',
      shape: { ...shape, partitions, connections, popBatch, popPartitions, windowMessages },
      phases: [together, pushed, consumed, totalOf('push, then pop + ack', [pushed, consumed]), afterwards],
      facts: { 'order violations': watch.violations },
    };
  },
};

/** Walks the partitions of one connection (every `connections`-th) in a scattered order, numbering their messages. */
function scatterOver(partitions: number, connections: number, connection: number, numbers: Int32Array): ItemChooser {
  const own = Math.floor((partitions - connection + connections - 1) / connections);
  let position = connection;
  return (request, i, timeUs) => {
    position = (position + stride) % own;
    const partition = position * connections + connection;
    request.set(i, partition, numbers[partition]++, timeUs);
  };
}
