/**
 * Field scenarios I: a wall clock that is set, under a broker that runs. The process is started with a small module
 * that shifts what `Date` says on a signal, as an operator or a time daemon would; everything else is the real broker.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { freshName, type Message } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { isOpenAfter, passed } from './clock.ts';

/** Each SIGUSR2 applies the next of the shifts, in milliseconds, and says so on stdout. */
const steppedClock = (shiftsMs: readonly number[]): string =>
  `data:text/javascript,${encodeURIComponent(`
const RealDate = Date;
const shifts = ${JSON.stringify(shiftsMs)};
let shift = 0;
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(RealDate.now() + shift);
    else super(...parts);
  }
  static now() {
    return RealDate.now() + shift;
  }
};
process.on('SIGUSR2', () => {
  shift += shifts.shift() ?? 0;
  process.stdout.write('clock stepped by ' + shift + '\\n');
});
`)}`;

const hourMs = 3_600_000;
const lengthMs = 2000;

describe('a stepped wall clock', { concurrency: 2 }, () => {
  for (const [name, shiftMs] of [
    ['back', -hourMs],
    ['forward', hourMs],
  ] as const) {
    describe(`by an hour ${name}`, () => {
      let broker: BrokerProcess;
      before(async () => {
        broker = await BrokerProcess.start({ nodeArgs: ['--import', steppedClock([shiftMs])] });
      });
      after(() => broker.dispose());

      // S-056
      it('changes neither leases, retry delays, waits nor delays, and no stamp goes back', async () => {
        const { client } = broker;
        const leased = freshName('leased');
        const retried = freshName('retried');
        const delayed = freshName('delayed');
        const stamped = freshName('stamped');
        await client.configure(retried, { retryDelay: lengthMs });
        await client.configure(delayed, { delayedProcessing: lengthMs / 1000 });
        for (const queue of [leased, retried, stamped]) await client.pushAll(queue, 'p', [`${queue} before`]);
        const [held] = await client.pop(retried);

        const startedAt = performance.now();
        const sinceStart = async (work: Promise<Message[]>) => ({
          messages: await work,
          atMs: performance.now() - startedAt,
        });
        await client.pop(leased, { leaseSeconds: lengthMs / 1000 });
        await client.ackOne(held, 'failed');
        await client.pushAll(delayed, 'p', ['delayed']);
        const ends = [leased, retried, delayed].map((queue) => sinceStart(client.pop(queue, { waitMs: 20_000 })));
        const wait = sinceStart(client.pop(freshName('empty'), { waitMs: lengthMs }));

        assert.ok(await isOpenAfter(Promise.race([...ends, wait]), 200));
        broker.notify('SIGUSR2');
        await passed(200);
        assert.match(broker.output, /clock stepped by/);
        await client.pushAll(stamped, 'p', ['after 1']);
        await passed(20);
        await client.pushAll(stamped, 'p', ['after 2']);

        for (const end of ends) {
          const { messages, atMs } = await end;
          assert.equal(messages.length, 1);
          assert.ok(atMs > lengthMs - 60 && atMs < lengthMs + 1500, `ended after ${atMs} ms`);
        }
        const { messages: nothing, atMs: waitedMs } = await wait;
        assert.deepEqual(nothing, []);
        assert.ok(waitedMs > lengthMs - 20 && waitedMs < lengthMs + 1500, `waited ${waitedMs} ms`);

        const stamps = (await client.pop(stamped)).map((message) => message.createdAt);
        assert.equal(stamps.length, 3);
        assert.deepEqual(stamps, [...stamps].sort());
        assert.equal(new Set(stamps).size, 3);
      });
    });
  }
});

/** Makes a disk that is slow to wake: the first calls of each kind take more than a second in all. */
const slowDisk = `data:text/javascript,${encodeURIComponent(`
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
for (const home of [fs, fs.promises]) {
  for (const name of ['mkdir', 'readdir', 'open', 'stat', 'statfs']) {
    const real = home[name];
    let slowCalls = 2;
    home[name] = (...parts) => {
      if (slowCalls-- <= 0) return real(...parts);
      return new Promise((resolve) => setTimeout(resolve, 400)).then(() => real(...parts));
    };
  }
}
syncBuiltinESMExports();
`)}`;

describe('a slow start', () => {
  // Rule 13 of the field scenarios: lengths of time are real time, from the first moment on
  it('leaves the broker with the right time', async () => {
    const broker = await BrokerProcess.start({ nodeArgs: ['--import', slowDisk] });
    try {
      assert.ok(broker.startMs > 1100, 'the start was slow');
      for (const name of ['first', 'second', 'third']) {
        const askedMs = Date.now();
        await broker.client.pushAll('q', name, [name]);
        const answeredMs = Date.now();
        const [message] = await broker.client.pop('q', { partition: name });
        const stampMs = Date.parse(message.createdAt);
        // The tolerance is for a machine that is busy: reading two clocks is not one step.
        const facts = `${name} was stamped ${stampMs - askedMs} ms after it was sent`;
        assert.ok(stampMs >= askedMs - 250 && stampMs <= answeredMs + 250, facts);
        await passed(300);
      }
    } finally {
      await broker.dispose();
    }
  });
});
