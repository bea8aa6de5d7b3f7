/** Several addresses: which one is asked, what happens when it fails, and what is sent only once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LaneClient, type LaneClientOptions } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';
import { answer, type Script, ScriptedServer } from './scripted-server.ts';

const stored: Script = (seen, response) => {
  if (seen.path.startsWith('/api/v1/pop')) {
    response.writeHead(204).end();
    return;
  }
  const items = (seen.body as { items?: unknown[] } | undefined)?.items ?? [];
  answer(
    response,
    201,
    items.map((_, index) => ({ index, status: 'queued', offset: index })),
  );
};

async function withServers(
  scripts: readonly Script[],
  options: LaneClientOptions,
  body: (client: LaneClient, servers: readonly ScriptedServer[]) => Promise<void>,
): Promise<void> {
  const servers = await Promise.all(scripts.map((script) => ScriptedServer.start(script)));
  const urls = servers.map(({ url }) => url);
  const client = new LaneClient({ urls, retryDelayMillis: 1, ...options });
  try {
    await body(client, servers);
  } finally {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  }
}

/** Requests that are not about health. */
const counts = (servers: readonly ScriptedServer[]) =>
  servers.map(({ seen }) => seen.filter(({ path }) => path !== '/health').length);

test('requests about one queue, partition and group go to one address, others spread', async () => {
  await withServers([stored, stored, stored], {}, async (client, servers) => {
    for (let i = 0; i < 5; i++) await client.queue('q').partition('p').group('g').wait(false).pop();
    assert.deepEqual(
      counts(servers).filter((count) => count > 0),
      [5],
    );
    for (let i = 0; i < 60; i++) await client.queue('q').partition(`p${i}`).push(1);
    assert.ok(
      counts(servers).every((count) => count >= 5),
      String(counts(servers)),
    );
  });
});

test('in turn, and one address for all', async () => {
  await withServers([stored, stored], { loadBalancingStrategy: 'round-robin' }, async (client, servers) => {
    for (let i = 0; i < 6; i++) await client.queue('q').push(1);
    assert.deepEqual(counts(servers), [3, 3]);
  });
  await withServers([stored, stored], { loadBalancingStrategy: 'session' }, async (client, servers) => {
    for (let i = 0; i < 6; i++) await client.queue(`q${i}`).push(1);
    assert.deepEqual(counts(servers).sort(), [0, 6]);
  });
});

test('an address that fails is left alone, and asked again once it says that it is healthy', async () => {
  let isDown = true;
  const failing: Script = (seen, response, number) => {
    if (isDown) answer(response, 503, { error: 'not now', code: 'retry' });
    else if (seen.path === '/health') answer(response, 200, { status: 'healthy' });
    else stored(seen, response, number);
  };
  const options = { loadBalancingStrategy: 'round-robin', healthRetryAfterMillis: 20 } as const;
  await withServers([failing, stored], options, async (client, servers) => {
    for (let i = 0; i < 4; i++) await client.queue('q').push(1);
    assert.equal(counts(servers)[1], 4);
    assert.equal(counts(servers)[0], 1);
    isDown = false;
    while (counts(servers)[0] === 1) {
      await new Promise((resolve) => setTimeout(resolve, 25));
      await client.queue('q').push(1);
    }
    assert.ok(servers[0].seen.some(({ path }) => path === '/health'));
  });
});

test('4xx and an abort move nobody to another address', async () => {
  const refusing: Script = (_seen, response) => answer(response, 403, { error: 'no', code: 'forbidden' });
  await withServers([refusing, refusing], {}, async (client, servers) => {
    await assert.rejects(client.queue('q').push(1), { code: 'forbidden' });
    assert.equal(servers[0].seen.length + servers[1].seen.length, 1);
  });
  await withServers([() => {}, () => {}], {}, async (client, servers) => {
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 50);
    await assert.rejects(client.queue('q').popResult({ signal: abort.signal }), { code: 'aborted', aborted: true });
    assert.equal(servers[0].seen.length + servers[1].seen.length, 1);
  });
});

test('what is not safe to repeat is sent again only while it is certain that nothing was done', async () => {
  const unknown: Script = (_seen, response) => answer(response, 503, { error: 'who knows', code: 'outcome_unknown' });
  await withServers([unknown, unknown], {}, async (client, servers) => {
    await assert.rejects(client.queue('q').dlq().replay('1'), { code: 'outcome_unknown', outcomeUnknown: true });
    assert.equal(servers[0].seen.length + servers[1].seen.length, 1);
  });
  const cut: Script = (_seen, response) => response.destroy();
  await withServers([cut], {}, async (client, servers) => {
    await assert.rejects(client.admin.retryMessage('1', 't'), { code: 'network', outcomeUnknown: true });
    assert.equal(servers[0].seen.length, 1);
    await assert.rejects(client.queue('q').push(1), { code: 'network' });
    assert.equal(servers[0].seen.length, 4);
  });
  const later: Script = (_seen, response, number) => {
    if (number < 3) answer(response, 503, { error: 'not now', code: 'retry' });
    else answer(response, 200, { success: true, result: 'moved' });
  };
  await withServers([later], {}, async (client, servers) => {
    assert.equal((await client.queue('q').dlq().replay('1')).result, 'moved');
    assert.equal(servers[0].seen.length, 3);
  });
  const gone = await ScriptedServer.start(cut);
  await gone[Symbol.asyncDispose]();
  const nobody = new LaneClient({ url: gone.url, retryAttempts: 1 });
  await assert.rejects(nobody.queue('q').dlq().replay('1'), { code: 'network', outcomeUnknown: false });
});

// B-SDK-HTTP-6
test('a Host header of the caller goes with every request, also to the next address', async () => {
  const failing: Script = (_seen, response) => answer(response, 503, { error: 'not now', code: 'retry' });
  const options = { hostHeader: 'broker.example', bearerToken: 'secret' };
  await withServers([failing, failing], options, async (client, servers) => {
    await assert.rejects(client.queue('q').push(1));
    await assert.rejects(client.admin.listQueues());
    const seen = servers.flatMap((server) => server.seen);
    assert.ok(seen.length >= 4);
    for (const { headers } of seen) {
      assert.equal(headers.host, 'broker.example');
      assert.equal(headers.authorization, 'Bearer secret');
    }
  });
});

test('with one of two brokers killed, work goes on at the other', async () => {
  const brokers = [await BrokerProcess.start(), await BrokerProcess.start()];
  const client = new LaneClient({ urls: brokers.map(({ url }) => url), retryDelayMillis: 10 });
  await brokers[0].kill();
  for (let i = 0; i < 10; i++) await client.queue<number>('q').partition(`p${i}`).push(i);
  const seen: number[] = [];
  const queue = client.queue<number>('q').limit(10).each();
  await queue.consume(({ data }) => {
    seen.push(data);
  });
  assert.deepEqual(seen.sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  await client.close();
  for (const broker of brokers) await broker.dispose();
});

// B-SDK-LOG-1
test('a logger gets text, or objects when it asks for them; one that lacks a method is refused', async () => {
  const entries: unknown[] = [];
  const logger = { info: () => {}, warn: (entry: unknown) => entries.push(entry), error: () => {} };
  const options = { url: 'http://127.0.0.1:9', retryAttempts: 1, logger };
  assert.deepEqual(await new LaneClient(options).queue('q').wait(false).pop(), []);
  assert.deepEqual(await new LaneClient({ ...options, structuredLogs: true }).queue('q').wait(false).pop(), []);
  assert.match(String(entries[0]), /^pop\.failed \{"queue":"q","code":"network"/);
  assert.equal((entries[1] as { event: string }).event, 'pop.failed');
  assert.throws(() => new LaneClient({ ...options, logger: { warn: () => {} } as never }), { code: 'bad_argument' });
});
