/**
 * A broker under attack, watched: while hostile clients do their worst, a well-behaved one goes on pushing, popping and
 * acking, and the broker's memory is measured before and after. Whatever the attack is, three things must hold: the
 * good client is served all the time, memory comes back, and the process lives.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { serving } from '../crash/serving.ts';
import { freshName } from '../e2e/broker-client.ts';
import type { BrokerProcess, BrokerSettings } from '../e2e/broker-process.ts';
import { passed } from '../e2e/clock.ts';

const miB = 1024 * 1024;

export interface WatchLimits {
  /** How much more memory the broker may hold afterwards; default 64 MiB. */
  readonly growthBytesMax?: number;
  /** How much more memory it may hold at any moment meanwhile; default 192 MiB. */
  readonly peakBytesMax?: number;
  /**
   * The slowest round of push, pop and ack; default 2 s. Generous, because attacker, good client and broker share the
   * cores: it tells a broker that is stuck from one that is busy, and no more.
   */
  readonly roundMsMax?: number;
}

/** Between two rounds of the good client: often enough to notice a stall, seldom enough to leave the cores alone. */
const pauseMs = 20;
const warmUpRounds = 150;

/** Starts a broker, runs the attack beside a good client, checks what must hold, and stops the broker. */
export async function underWatch(
  context: TestContext,
  settings: BrokerSettings,
  limits: WatchLimits,
  attack: (broker: BrokerProcess) => Promise<void>,
): Promise<void> {
  await serving(settings, async (broker) => {
    const good = new GoodClient(broker);
    for (let i = 0; i < warmUpRounds; i++) await good.round();
    const beforeBytes = await broker.residentBytes();
    good.begin();
    try {
      await attack(broker);
    } finally {
      await good.end();
    }
    const growth = await settledGrowth(broker, beforeBytes, limits.growthBytesMax ?? 64 * miB);
    const peak = good.peakBytes - beforeBytes;
    const numbers = `slowest of ${good.rounds} rounds ${good.slowestMs.toFixed(0)} ms, memory +${mib(growth)}, peak +${mib(peak)}`;
    context.diagnostic(numbers);
    assert.ok(good.rounds > 0, 'the good client was served meanwhile');
    assert.ok(good.slowestMs <= (limits.roundMsMax ?? 2000), numbers);
    assert.ok(growth <= (limits.growthBytesMax ?? 64 * miB), `memory afterwards: ${numbers}`);
    assert.ok(peak <= (limits.peakBytesMax ?? 192 * miB), `memory meanwhile: ${numbers}`);
  });
}

/** Memory that is returned late is returned: looks until it is under the limit, for a few seconds at most. */
async function settledGrowth(broker: BrokerProcess, beforeBytes: number, allowed: number): Promise<number> {
  const endMs = performance.now() + 5000;
  for (;;) {
    const growth = (await broker.residentBytes()) - beforeBytes;
    if (growth <= allowed || performance.now() > endMs) return growth;
    // Only an allocation makes the collector look at what is left over.
    await broker.client.pushAll('watch-settling', 'p', ['x'.repeat(10_000)]);
    await passed(50);
  }
}

function mib(bytes: number): string {
  return `${(bytes / miB).toFixed(1)} MiB`;
}

class GoodClient {
  rounds = 0;
  slowestMs = 0;
  peakBytes = 0;
  readonly #broker: BrokerProcess;
  readonly #queue = freshName('good');
  #running: Promise<void> | null = null;
  #stopping = false;
  #number = 0;

  constructor(broker: BrokerProcess) {
    this.#broker = broker;
  }

  /** Pushes one message, pops exactly it, acks it. */
  async round(): Promise<void> {
    const { client } = this.#broker;
    const text = `message ${this.#number++}`;
    await client.pushAll(this.#queue, 'p', [text]);
    const messages = await client.pop(this.#queue, { partition: 'p' });
    assert.deepEqual(
      messages.map((message) => message.data),
      [text],
    );
    const [ack] = await client.ack(messages);
    assert.ok(ack.success);
  }

  begin(): void {
    this.#running = this.#goOn();
    // `end` reports what went wrong; until then it must not count as unhandled.
    this.#running.catch(() => undefined);
  }

  async end(): Promise<void> {
    this.#stopping = true;
    await this.#running;
  }

  async #goOn(): Promise<void> {
    do {
      const startedAt = performance.now();
      await this.round();
      this.rounds++;
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedAt);
      this.peakBytes = Math.max(this.peakBytes, await this.#broker.residentBytes());
      await passed(pauseMs);
    } while (!this.#stopping);
  }
}
