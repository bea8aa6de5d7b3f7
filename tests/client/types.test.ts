/** Types of payloads: what compiles, what does not, and what a schema makes of them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient, type LaneError, type Message, type QueueBuilder, type StandardSchema } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

interface Order {
  readonly id: number;
}

let broker: BrokerProcess;
let client: LaneClient;

before(async () => {
  broker = await BrokerProcess.start();
  client = new LaneClient(broker.url);
});

after(async () => {
  await client.close();
  await broker.dispose();
});

/** Takes `{ at: "…" }` and gives the time as a Date, as a validator with a transformation does. */
const eventSchema: StandardSchema<{ at: string }, { at: Date }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) => {
      const at = new Date((value as { at?: string }).at ?? Number.NaN);
      if (Number.isNaN(at.getTime())) return { issues: [{ message: 'no time', path: ['at'] }] };
      return { value: { at } };
    },
  },
};

/** Never called: what is in it has to compile, or not. */
export function compiles(orders: QueueBuilder<Order>): void {
  void orders.push({ id: 1 });
  void orders.push([{ payload: { id: 1 }, transactionId: 't' }, { id: 2 }]);
  // @ts-expect-error: not the payload of the queue
  void orders.push({ name: 'x' });
  void orders.consume((messages) => messages[0].data.id);
  void orders.each().consume((message) => message.data.id);
  // @ts-expect-error: without each() the handler gets an array
  void orders.consume((message) => message.data);
  // @ts-expect-error: a consumer leases, whatever commitOnDelivery() says
  void orders.commitOnDelivery().consume(() => {});
  void orders
    .buffer()
    .push({ id: 1 })
    .then(({ count }) => count);
  // @ts-expect-error: a push that is not buffered gives the broker's results
  void orders.push({ id: 1 }).then(({ count }) => count);
  void orders.fetch('p').then((read) => read.get('p')?.records[0].payload.id);
  void orders
    .dlq()
    .get()
    .then(({ messages }) => messages[0].data.id);
  const events = client.queue('events', { schema: eventSchema });
  void events.push({ at: '2026-01-01' });
  // @ts-expect-error: the schema takes a text
  void events.push({ at: new Date() });
  void events.each().consume((message: Message<{ at: Date }>) => message.data.at.getTime());
}

test('a schema checks what is pushed before anything is sent, and makes what handlers get', async () => {
  const events = client.queue('schema-events', { schema: eventSchema });
  await assert.rejects(events.push([{ at: '2026-01-01T00:00:00Z' }, { at: 'soon' }]), (error: LaneError) => {
    assert.equal(error.code, 'bad_payload');
    assert.deepEqual(error.issues, [{ message: 'no time', path: ['at'] }]);
    assert.match(error.message, /at: no time/);
    return true;
  });
  assert.deepEqual(await events.wait(false).pop(), []);
  await events.push({ at: '2026-01-01T00:00:00Z' });
  const [message] = await events.pop();
  assert.equal(message.data.at.getTime(), Date.UTC(2026, 0, 1));
});

test('a message that the schema does not take fails like one whose handler threw, and those around it are handled', async () => {
  for (const mode of ['each', 'batch'] as const) {
    const name = `schema-${mode}`;
    const plain = client.queue<unknown>(name);
    await plain.configure({ retryLimit: 0 });
    await plain.partition('a').push([{ at: '2026-01-01' }, { at: 'soon' }, { at: '2026-01-02' }]);
    await plain.partition('b').push([{ at: '2026-01-03' }]);
    const events = client
      .queue(name, { schema: eventSchema })
      .partitions(2)
      .batch(10)
      .idleMillis(300)
      .timeoutMillis(300);
    const days: number[] = [];
    const onTrouble = () => {};
    if (mode === 'each') {
      await events.each().consume(({ data }) => days.push(data.at.getUTCDate()), { onTrouble });
    } else {
      await events.consume((messages) => days.push(...messages.map(({ data }) => data.at.getUTCDate())), { onTrouble });
    }
    assert.deepEqual(days.sort(), [1, 2, 3], mode);
    const { messages } = await plain.dlq().get();
    assert.deepEqual(
      messages.map(({ data }) => data),
      [{ at: 'soon' }],
    );
    assert.match(messages[0].errorMessage, /no time/);
  }
});

test('a pop rejects when the schema does not take a payload', async () => {
  await client.queue<unknown>('schema-pop').push({ at: 'soon' });
  await assert.rejects(client.queue('schema-pop', { schema: eventSchema }).pop(), { code: 'bad_payload' });
});
