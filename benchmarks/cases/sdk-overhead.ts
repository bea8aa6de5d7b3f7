/**
 * Case k: what the client costs over HTTP by hand. The work of case a, 100 messages per push, popped 1,000 at a time and
 * each acked, done by a program that uses fetch and JSON and nothing else, and by one that uses the client. They take
 * turns, so that both see the same machine; what counts is the CPU time of the program per message.
 */
import { LaneClient, newTransactionId } from '@lanemq/client';
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { type CaseFigures, type PhaseFigures, sumOf } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const itemsPerPush = 100;
const popBatch = 1000;
const popPartitions = 10;
const consumers = 4;
const leaseSeconds = 3600;
const roundsMax = 5;

/** One way of doing the work. Both do the same requests. */
interface Program {
  readonly name: string;
  push(partition: string, payloads: readonly unknown[]): Promise<void>;
  /** Pops and acks so many messages; resolves with how many there were. */
  drain(messages: number): Promise<number>;
}

export const sdkOverhead: BenchCase = {
  id: 'l',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 10_000;
    const connections = options.connections ?? 16;
    const messages = options.messages ?? 100_000;
    const payload = { text: 'x'.repeat(Math.max(0, options.payloadBytes - '{"text":""}'.length)) };
    const payloads = Array.from({ length: itemsPerPush }, () => payload);
    const broker = await BenchBroker.start(options);
    const programs = [byHand(broker.url), byClient(broker.url)];
    let next = 0;
    const work = async (program: Program, count: number): Promise<number> => {
      const endAt = next + count / itemsPerPush;
      const pusher = async () => {
        while (next < endAt) await program.push(`p${next++ % partitions}`, payloads);
      };
      await Promise.all(Array.from({ length: connections }, pusher));
      return await program.drain(count);
    };
    for (const program of programs) await work(program, messages / 10);

    const phases: PhaseFigures[][] = programs.map(() => []);
    for (let round = 0; round < roundsMax; round++) {
      for (const [i, program] of programs.entries()) {
        const phase = await broker.phase(program.name, async () => {
          const drained = await work(program, messages);
          if (drained !== messages) throw new Error(`${program.name}: ${drained} of ${messages} came back`);
          return { messages, requests: (2 * messages) / popBatch + messages / itemsPerPush };
        });
        phases[i].push(phase);
      }
    }
    await broker.end();
    const [hand, client] = phases.map((rounds, i) => sumOf(programs[i].name, rounds));
    return {
      name: 'l',
      question: 'the work of case a through the client, against fetch and JSON by hand',
      shape: {
        partitions,
        connections,
        itemsPerPush,
        payloadBytes: options.payloadBytes,
        popBatch,
        popPartitions,
        consumers,
      },
      phases: [hand, client],
      facts: {
        'CPU of the program per message, by hand, µs': loadCpuUs(hand),
        'CPU of the program per message, by the client, µs': loadCpuUs(client),
        'more CPU in the program, %': 100 * (loadCpuUs(client) / loadCpuUs(hand) - 1),
        'more time, %': 100 * (client.seconds / hand.seconds - 1),
      },
    };
  },
};

function loadCpuUs(figures: PhaseFigures): number {
  return (figures.loadCores * figures.seconds * 1e6) / figures.messages;
}

function byHand(url: string): Program {
  const queue = 'bench-by-hand';
  const call = async (path: string, body?: unknown): Promise<unknown> => {
    const init =
      body === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    const response = await fetch(url + path, init);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.status === 204 ? null : await response.json();
  };
  const popPath = `/api/v1/pop/queue/${queue}?batch=${popBatch}&partitions=${popPartitions}&leaseSeconds=${leaseSeconds}`;
  return {
    name: 'by hand',
    async push(partition, payloads) {
      const items = payloads.map((payload) => ({ queue, partition, transactionId: newTransactionId(), payload }));
      await call('/api/v1/push', { items });
    },
    async drain() {
      let count = 0;
      const consume = async () => {
        for (;;) {
          const answer = (await call(popPath)) as { messages: Record<string, unknown>[] } | null;
          if (answer === null) return;
          const acknowledgments = answer.messages.map(({ transactionId, partitionId, leaseId }) => ({
            transactionId,
            partitionId,
            leaseId,
            status: 'completed',
          }));
          const results = (await call('/api/v1/ack/batch', { acknowledgments })) as { success: boolean }[];
          count += results.filter(({ success }) => success).length;
        }
      };
      await Promise.all(Array.from({ length: consumers }, consume));
      return count;
    },
  };
}

function byClient(url: string): Program {
  const client = new LaneClient({ url, handleSignals: false });
  const queue = client.queue('bench-by-client');
  return {
    name: 'by the client',
    async push(partition, payloads) {
      await queue.partition(partition).push(payloads);
    },
    async drain(messages) {
      let count = 0;
      await queue
        .batch(popBatch)
        .partitions(popPartitions)
        .leaseSeconds(leaseSeconds)
        .concurrency(consumers)
        .wait(false)
        .limit(messages)
        .consume((batch) => {
          count += batch.length;
        });
      return count;
    },
  };
}
