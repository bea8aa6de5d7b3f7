/**
 * Case j: one partition of 1,000,000 appends, read again after a restart. How long it takes to fetch from an offset, to
 * find the offset of a time, to move a group to a time and to begin a group at a time: each at places spread over the
 * partition, the first time that anybody asks, and one after the other.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { askJson } from '../support/json-request.ts';
import { Latency } from '../support/latency.ts';
import { pushLoop } from '../support/load.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-j';
const partition = 'p00000000';
const payloadBytes = 64;
const places = 200;

interface FetchBody {
  readonly entries: readonly { readonly records: readonly { readonly offset: number; readonly ts: string }[] }[];
}

export const longPartition: BenchCase = {
  id: 'j',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const appends = options.messages ?? 1_000_000;
    const connections = options.connections ?? 64;
    const broker = await BenchBroker.start(options);
    const pushed = await broker.phase('push', () =>
      pushLoop({
        port: broker.port,
        shape: { queue, items: 1, payloadBytes, withIds: options.withIds },
        connections,
        chooserOf: () => (request, i, timeUs) => request.set(i, 0, 0, timeUs),
        mayContinue: (count) => count < appends,
      }),
    );
    await broker.restart('stop');
    const { url } = broker;
    // Far from each other, and none next to the one before.
    const offsets = Array.from({ length: places }, (_, i) => ((i * 7919) % places) * Math.floor(appends / places));
    const facts: Record<string, number> = {};
    const timed = async (name: string, ask: (place: number) => Promise<void>): Promise<void> => {
      const latency = new Latency();
      for (let place = 0; place < places; place++) {
        const startedAtMs = performance.now();
        await ask(place);
        latency.record((performance.now() - startedAtMs) * 1000);
      }
      const { p50Ms, p99Ms, maxMs } = latency.figures() ?? { p50Ms: 0, p99Ms: 0, maxMs: 0 };
      facts[`${name}, p50 ms`] = p50Ms;
      facts[`${name}, p99 ms`] = p99Ms;
      facts[`${name}, max ms`] = maxMs;
    };
    const times: string[] = [];
    await timed('fetch of 10 from an offset', async (place) => {
      const entries = [{ queue, partition, offset: offsets[place], maxBytes: 10 * payloadBytes }];
      const body = (await askJson(url, 'POST', '/api/v1/fetch', { entries })) as FetchBody;
      const [first] = body.entries[0].records;
      if (first.offset !== offsets[place]) throw new Error(`offset ${first.offset} instead of ${offsets[place]}`);
      times.push(first.ts);
    });
    await timed('offset of a time', async (place) => {
      const entries = [{ queue, partition, timestamp: times[place] }];
      const body = (await askJson(url, 'POST', '/api/v1/fetch/offsets', { entries })) as {
        readonly entries: readonly { readonly offset: number }[];
      };
      const [{ offset }] = body.entries;
      if (offset !== offsets[place]) throw new Error(`offset ${offset} instead of ${offsets[place]}`);
    });
    await timed('seek to a time', async (place) => {
      const path = `/api/v1/consumer-groups/seeker/queues/${queue}/seek`;
      await askJson(url, 'POST', path, { timestamp: times[place] });
    });
    await timed('first pop with subscriptionFrom', async (place) => {
      const from = encodeURIComponent(times[place]);
      await askJson(url, 'GET', `/api/v1/pop/queue/${queue}?consumerGroup=g${place}&batch=1&subscriptionFrom=${from}`);
    });
    await broker.end();
    return {
      name: 'j',
      question: 'places in a long partition',
      shape: { appends, payloadBytes, connections, places },
      phases: [pushed],
      facts,
    };
  },
};
