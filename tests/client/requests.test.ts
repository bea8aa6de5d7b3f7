/** What the client puts on the wire. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient, LaneError, newTransactionId, type QueueBuilder } from '@lanemq/client';
import { answer, ScriptedServer } from './scripted-server.ts';

let server: ScriptedServer;
let client: LaneClient;

before(async () => {
  server = await ScriptedServer.start((seen, response) => {
    if (seen.path.startsWith('/api/v1/pop')) response.writeHead(204).end();
    else if (seen.path === '/api/v1/push') {
      const { items } = seen.body as { items: unknown[] };
      answer(
        response,
        201,
        items.map((_, index) => ({ index, status: 'queued', offset: index })),
      );
    } else answer(response, 200, {});
  });
  client = new LaneClient({ url: `${server.url}/`, bearerToken: 'secret', headers: { 'x-team': 'billing' } });
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

function lastSeen() {
  return server.seen[server.seen.length - 1];
}

async function queryOf(configure: (queue: QueueBuilder) => QueueBuilder): Promise<string> {
  await configure(client.queue('q').wait(false)).pop();
  return lastSeen().path.split('?')[1];
}

// B-SDK-POP-3
test('what a pop leaves to the broker follows from which of batch and partitions is set', async () => {
  const rest = 'wait=false&timeout=30000';
  assert.equal(await queryOf((queue) => queue), `${rest}&autopilot=true`);
  assert.equal(await queryOf((queue) => queue.batch(0)), `${rest}&autopilot=true`);
  assert.equal(await queryOf((queue) => queue.batch(7)), `batch=7&${rest}&autopilot=true`);
  assert.equal(await queryOf((queue) => queue.partitions(1)), `${rest}&partitions=1&autopilot=true`);
  assert.equal(await queryOf((queue) => queue.batch(7).partitions(1)), `batch=7&${rest}`);
  assert.equal(await queryOf((queue) => queue.batch(7).partitions(3)), `batch=7&${rest}&partitions=3`);
  assert.equal(await queryOf((queue) => queue.autopilot(false)), `batch=1&${rest}`);
  assert.equal(await queryOf((queue) => queue.autopilot(false).partitions(3)), `batch=1&${rest}&partitions=3`);
});

// B-SDK-POP-2, B-SDK-POP-5, B-SDK-POP-6
test('what concerns acking and conflation is sent when it was declared, and autoAck() never', async () => {
  const rest = 'batch=2&wait=false&timeout=30000';
  const pop = (queue: QueueBuilder) => queue.batch(2).partitions(1);
  assert.equal(await queryOf((queue) => pop(queue).autoAck(true)), rest);
  assert.equal(await queryOf((queue) => pop(queue).autoAck(false)), rest);
  await pop(client.queue('q').wait(false)).commitOnDelivery().pop();
  assert.equal(lastSeen().path.split('?')[1], `${rest}&autoAck=true`);
  await pop(client.queue('q').wait(false)).commitOnDelivery(false).pop();
  assert.equal(lastSeen().path.split('?')[1], rest);
  assert.equal(await queryOf((queue) => pop(queue).conflation().group('g')), `${rest}&consumerGroup=g&conflation=true`);
});

test('where a group starts, the length of the lease and labels go with a pop', async () => {
  const query = await queryOf((queue) =>
    queue.batch(1).partitions(1).leaseSeconds(9).subscriptionMode('all').subscriptionFrom('now'),
  );
  assert.equal(query, 'batch=1&wait=false&timeout=30000&leaseSeconds=9&subscriptionMode=all&subscriptionFrom=now');
  await client.queue('').namespace('shop').task('mail').wait(false).batch(1).partitions(1).pop();
  assert.equal(lastSeen().path, '/api/v1/pop?batch=1&wait=false&timeout=30000&namespace=shop&task=mail');
});

// B-SDK-POP-1
test('a pop waits by default, also when only its timeout is set', async () => {
  await client.queue('q').batch(1).partitions(1).timeoutMillis(1500).pop();
  assert.equal(lastSeen().path, '/api/v1/pop/queue/q?batch=1&wait=true&timeout=1500');
});

test('names are percent-encoded, whatever they hold', async () => {
  await client.queue('a/b c').partition('ü?#%').group('g&h').wait(false).batch(1).partitions(1).pop();
  const path = '/api/v1/pop/queue/a%2Fb%20c/partition/%C3%BC%3F%23%25';
  assert.equal(lastSeen().path, `${path}?batch=1&wait=false&timeout=30000&consumerGroup=g%26h`);
});

test('names that fetch would take out of the path are refused before anything is sent', async () => {
  const sentBefore = server.seen.length;
  for (const name of ['', '.', '..', '\ud800']) {
    const refused = (error: unknown) => error instanceof LaneError && error.code === 'bad_argument';
    await assert.rejects(client.queue(name).delete(), refused);
  }
  assert.equal(server.seen.length, sentBefore);
});

test('a value is the payload unless it has a payload or data key, and every item gets a transactionId', async () => {
  await client.queue('q').push([7, null, { a: 1 }, { data: null }, { payload: 0, data: 1, transactionId: 'mine' }]);
  type WireItem = { queue: string; partition: string; transactionId: string; payload: unknown };
  const { items } = lastSeen().body as { items: WireItem[] };
  assert.deepEqual(
    items.map((item) => item.payload),
    [7, null, { a: 1 }, null, 0],
  );
  assert.ok(items.every((item) => item.queue === 'q' && item.partition === 'Default'));
  assert.equal(items[4].transactionId, 'mine');
  const minted = items.slice(0, 4).map((item) => item.transactionId);
  assert.equal(new Set(minted).size, 4);
});

test('a payload that JSON cannot say is refused before anything is sent', async () => {
  const sentBefore = server.seen.length;
  await assert.rejects(client.queue('q').push(undefined), (error) => error instanceof LaneError);
  assert.equal(server.seen.length, sentBefore);
});

test('an empty push sends nothing', async () => {
  const sentBefore = server.seen.length;
  assert.deepEqual(await client.queue('q').push([]), []);
  assert.equal(server.seen.length, sentBefore);
});

test('the token and the headers go with every request, the JSON type with a body', async () => {
  await client.queue('q').push(1);
  assert.equal(lastSeen().headers.authorization, 'Bearer secret');
  assert.equal(lastSeen().headers['x-team'], 'billing');
  assert.equal(lastSeen().headers['content-type'], 'application/json');
});

test('options out of their bounds are refused when the client is made', () => {
  for (const options of [
    { url: 'localhost:6632' },
    { url: server.url, timeoutMillis: 0 },
    { url: server.url, retryAttempts: Number.NaN },
  ]) {
    assert.throws(
      () => new LaneClient(options),
      (error) => error instanceof LaneError && error.code === 'bad_argument',
    );
  }
});

test('minted transactionIds are UUIDs of version 7, all different', () => {
  const ids = Array.from({ length: 5000 }, newTransactionId);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const ageMs = Date.now() - Number.parseInt(ids[0].replace('-', '').slice(0, 12), 16);
  assert.ok(ageMs >= 0 && ageMs < 60_000);
});
