/**
 * queue/v1 on a real broker that is killed under load. Every message is unique. What was answered 200 is either still
 * there in the end, or was in a page that somebody committed; what a commit was answered for is not there any more.
 *
 *   LANEMQ_CRASH_ROUNDS   kills (default 10)
 *   LANEMQ_CRASH_SEED     the seed of a run that failed
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { BrokerProcess } from '../e2e/broker-process.ts';
import { passed } from '../e2e/clock.ts';
import { EdgeClient } from '../e2e/edge-client.ts';
import { chooseCount, chooseSeed, SeededRandom } from './seeded-random.ts';
import { serving } from './serving.ts';

const rounds = chooseCount('LANEMQ_CRASH_ROUNDS', 10);
const seed = chooseSeed('LANEMQ_CRASH_SEED');
const repeat = `LANEMQ_CRASH_SEED=${seed} LANEMQ_CRASH_ROUNDS=${rounds} node --test dist/tests/crash/queue-v1.test.js`;

const partitions = 3;
const retryMs = 20;

interface Message {
  readonly id: string;
  readonly value: string;
}

/** What clients know of the messages, by value. */
class Ledger {
  readonly sent = new Set<string>();
  /** Their enqueue was answered 200. */
  readonly stored = new Set<string>();
  /** A commit that covers them was sent. */
  readonly covered = new Set<string>();
  /** … and answered 200. */
  readonly committed = new Set<string>();
  /** What answered commits counted. */
  counted = 0;
  /** Values that were delivered and never sent, or delivered after their commit was answered. */
  readonly wrong: string[] = [];
}

class Load {
  readonly ledger = new Ledger();
  readonly #client: EdgeClient;
  readonly #queue: string;
  readonly #random: SeededRandom;
  #isOver = false;

  constructor(client: EdgeClient, queue: string, random: SeededRandom) {
    this.#client = client;
    this.#queue = queue;
    this.#random = random;
  }

  async run(): Promise<void> {
    const producers = Array.from({ length: 4 }, (_, i) => this.#produce(i));
    // Two workers share each partition: both may commit the same page.
    const workers = Array.from({ length: partitions * 2 }, (_, i) => this.#work(i % partitions));
    await Promise.all([...producers, ...workers]);
  }

  stop(): void {
    this.#isOver = true;
  }

  /** The answer; null when the broker could not be asked or did not say. */
  async #try(method: string, path: string, body?: string): Promise<Answer> {
    try {
      const answer = await this.#client.call(method, path, body);
      if (answer.status === 200) return answer.json;
      assert.equal(answer.status, 503, answer.text);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await passed(retryMs);
    return null;
  }

  async #produce(producer: number): Promise<void> {
    for (let number = 0; !this.#isOver; ) {
      const values = Array.from({ length: this.#random.between(1, 20) }, () => `p${producer}-${number++}`);
      for (const value of values) this.ledger.sent.add(value);
      const messages = values.map((value) => ({
        key: `key-${this.#random.integer(20)}`,
        seq: this.#random.integer(1000),
        value: value.padEnd(this.#random.integer(400), ' '),
      }));
      const answer = await this.#try('POST', `${this.#queue}/messages`, JSON.stringify({ messages }));
      if (answer === null) continue;
      assert.equal(answer.accepted, values.length);
      for (const value of values) this.ledger.stored.add(value);
    }
  }

  async #work(partition: number): Promise<void> {
    const { ledger } = this;
    while (!this.#isOver) {
      const committed = new Set(ledger.committed);
      const page = await this.#try('GET', `${this.#queue}/partitions/${partition}/poll?limit=50&waitMs=50`);
      if (page === null || page.messages.length === 0) continue;
      const values: string[] = page.messages.map(({ value }: Message) => value.trim());
      ledger.wrong.push(...values.filter((value) => !ledger.sent.has(value) || committed.has(value)));
      for (const value of values) ledger.covered.add(value);
      const commit = `${this.#queue}/partitions/${partition}/messages?offset=${page.offset}&watermark=${page.watermark}`;
      const answer = await this.#try('DELETE', commit);
      if (answer === null) continue;
      ledger.counted += answer.committed;
      for (const value of values) ledger.committed.add(value);
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Answer = any;

async function remaining(client: EdgeClient, queue: string): Promise<string[]> {
  const values: string[] = [];
  for (let partition = 0; partition < partitions; partition++) {
    let query = '';
    for (let hasNext = true; hasNext; ) {
      const page = await client.get(`${queue}/partitions/${partition}/poll?limit=1000${query}`);
      values.push(...page.messages.map(({ value }: Message) => value.trim()));
      query = `&offset=${page.offset}`;
      hasNext = page.hasNext;
    }
  }
  return values;
}

it('what queue/v1 answered survives kill -9, and a commit takes nothing that it did not cover', async (context) => {
  const random = new SeededRandom(seed);
  const args = [
    ...['--segment-bytes', random.pick(['64KiB', '512KiB', '64MiB'])],
    ...['--snapshot-log-bytes', random.pick(['64KiB', '2MiB', '256MiB'])],
    ...['--tail-bytes', '1MiB', '--cold-bytes', '1MiB'],
  ];
  context.diagnostic(`${args.join(' ')}; repeat with: ${repeat}`);
  const use = async (broker: BrokerProcess): Promise<void> => {
    const client = new EdgeClient(broker);
    const queue = await client.newQueue(partitions);
    const load = new Load(client, queue, random);
    const running = load.run();
    for (let kill = 0; kill < rounds; kill++) {
      await passed(random.between(100, 700));
      await broker.kill();
      await broker.launch();
    }
    load.stop();
    await running;
    const { sent, stored, covered, committed, counted, wrong } = load.ledger;
    const left = await remaining(client, queue);
    const isLeft = new Set(left);
    context.diagnostic(`${stored.size} stored, ${committed.size} committed, ${left.length} left, ${counted} counted`);
    assert.ok(stored.size > 100 && committed.size > 100, 'the load did something');
    assert.deepEqual(wrong, []);
    assert.equal(isLeft.size, left.length, 'a message is there once');
    assert.deepEqual(
      left.filter((value) => !sent.has(value) || committed.has(value)),
      [],
      'nothing that was never sent, nothing that was committed',
    );
    assert.deepEqual(
      [...stored].filter((value) => !isLeft.has(value) && !covered.has(value)),
      [],
      'everything that was stored and not covered is there',
    );
    assert.ok(counted <= sent.size - left.length, 'each message is counted by one commit');
  };
  await serving({ args }, use, `repeat with: ${repeat}`);
});
