/** Field scenarios D: waiting pops, what wakes them, and what must not. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { chooseSeed, SeededRandom } from '../crash/seeded-random.ts';
import { type Answer, freshName, type Message, type PopBody, popPath } from './broker-client.ts';
import { BrokerProcess, sized, slow } from './broker-process.ts';
import { eventually, isOpenAfter, passed, timed } from './clock.ts';

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);

/** The value below which `share` of the values lie. */
function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** How many pops the broker holds parked. */
async function parkedPops(broker: BrokerProcess): Promise<number> {
  const { parkedPops: count } = (await broker.client.metrics()) as { parkedPops?: unknown };
  assert.equal(typeof count, 'number', 'the metrics tell how many pops are parked');
  return Number(count);
}

function untilParked(broker: BrokerProcess, count: number): Promise<void> {
  return eventually(async () => (await parkedPops(broker)) >= count, 20_000, `${count} pops parked`);
}

describe('waiting pops in the field', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-029: the message a waiter was woken for is taken by another pop. Purging is not offered.
  it('gives no early empty answer to a waiter whose message was taken by somebody else', async () => {
    const queue = freshName('q');
    const rounds = sized(150, 1000);
    const startedAt = performance.now();
    const waitMs = slow ? 50_000 : 12_000;
    const parked = timed(broker.client.pop(queue, { partition: 'real', waitMs }));
    const everything = timed(broker.client.pop(freshName('other'), { waitMs: 2000 }));
    // A waiter for any partition and thieves for the one that is written: whoever comes second must go on waiting.
    for (let round = 0; round < rounds; round++) {
      const waiting = timed(broker.client.pop(queue, { partition: 'p', waitMs: 3000, autoAck: true }));
      const [, stolen] = await Promise.all([
        broker.client.pushAll(queue, 'p', [`m${round}`]),
        broker.client.pop(queue, { partition: 'p', autoAck: true }),
      ]);
      if (stolen.length === 0) {
        assert.deepEqual(dataOf((await waiting).result), [`m${round}`]);
        continue;
      }
      await broker.client.pushAll(queue, 'p', [`again${round}`]);
      const { result, tookMs } = await waiting;
      assert.deepEqual(dataOf(result), [`again${round}`], `an empty answer after ${tookMs} ms`);
    }
    await broker.client.pushAll(queue, 'real', ['real']);
    const { result } = await parked;
    assert.deepEqual(dataOf(result), ['real']);
    assert.ok(performance.now() - startedAt < waitMs, 'the rounds fit into the wait');
    assert.ok((await everything).tookMs >= 1990);
  });

  // S-030
  it('leaves no waiter hanging and answers acks and extends clearly when the queue is deleted', async () => {
    const queue = freshName('q');
    const items = Array.from({ length: 20 }, (_, i) => ({ queue, partition: `old${i}`, payload: i }));
    await broker.client.push(items);
    const leased = await broker.client.pop(queue, { partitions: 20, batch: 20, leaseSeconds: 60 });
    assert.equal(leased.length, 20);
    const waiters = Array.from({ length: 100 }, (_, i) =>
      broker.client.request<PopBody>(
        'GET',
        popPath(queue, {
          waitMs: 8000,
          ...(i % 3 === 0 ? { group: 'g', mode: 'all' } : {}),
          ...(i % 3 === 1 ? { partition: `new${i}`, group: 'pinned', mode: 'all' } : {}),
        }),
      ),
    );
    // Twenty waiters of the group g are given the old messages; everybody else has nothing.
    assert.ok(await isOpenAfter(waiters[1], 300));
    await broker.client.deleteQueue(queue);

    const late = await broker.client.ack(leased);
    assert.ok(late.every((result) => !result.success && typeof result.error === 'string'));
    assert.equal((await broker.client.extend(leased[0].leaseId, 60)).success, false);

    const answered: Answer<PopBody>[] = [];
    for (const waiter of waiters) void waiter.then((answer) => answered.push(answer));
    await passed(300);
    const stillOpen = 100 - answered.length;
    const results = await broker.client.push(
      Array.from({ length: 100 }, (_, i) => ({ queue, partition: `new${i}`, payload: `n${i}` })),
    );
    assert.ok(results.every((result) => result.status === 'queued' && result.offset === 0));
    const all = await timed(Promise.all(waiters));
    assert.ok(all.tookMs < 7000, 'nobody hangs to the end of his wait or beyond it');
    for (const answer of all.result) assert.ok([200, 204, 404].includes(answer.status), String(answer.status));
    if (stillOpen > 0) {
      const given = all.result.filter((answer) => answer.status === 200).length;
      assert.ok(given >= 20 + stillOpen, `${stillOpen} stayed parked, ${given - 20} were given something`);
    }
  });

  // S-031; contract 4.2: the cap is 60 s
  it('waits as long as asked, clamps what is over the maximum, and refuses what is no number', async () => {
    const queue = freshName('q');
    const wait = (timeout: string) =>
      broker.client.request<PopBody>('GET', `${popPath(queue)}?wait=true&timeout=${timeout}`);
    const two = timed(wait('2000'));
    const zero = await timed(wait('0'));
    assert.equal(zero.result.status, 204);
    assert.ok(zero.tookMs < 300, `timeout 0 took ${zero.tookMs} ms`);
    const one = await timed(wait('1'));
    assert.equal(one.result.status, 204);
    assert.ok(one.tookMs < 300, `timeout 1 took ${one.tookMs} ms`);
    for (const timeout of ['abc', 'NaN', '1e12', '1.5', '-', '10s']) {
      assert.equal((await wait(timeout)).status, 400, `timeout=${timeout}`);
    }
    const negative = await timed(wait('-1'));
    assert.ok([204, 400].includes(negative.result.status) && negative.tookMs < 300);
    const { result, tookMs } = await two;
    assert.equal(result.status, 204);
    assert.ok(tookMs >= 1990 && tookMs < 3000, `timeout 2000 took ${tookMs} ms`);

    const capped = ['60000', '60001', '1000000000000'].map((timeout) => wait(timeout));
    assert.ok(await isOpenAfter(Promise.race(capped), 300));
    await broker.client.push(['a', 'b', 'c'].map((partition) => ({ queue, partition, payload: partition })));
    for (const answer of await Promise.all(capped)) assert.equal(answer.status, 200);
  });

  // S-031: the answer of the longest wait comes before the server's own connection limits close it
  it('answers the longest wait with 204 at its end', { skip: !slow }, async () => {
    const { result, tookMs } = await timed(broker.client.popAnswer(freshName('q'), { waitMs: 60_000 }));
    assert.equal(result.status, 204);
    assert.ok(tookMs >= 59_900 && tookMs < 61_000, `took ${tookMs} ms`);
  });
});

describe('races between pushes and waits', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-027
  it('answers every wait promptly, however a push falls before, into or after its start', async () => {
    const seed = chooseSeed('LANEMQ_E2E_SEED');
    const lanes = 4;
    const rounds = sized(250, 2500);
    const stalls = 4;
    let running = lanes;
    const waits: number[] = [];
    const slowest: { tookMs: number; what: string } = { tookMs: 0, what: '' };
    const lane = async (number: number): Promise<void> => {
      const random = new SeededRandom(seed + number);
      const queue = freshName('q');
      for (let round = 0; round < rounds; round++) {
        const offsetMs = random.integer(5) - 2;
        const pop = async (): Promise<unknown[]> => {
          if (offsetMs < 0) await passed(-offsetMs);
          return dataOf(await broker.client.pop(queue, { waitMs: 5000, autoAck: true }));
        };
        const push = async (): Promise<void> => {
          if (offsetMs > 0) await passed(offsetMs);
          await broker.client.pushAll(queue, `p${round % 7}`, [`m${round}`]);
        };
        const { result, tookMs } = await timed(Promise.all([pop(), push()]));
        assert.deepEqual(result[0], [`m${round}`]);
        waits.push(tookMs);
        if (tookMs > slowest.tookMs) Object.assign(slowest, { tookMs, what: `lane ${number} round ${round}` });
      }
      running--;
    };
    const stall = async (): Promise<void> => {
      for (let i = 0; i < stalls && running > 0; i++) {
        await passed(100);
        await broker.freeze();
        await passed(50);
        broker.thaw();
      }
    };
    await Promise.all([stall(), ...Array.from({ length: lanes }, (_, number) => lane(number))]);
    const repeat = `seed ${seed}; repeat with LANEMQ_E2E_SEED=${seed}`;
    // A wake-up that got lost shows as a wait of five seconds. The goal of 250 ms (and the 50 of a stall) is for the many;
    // a machine that is busy with other tests may hold up a few.
    assert.ok(slowest.tookMs < 2500, `${slowest.what} took ${slowest.tookMs} ms; ${repeat}`);
    const p99 = percentile(waits, 0.99);
    assert.ok(p99 < 300, `p99 is ${p99} ms; ${repeat}`);
  });

  // S-028
  it('answers exactly one of thousands of waiters per message, the oldest first, and lets the others be', async () => {
    const queue = freshName('q');
    const half = sized(500, 2500);
    const answeredBy: number[] = [];
    const latencies: number[] = [];
    const pushedAt = new Map<unknown, number>();
    const stop = new AbortController();
    const park = (count: number, from: number): Promise<void>[] =>
      Array.from({ length: count }, async (_, i) => {
        const messages = await broker.client
          .pop(queue, { waitMs: 60_000, autoAck: true, signal: stop.signal })
          .catch((error: unknown) => {
            if (!stop.signal.aborted) throw error;
            return null;
          });
        if (messages === null) return;
        assert.equal(messages.length, 1, 'never an early empty answer');
        latencies.push(performance.now() - (pushedAt.get(messages[0].data) ?? Number.NaN));
        answeredBy.push(from + i);
      });
    const waiters = park(half, 0);
    await untilParked(broker, half);
    waiters.push(...park(half, half));
    await untilParked(broker, 2 * half);

    const count = sized(200, 1000);
    for (let i = 0; i < count; i++) {
      pushedAt.set(`m${i}`, performance.now());
      await broker.client.pushAll(queue, `p${i % 20}`, [`m${i}`]);
      await passed(slow ? 10 : 3);
    }
    await eventually(async () => answeredBy.length === count, 5000, `${count} messages given to waiters`);
    await passed(100);
    assert.equal(answeredBy.length, count);
    const young = answeredBy.filter((waiter) => waiter >= half).length;
    assert.ok(young <= count / 20, `${young} of the younger half were served before the older half`);
    const p99 = percentile(latencies, 0.99);
    assert.ok(p99 < (slow ? 100 : 250), `p99 of push to delivery is ${p99} ms`);
    stop.abort();
    await Promise.all(waiters);
    // S-006: those who hung up are not counted as parked.
    await eventually(async () => (await parkedPops(broker)) === 0, 5000, 'no pop is parked');
  });

  // S-028: waking one of many costs what waking one of few costs
  it('spends no more on a message with a thousand waiters than with ten', async () => {
    const perMessageMs = async (waiting: number): Promise<number> => {
      const queue = freshName('q');
      const count = 300;
      const stop = new AbortController();
      let left = count;
      const consumer = async (): Promise<void> => {
        while (left > 0) {
          const messages = await broker.client
            .pop(queue, { waitMs: 60_000, autoAck: true, signal: stop.signal })
            .catch(() => []);
          left -= messages.length;
          if (left <= 0) stop.abort();
        }
      };
      const consumers = Array.from({ length: waiting }, consumer);
      await untilParked(broker, waiting);
      const before = await broker.cpuMs();
      for (let i = 0; i < count; i++) await broker.client.pushAll(queue, `p${i % 10}`, [`m${i}`]);
      await eventually(async () => left <= 0, 5000, 'all given');
      const used = (await broker.cpuMs()) - before;
      await Promise.all(consumers);
      await eventually(async () => (await parkedPops(broker)) === 0, 5000, 'no pop is parked');
      return used / count;
    };
    await perMessageMs(10);
    const few = await perMessageMs(10);
    const many = await perMessageMs(1000);
    // Ten milliseconds is the grain of the clock that is read here.
    assert.ok(many < few * 2 + 0.3, `${many} ms of CPU per message with many waiters, ${few} ms with few`);
  });

  // S-033
  it('does nothing while nothing happens', async () => {
    const queue = freshName('q');
    const partitions = sized(20_000, 1_000_000);
    for (let i = 0; i < partitions; i += 5000) {
      await broker.client.push(Array.from({ length: 5000 }, (_, j) => ({ queue, partition: `p${i + j}`, payload: 1 })));
    }
    let left = partitions;
    while (left > 0) {
      const messages = await broker.client.pop(queue, { partitions: 64, batch: 1000, autoAck: true });
      assert.ok(messages.length > 0);
      left -= messages.length;
    }
    const stop = new AbortController();
    const waiters = Array.from({ length: sized(1000, 10_000) }, (_, i) =>
      broker.client
        .pop(queue, { group: `g${i % 20}`, mode: 'new', waitMs: 60_000, signal: stop.signal })
        .catch(() => null),
    );
    await untilParked(broker, waiters.length);
    await passed(2000);
    const cpuBefore = await broker.cpuMs();
    const writtenBefore = await broker.diskBytesWritten();
    const idleMs = slow ? 30_000 : 3000;
    await passed(idleMs);
    const cpu = (await broker.cpuMs()) - cpuBefore;
    assert.ok(cpu <= idleMs * 0.02 + 10, `${cpu} ms of CPU in ${idleMs} ms of nothing`);
    assert.equal((await broker.diskBytesWritten()) - writtenBefore, 0, 'nothing is written');
    stop.abort();
    assert.deepEqual(
      await Promise.all(waiters),
      waiters.map(() => null),
    );
  });
});
