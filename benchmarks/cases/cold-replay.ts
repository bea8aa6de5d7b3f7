/**
 * Case g: the whole history is read again. Messages are pushed, the broker is started anew, so that nothing of them is in
 * its memory, and all partitions are read from offset 0 with POST /api/v1/fetch.
 *
 * Twice: as batches of 100 messages of one partition, and one message per partition and push, where each message is a
 * block of its own that lies among those of all the others. The files may still be in the page cache of the system.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { eachEntry } from '../support/fetch-answer.ts';
import { pushLoop } from '../support/load.ts';
import type { PushShape } from '../support/push-request.ts';
import { expectStatus, RawConnection, requestHead } from '../support/raw-connection.ts';
import type { CaseFigures, PhaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-g';
const entriesMax = 1000;
const answerBytes = 8 * 1024 * 1024;
const itemsPerPush = { batched: 100, scattered: 1000 } as const;

export const coldReplay: BenchCase = {
  id: 'g',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const messages = options.messages ?? 1_000_000;
    const partitions = options.partitions ?? 1000;
    const connections = options.connections ?? 4;
    const load = { messages, partitions, connections };
    const batched = await pushAndReplay(options, 'batched', load);
    const scattered = await pushAndReplay(options, 'scattered', load);
    return {
      name: 'g',
      question: 'a replay of everything from disk',
      shape: { ...load, payloadBytes: options.payloadBytes, entriesMax, answerBytes },
      phases: [batched.phase, scattered.phase],
      facts: { 'order violations': batched.violations + scattered.violations },
    };
  },
};

interface Load {
  readonly messages: number;
  readonly partitions: number;
  readonly connections: number;
}

async function pushAndReplay(
  options: BenchOptions,
  how: keyof typeof itemsPerPush,
  load: Load,
): Promise<{ phase: PhaseFigures; violations: number }> {
  const items = itemsPerPush[how];
  const shape: PushShape = { queue, items, payloadBytes: options.payloadBytes, withIds: options.withIds };
  const broker = await BenchBroker.start(options);
  let next = 0;
  const pushed = await pushLoop({
    port: broker.port,
    shape,
    connections: load.connections,
    chooserOf: () => (request, i, timeUs) => {
      const number = next++;
      const partition = how === 'batched' ? Math.floor(number / items) : number;
      request.set(i, partition % load.partitions, 0, timeUs);
    },
    mayContinue: (count) => count < load.messages,
  });
  await broker.restart('stop');
  const replay = new Replay(broker.port, load);
  const phase = await broker.phase(`${how}, replayed`, () => replay.run());
  await broker.end();
  if (phase.messages !== pushed.messages) {
    throw new Error(`${pushed.messages} messages were pushed, ${phase.messages} were replayed`);
  }
  return { phase, violations: replay.violations };
}

class Replay {
  readonly #port: number;
  readonly #load: Load;
  #messages = 0;
  #requests = 0;
  violations = 0;

  constructor(port: number, load: Load) {
    this.#port = port;
    this.#load = load;
  }

  async run(): Promise<{ messages: number; requests: number }> {
    const { partitions, connections } = this.#load;
    const share = Math.ceil(partitions / connections);
    const readers: Promise<void>[] = [];
    for (let from = 0; from < partitions; from += share) {
      readers.push(this.#readAll(from, Math.min(partitions, from + share)));
    }
    await Promise.all(readers);
    return { messages: this.#messages, requests: this.#requests };
  }

  /** Reads partitions [from, to) to their ends, as many per call as it takes. */
  async #readAll(from: number, to: number): Promise<void> {
    const connection = await RawConnection.open(this.#port);
    let open = Array.from({ length: to - from }, (_, i) => ({ number: from + i, offset: 0, done: false }));
    while (open.length > 0) {
      const asked = open.slice(0, entriesMax);
      const entries = asked.map(({ number, offset }) => ({
        queue,
        partition: `p${String(number).padStart(8, '0')}`,
        offset,
        // An even share: what lies together in the log is then asked for together.
        maxBytes: Math.ceil(answerBytes / asked.length),
      }));
      const body = JSON.stringify({ entries, maxBytes: answerBytes });
      const head = requestHead('POST', '/api/v1/fetch', body.length);
      const answer = await connection.request(Buffer.from(head + body));
      expectStatus(answer, 200);
      this.#requests++;
      eachEntry(
        answer.bytes,
        answer.bodyStart,
        answer.bodyEnd,
        (index) => asked[index].offset,
        (index, progress) => {
          this.#messages += progress.records;
          this.violations += progress.violations;
          asked[index].offset = progress.next;
          asked[index].done = progress.next >= progress.highWatermark;
        },
      );
      open = open.filter(({ done }) => !done);
    }
    connection.close();
  }
}
