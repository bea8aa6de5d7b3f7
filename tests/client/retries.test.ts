/** What the client repeats, what it does not, and what its errors say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Ackable, LaneClient, type LaneClientOptions, LaneError } from '@lanemq/client';
import { answer, type Script, ScriptedServer, type SeenRequest } from './scripted-server.ts';

const quick = { retryDelayMillis: 1, retry429: { baseMs: 1, capMs: 5 } };

async function withServer(
  script: Script,
  options: Omit<LaneClientOptions, 'url'>,
  body: (client: LaneClient, server: ScriptedServer) => Promise<void>,
): Promise<void> {
  const server = await ScriptedServer.start(script);
  try {
    await body(new LaneClient({ url: server.url, ...options }), server);
  } finally {
    await server[Symbol.asyncDispose]();
  }
}

function stored(seen: SeenRequest): unknown[] {
  const { items } = seen.body as { items: { queue: string; transactionId: string }[] };
  return items.map((item, index) => ({
    index,
    message_id: 'm',
    transaction_id: item.transactionId,
    queueName: item.queue,
    status: 'queued',
    offset: index,
  }));
}

function message(fields: Partial<Ackable> = {}): Ackable {
  return { transactionId: 't', partitionId: '1', leaseId: 'l', consumerGroup: 'g', ...fields };
}

function isError(code: string, status: number): (error: unknown) => boolean {
  return (error) => error instanceof LaneError && error.code === code && error.status === status;
}

// B-SDK-HTTP, contract 14.2
test('a push is repeated on 503 with the same transactionIds until it is answered', async () => {
  const script: Script = (seen, response, number) => {
    if (number < 3) answer(response, 503, { error: 'not now', code: 'retry' });
    else answer(response, 201, stored(seen));
  };
  await withServer(script, quick, async (client, server) => {
    const [result] = await client.queue('q').push({ n: 1 });
    assert.equal(result.status, 'queued');
    assert.equal(server.seen.length, 3);
    assert.deepEqual(server.seen[1].body, server.seen[0].body);
    assert.deepEqual(server.seen[2].body, server.seen[0].body);
  });
});

test('a 5xx that stays is thrown with its code after the configured number of tries, with doubling pauses', async () => {
  const script: Script = (_seen, response) => answer(response, 503, { error: 'who knows', code: 'outcome_unknown' });
  await withServer(script, { retryAttempts: 4, retryDelayMillis: 20 }, async (client, server) => {
    await assert.rejects(client.admin.listQueues(), isError('outcome_unknown', 503));
    assert.equal(server.seen.length, 4);
    const pauses = server.seen.slice(1).map((seen, i) => seen.atMs - server.seen[i].atMs);
    assert.ok(pauses[0] >= 19 && pauses[1] >= 39 && pauses[2] >= 79, `pauses ${pauses}`);
  });
});

test('a connection that breaks is tried again, and then thrown as network', async () => {
  await withServer(
    (_seen, response) => response.destroy(),
    quick,
    async (client, server) => {
      await assert.rejects(client.admin.listQueues(), isError('network', 0));
      assert.equal(server.seen.length, 3);
    },
  );
});

// B-SDK-HTTP-3
test('400, 403, 404 and 409 are sent once and keep the code of the broker', async () => {
  for (const [status, code] of [
    [400, 'bad_request'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [409, 'encryption_key_missing'],
  ] as const) {
    const script: Script = (_seen, response) => answer(response, status, { error: 'no', code });
    await withServer(script, quick, async (client, server) => {
      await assert.rejects(client.queue('q').push(1), isError(code, status));
      assert.equal(server.seen.length, 1);
    });
  }
});

test('a 413 in plain text is thrown as body_too_large', async () => {
  const script: Script = (_seen, response) => {
    response.writeHead(413, { 'content-type': 'text/plain' });
    response.end('too large');
  };
  await withServer(script, quick, async (client) => {
    await assert.rejects(client.queue('q').push(1), isError('body_too_large', 413));
  });
});

// B-SDK-HTTP-2
test('429 is repeated ten times by default, as often as configured when set', async () => {
  const script: Script = (_seen, response) => answer(response, 429, { error: 'busy', code: 'overloaded' });
  await withServer(script, quick, async (client, server) => {
    await assert.rejects(client.queue('q').push(1), isError('overloaded', 429));
    assert.equal(server.seen.length, 10);
  });
  await withServer(script, { retry429: { baseMs: 1, maxAttempts: 2 } }, async (client, server) => {
    await assert.rejects(client.queue('q').push(1), isError('overloaded', 429));
    assert.equal(server.seen.length, 2);
  });
});

test('429 waits for the time that the broker names', async () => {
  const script: Script = (seen, response, number) => {
    if (number === 1) answer(response, 429, { error: 'busy', code: 'overloaded' }, { 'retry-after': '0.15' });
    else answer(response, 201, stored(seen));
  };
  await withServer(script, quick, async (client, server) => {
    await client.queue('q').push(1);
    assert.ok(server.seen[1].atMs - server.seen[0].atMs >= 149);
  });
});

test('a waiting pop rides out twelve 429 in a row', async () => {
  const script: Script = (_seen, response, number) => {
    if (number <= 12) answer(response, 429, { error: 'busy', code: 'overloaded' });
    else response.writeHead(204).end();
  };
  await withServer(script, quick, async (client, server) => {
    assert.deepEqual(await client.queue('q').pop(), []);
    assert.equal(server.seen.length, 13);
  });
});

test('a request without a complete answer in time is thrown as deadline', async () => {
  await withServer(
    () => {},
    { timeoutMillis: 40, retryAttempts: 1 },
    async (client) => {
      await assert.rejects(client.admin.listQueues(), isError('deadline', 0));
    },
  );
});

test('an abort ends a long poll at once and is not repeated', async () => {
  const abort = new AbortController();
  await withServer(
    () => abort.abort(),
    quick,
    async (client, server) => {
      await assert.rejects(client.queue('q').popResult({ signal: abort.signal }), isError('aborted', 0));
      assert.equal(server.seen.length, 1);
    },
  );
});

// B-SDK-PSH-2
test('a push of which the broker stored only some throws items_refused with the result of each', async () => {
  const script: Script = (seen, response) => {
    const rows = stored(seen) as Record<string, unknown>[];
    rows[1] = { ...rows[1], status: 'error', offset: undefined };
    answer(response, 201, rows);
  };
  await withServer(script, quick, async (client) => {
    await assert.rejects(client.queue('q').push([1, 2, 3]), (error) => {
      assert.ok(error instanceof LaneError);
      assert.equal(error.code, 'items_refused');
      assert.match(error.message, /1 of 3/);
      assert.deepEqual(
        error.results.map((result) => result.status),
        ['queued', 'error', 'queued'],
      );
      return true;
    });
  });
});

test('a push answered with another number of results throws bad_answer', async () => {
  await withServer(
    (_seen, response) => answer(response, 201, []),
    quick,
    async (client) => {
      await assert.rejects(client.queue('q').push(1), isError('bad_answer', 201));
    },
  );
});

// B-SDK-ACK-1, B-SDK-ACK-2
test('an ack is a success only where the answer says so', async () => {
  const answers: unknown[] = [
    [{ index: 0, transactionId: 't', success: true, error: null }],
    [{ index: 0, transactionId: 't', success: false, error: 'invalid or expired lease' }],
    [{ index: 0, transactionId: 't', success: false }],
    { error: 'no' },
    [],
    [null],
  ];
  const script: Script = (_seen, response, number) => answer(response, 200, answers[number - 1]);
  await withServer(script, quick, async (client) => {
    assert.equal((await client.ack(message())).success, true);
    const refused = await client.ack(message());
    assert.equal(refused.success, false);
    assert.equal(refused.error, 'invalid or expired lease');
    for (let i = 2; i < answers.length; i++) {
      const outcome = await client.ack(message());
      assert.equal(outcome.success, false);
      assert.equal(typeof outcome.error, 'string');
    }
  });
});

// B-SDK-ACK-2
test('an ack of several messages tells of each, and fewer results than messages are a failure', async () => {
  const script: Script = (_seen, response) => answer(response, 200, [{ index: 0, success: true }]);
  await withServer(script, quick, async (client, server) => {
    const outcome = await client.ack([message(), message({ _status: false, _error: 'torn' })]);
    assert.equal(outcome.success, false);
    assert.deepEqual(
      outcome.results.map(({ success }) => success),
      [true, false],
    );
    const { acknowledgments } = server.seen[0].body as { acknowledgments: unknown[] };
    assert.deepEqual(acknowledgments[1], {
      transactionId: 't',
      partitionId: '1',
      leaseId: 'l',
      status: 'failed',
      error: 'torn',
    });
    assert.deepEqual(await client.ack([]), { success: true, processed: 0, results: [] });
    assert.equal(server.seen.length, 1);
  });
});

// B-SDK-ACK-3
test('a renewal never throws: it says that there was none, and why', async () => {
  const script: Script = (_seen, response, number) => {
    if (number === 1) answer(response, 200, { leaseId: 'l', success: false, renewed: 0, newExpiresAt: null });
    else answer(response, 403, { error: 'not yours', code: 'forbidden' });
  };
  await withServer(script, quick, async (client, server) => {
    const gone = await client.renew(message());
    assert.deepEqual([gone.success, gone.newExpiresAt, gone.renewed], [false, null, 0]);
    assert.equal(typeof gone.error, 'string');
    const [refused] = await client.renew(['l', message()]);
    assert.equal(refused.error, 'not yours');
    assert.equal(server.seen.length, 2);
  });
});

test('messages of two groups are not acked in one call, and nothing is sent', async () => {
  await withServer(
    () => {},
    quick,
    async (client, server) => {
      const both = [message({ consumerGroup: 'a' }), message({ consumerGroup: 'b' })];
      await assert.rejects(client.ack(both), isError('bad_argument', 0));
      assert.equal(server.seen.length, 0);
    },
  );
});
