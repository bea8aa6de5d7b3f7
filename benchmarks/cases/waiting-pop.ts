/**
 * Case d: how long a message takes from the push to a consumer that waits for it. 100 pushes per second whatever the
 * answers do (open loop), four long polls open. The time runs from the sending of the push to the reading of the
 * pop's answer, so it holds one fdatasync and both ways through HTTP.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { Latency } from '../support/latency.ts';
import { consumeLoop, registerGroup } from '../support/load.ts';
import { queuedCount } from '../support/pop-answer.ts';
import { clockUs, PushRequest, type PushShape } from '../support/push-request.ts';
import { openConnections, type RawConnection } from '../support/raw-connection.ts';
import type { CaseFigures, PhaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-d';
const group = 'workers';
const pushesPerSecond = 100;
const pushConnections = 32;
const leaseSeconds = 60;
const parkedMs = 500;
/** A broker that has just started runs its code for the first times; the figures are of one that has been at work. */
const warmUpSeconds = 10;
const warmUpPushesPerSecond = 500;

export const waitingPop: BenchCase = {
  id: 'd',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 1000;
    const connections = options.connections ?? 4;
    const shape: PushShape = { queue, items: 1, payloadBytes: options.payloadBytes, withIds: options.withIds };
    const broker = await BenchBroker.start(options);
    const { port } = broker;
    await registerGroup(port, queue, group);
    const runFor = async (seconds: number, perSecond: number, delivery: Latency, answer: Latency) => {
      const count = Math.round(seconds * perSecond);
      let received = 0;
      const consuming = consumeLoop({
        port,
        queue,
        group,
        connections,
        batch: 1,
        partitions: 1,
        leaseSeconds,
        waitMs: parkedMs,
        onMessages: (messages, receivedAtUs) => {
          received += messages.count;
          delivery.record(receivedAtUs - messages.timesUs[0]);
        },
        mayContinue: () => received < count,
      });
      const lateMs = await pushOpenLoop({ port, shape, partitions, count, perSecond, latency: answer });
      const consumed = await consuming;
      return { lateMs, requests: count + consumed.requests };
    };
    await runFor(warmUpSeconds, warmUpPushesPerSecond, new Latency(), new Latency());

    const delivery = new Latency();
    const answer = new Latency();
    let lateMs = 0;
    const phase = await broker.phase('push to waiting pop', async () => {
      const done = await runFor(options.seconds, pushesPerSecond, delivery, answer);
      lateMs = done.lateMs;
      return { messages: Math.round(options.seconds * pushesPerSecond), requests: done.requests, latency: delivery };
    });
    const pushAnswer: PhaseFigures = { ...phase, phase: 'push to its answer', latency: answer.figures() };
    await broker.end();
    return {
      name: 'd',
      question: 'push to a waiting pop, open loop',
      shape: { ...shape, pushesPerSecond, partitions, waitingPops: connections },
      phases: [phase, pushAnswer],
      facts: { 'latest push behind its schedule, ms': lateMs },
    };
  },
};

interface OpenLoad {
  readonly port: number;
  readonly shape: PushShape;
  readonly partitions: number;
  readonly count: number;
  readonly perSecond: number;
  readonly latency: Latency;
}

/** Sends each push at its own moment, on any connection that is free. Resolves with the worst lateness of a sending. */
async function pushOpenLoop(load: OpenLoad): Promise<number> {
  const { port, shape, partitions, count, perSecond, latency } = load;
  const free = (await openConnections(port, pushConnections)).map((connection) => ({
    connection,
    request: new PushRequest(shape),
  }));
  const all: RawConnection[] = free.map((lane) => lane.connection);
  const startedAtMs = performance.now();
  const pending: Promise<void>[] = [];
  let lateMsMax = 0;
  const sendOne = async (number: number, lane: (typeof free)[number]) => {
    const sentAtUs = clockUs();
    lane.request.set(0, number % partitions, 0, sentAtUs);
    queuedCount(await lane.connection.request(lane.request.bytes));
    latency.record(clockUs() - sentAtUs);
    free.push(lane);
  };
  for (let number = 0; number < count; number++) {
    const dueAtMs = startedAtMs + (number * 1000) / perSecond;
    const waitMs = dueAtMs - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    lateMsMax = Math.max(lateMsMax, performance.now() - dueAtMs);
    const lane = free.shift();
    if (lane === undefined) throw new Error(`${pushConnections} pushes are on their way and the next is due`);
    pending.push(sendOne(number, lane));
  }
  await Promise.all(pending);
  for (const connection of all) connection.close();
  return lateMsMax;
}
