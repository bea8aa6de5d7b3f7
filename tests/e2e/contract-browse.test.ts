/** Contract sections 9.3, 13.2 to 13.4 and 15: what is looked at without being taken, traces, and figures. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type ErrorBody, freshName, type Message } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';

interface BrowsedMessage {
  readonly id: string;
  readonly transactionId: string;
  readonly data: unknown;
  readonly payload: unknown;
  readonly createdAt: string;
  readonly offset: number;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly status: string;
  readonly queueStatus: string | null;
  readonly busStatus: { readonly consumedBy: number; readonly totalGroups: number };
  readonly queuePath: string;
  readonly payloadAvailable: boolean;
  readonly leaseExpiresAt: string | null;
  readonly isEncrypted: boolean;
}

interface MessageList {
  readonly messages: BrowsedMessage[];
  readonly total: number;
  readonly totalIsExact: boolean;
  readonly pagination: { readonly limit: number; readonly offset: number };
  readonly mode: { readonly hasQueueMode: boolean; readonly busGroupsCount: number; readonly type: string };
}

interface MessageDetail extends BrowsedMessage {
  readonly namespace: string;
  readonly task: string;
  readonly errorMessage: string | null;
  readonly retryCount: number;
  readonly queueConfig: Readonly<Record<string, unknown>>;
  readonly consumerGroups: {
    readonly name: string;
    readonly committed: number;
    readonly consumed: boolean;
    readonly leaseExpiresAt: string | null;
  }[];
}

interface Peek {
  readonly partitionId: string;
  readonly logStart: number;
  readonly nextOffset: number;
  readonly next: number | null;
  readonly groups: {
    readonly group: string;
    readonly committed: number;
    readonly lease: {
      readonly leaseId: string;
      readonly since: string;
      readonly from: number;
      readonly to: number;
      readonly expiresAt: string;
    } | null;
    readonly retryCount: number;
    readonly heldUntil: string | null;
    readonly delayedUntil: string | null;
    readonly blockedBy: readonly string[];
  }[];
  readonly records: {
    readonly offset: number;
    readonly transactionId: string;
    readonly payload: unknown;
    readonly deadLetter: boolean;
    readonly dueAt?: string;
    readonly cancelled?: boolean;
    readonly states: { readonly group: string; readonly state: string; readonly until: string | null }[];
  }[];
}

interface TraceRow {
  readonly traceId: string;
  readonly transaction_id: string;
  readonly transactionId: string;
  readonly partition_id: string | null;
  readonly event_type: string;
  readonly eventType: string;
  readonly data: unknown;
  readonly consumer_group: string | null;
  readonly worker_id: string | null;
  readonly queue_name: string | null;
  readonly partition_name: string | null;
  readonly trace_names: string[];
}

interface TraceList {
  readonly traces: TraceRow[];
  readonly events: TraceRow[];
  readonly total: number;
  readonly pagination: { readonly limit: number; readonly offset: number };
}

const encoded = encodeURIComponent;

describe('browsing', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  async function get<Body>(path: string): Promise<Body> {
    const answer = await broker.client.request<Body>('GET', path);
    assert.equal(answer.status, 200, `${path} answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  const list = (query: Readonly<Record<string, string>>) =>
    get<MessageList>(`/api/v1/messages?${new URLSearchParams(query)}`);
  const peek = (queue: string, partition: string, query = '') =>
    get<Peek>(`/api/v1/resources/queues/${encoded(queue)}/partitions/${encoded(partition)}/peek${query}`);

  // Contract 13.2
  it('lists messages newest first, over partitions, a page at a time', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'a', ['a0', 'a1']);
    await broker.client.pushAll(queue, 'b', ['b0']);
    await broker.client.pushAll(queue, 'a', ['a2']);
    const all = await list({ queue });
    assert.deepEqual(
      all.messages.map(({ transactionId, partition, offset, data }) => [transactionId, partition, offset, data]),
      [
        ['a2', 'a', 2, 'a2'],
        ['b0', 'b', 0, 'b0'],
        ['a1', 'a', 1, 'a1'],
        ['a0', 'a', 0, 'a0'],
      ],
    );
    assert.deepEqual([all.total, all.totalIsExact, all.pagination], [4, true, { limit: 200, offset: 0 }]);
    assert.deepEqual(all.mode, { hasQueueMode: false, busGroupsCount: 0, type: 'none' });
    const [newest] = all.messages;
    assert.match(newest.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.equal(newest.queuePath, `${queue}/a`);
    const second = await list({ queue, limit: '2', offset: '1' });
    assert.deepEqual(
      second.messages.map(({ transactionId }) => transactionId),
      ['b0', 'a1'],
    );
    assert.equal(second.total, 4);
    const one = await list({ queue, partition: 'b' });
    assert.deepEqual(
      one.messages.map(({ transactionId }) => transactionId),
      ['b0'],
    );
    assert.deepEqual((await list({ queue, partition: 'none' })).messages, []);
    assert.deepEqual((await list({ queue: freshName('unknown') })).messages, []);
  });

  // Contract 13.2
  it('lists by label and by time', async () => {
    const space = freshName('space');
    await broker.client.pushAll(`${space}.send.x`, 'p', ['x']);
    await broker.client.pushAll(`${space}.receive.y`, 'p', ['y']);
    const ids = async (query: Readonly<Record<string, string>>): Promise<string[]> =>
      (await list(query)).messages.map(({ transactionId }) => transactionId).sort();
    assert.deepEqual(await ids({ namespace: space }), ['x', 'y']);
    assert.deepEqual(await ids({ ns: space, task: 'send' }), ['x']);
    assert.deepEqual(await ids({ namespace: space, to: '2020-01-01T00:00:00Z', from: '2019-01-01' }), []);
    assert.deepEqual(await ids({ namespace: space, from: '2019-01-01' }), ['x', 'y']);
    const future = new Date(Date.now() + 3_600_000).toISOString();
    assert.deepEqual(
      await ids({ namespace: space, from: future, to: new Date(Date.now() + 7_200_000).toISOString() }),
      [],
    );
  });

  // Contract 13.2: the status of a record
  it('tells pending, leased, completed and dead messages apart, and finds them by status', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryLimit: 0 });
    await broker.client.pushAll(queue, 'p', ['dead', 'done', 'leased', 'waiting']);
    const first = await broker.client.pop(queue, { batch: 1 });
    await broker.client.ack(first, 'dlq', 'broken');
    await broker.client.ack(await broker.client.pop(queue, { batch: 1 }));
    await broker.client.pop(queue, { batch: 1 });
    const page = await list({ queue });
    assert.deepEqual(
      page.messages.map(({ transactionId, status, queueStatus }) => [transactionId, status, queueStatus]),
      [
        ['waiting', 'pending', 'pending'],
        ['leased', 'processing', 'processing'],
        ['done', 'completed', 'completed'],
        ['dead', 'dead_letter', 'dead_letter'],
      ],
    );
    assert.equal(page.mode.type, 'queue');
    assert.equal(page.messages[0].leaseExpiresAt, null);
    assert.match(page.messages[1].leaseExpiresAt ?? '', /Z$/);
    for (const [status, transactionId] of [
      ['pending', 'waiting'],
      ['processing', 'leased'],
      ['completed', 'done'],
      ['dead_letter', 'dead'],
    ]) {
      const found = await list({ queue, status });
      assert.deepEqual(
        found.messages.map((message) => message.transactionId),
        [transactionId],
      );
      assert.equal(found.total, 1);
    }
    const refused = await broker.client.request<ErrorBody>('GET', `/api/v1/messages?status=odd`);
    assert.deepEqual([refused.status, refused.body.code], [400, 'bad_request']);
  });

  // B-DSC-4; contract 13.3
  it('shows a message that a group has leased, by the number and by the UUID of its partition', async () => {
    const queue = freshName('shop.orders');
    await broker.client.push([{ queue, partition: 'customer/42', transactionId: 't/1', payload: { big: 1 } }]);
    const [message] = await broker.client.pop(queue, { group: 'billing', mode: 'all' });
    const detail = await get<MessageDetail>(`/api/v1/messages/${message.partitionId}/${encoded('t/1')}`);
    assert.equal(detail.id, message.id);
    assert.deepEqual(
      [detail.transactionId, detail.partition, detail.queue, detail.queuePath, detail.namespace, detail.task],
      ['t/1', 'customer/42', queue, `${queue}/customer/42`, 'shop', queue.split('.')[1]],
    );
    assert.deepEqual([detail.status, detail.payload, detail.retryCount], ['processing', { big: 1 }, 0]);
    assert.equal(detail.queueConfig['leaseTime'], 60);
    assert.match(detail.createdAt, /Z$/);
    assert.deepEqual(
      detail.consumerGroups.map(({ name, committed, consumed }) => [name, committed, consumed]),
      [['billing', -1, false]],
    );
    assert.match(detail.consumerGroups[0].leaseExpiresAt ?? '', /Z$/);
    const byUuid = await get<MessageDetail>(`/api/v1/messages/${detail.partitionId}/${encoded('t/1')}`);
    assert.equal(byUuid.id, message.id);
    const byMessageId = await get<MessageDetail>(`/api/v1/messages/${message.partitionId}/${message.id}`);
    assert.equal(byMessageId.transactionId, 't/1');
    for (const path of [`${message.partitionId}/nope`, '999999999/x', 'what/x']) {
      const answer = await broker.client.request<ErrorBody>('GET', `/api/v1/messages/${path}`);
      assert.deepEqual([answer.status, answer.body.error], [404, 'Message not found'], path);
    }
  });

  // Contract 13.3: error and retries of a dead letter, and an id that the broker made
  it('shows why a message is dead, and finds messages that came without an id', async () => {
    const queue = freshName('q');
    await broker.client.push([{ queue, partition: 'p', payload: 7 }]);
    const [message] = await broker.client.pop(queue);
    await broker.client.ack([message], 'dlq', 'no such customer');
    const detail = await get<MessageDetail>(`/api/v1/messages/${message.partitionId}/${message.transactionId}`);
    assert.deepEqual([detail.status, detail.errorMessage, detail.data], ['dead_letter', 'no such customer', 7]);
  });

  // S-070
  it('shows payloads byte for byte in lists, details and peeks', async () => {
    const queue = freshName('q');
    const payload = '{"a":9007199254740993,"c":1e400, "d":-0,"e":1.0,"a":1}';
    const body = `{"items":[{"queue":"${queue}","partition":"p","transactionId":"t","payload":${payload}}]}`;
    const pushed = await broker.client.request('POST', '/api/v1/push', { bytes: body });
    assert.equal(pushed.status, 201);
    const [row] = (await list({ queue })).messages;
    for (const path of [
      `/api/v1/messages?queue=${queue}`,
      `/api/v1/messages/${row.partitionId}/t`,
      `/api/v1/resources/queues/${queue}/partitions/p/peek`,
    ]) {
      const answer = await broker.client.request('GET', path);
      assert.ok(answer.bytes.includes(`"data":${payload},"payload":${payload}`), path);
    }
  });

  it('peeks into a partition without a lease, and says who holds what, and until when', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryDelay: 60_000 });
    await broker.client.pushAll(queue, 'p', ['0', '1', '2', '3', '4']);
    const held = await broker.client.pop(queue, { group: 'held', mode: 'all', batch: 1 });
    await broker.client.ack(held, 'failed', 'once more');
    await broker.client.ack(await broker.client.pop(queue, { group: 'busy', mode: 'all', batch: 1 }));
    const leased: Message[] = await broker.client.pop(queue, { group: 'busy', batch: 2 });
    const page = await peek(queue, 'p', '?limit=4');
    assert.equal(page.partitionId, leased[0].partitionId);
    assert.deepEqual([page.logStart, page.nextOffset, page.next], [0, 5, 4]);
    const busy = page.groups.find(({ group }) => group === 'busy');
    const other = page.groups.find(({ group }) => group === 'held');
    assert.deepEqual(
      [busy?.committed, busy?.lease?.leaseId, busy?.lease?.from, busy?.lease?.to],
      [0, leased[0].leaseId, 1, 2],
    );
    assert.ok((busy?.lease?.since ?? '') < (busy?.lease?.expiresAt ?? ''));
    assert.deepEqual([other?.committed, other?.lease, other?.retryCount], [-1, null, 1]);
    assert.match(other?.heldUntil ?? '', /Z$/);
    const statesOf = (group: string): string[] =>
      page.records.map(({ states }) => states.find((each) => each.group === group)?.state ?? '');
    assert.deepEqual(statesOf('busy'), ['consumed', 'leased', 'leased', 'ready']);
    assert.deepEqual(statesOf('held'), ['held', 'held', 'held', 'held']);
    const rest = await peek(queue, 'p', `?offset=${page.next}&group=busy`);
    assert.deepEqual(
      rest.records.map(({ offset, payload }) => [offset, payload]),
      [[4, '4']],
    );
    assert.deepEqual(
      rest.groups.map(({ group }) => group),
      ['busy'],
    );
    assert.equal(rest.next, null);
    assert.deepEqual((await peek(queue, 'p', '?offset=5000')).records, []);
    // Nothing was taken by looking.
    assert.equal((await broker.client.pop(queue, { group: 'third', mode: 'all' })).length, 5);
    const unknown = await broker.client.request('GET', `/api/v1/resources/queues/${queue}/partitions/nope/peek`);
    assert.equal(unknown.status, 404);
  });

  it('peeks at records that the queue still holds back', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { delayedProcessing: 3600 });
    await broker.client.pop(queue, { group: 'g', mode: 'all' });
    await broker.client.pushAll(queue, 'p', ['later']);
    const page = await peek(queue, 'p');
    assert.equal(page.records[0].states[0].state, 'delayed');
    assert.equal(page.records[0].states[0].until, page.groups[0].delayedUntil);
  });

  it('says what keeps a group from what is ready: pauses, and the bounds of the group', async () => {
    const queue = freshName('q');
    const post = async (path: string) => {
      assert.equal((await broker.client.request('POST', `/api/v1/${path}`)).status, 200, path);
    };
    const depth = (group: string) =>
      get<{
        ready: number;
        partitionsPaused: number;
        blockedBy: string[];
        bounds: object | null;
        partitions: { partition: string; ready: number; paused: boolean }[];
      }>(`/api/v1/resources/queues/${queue}/depth?group=${group}`);
    await broker.client.pushAll(queue, 'a', ['1', '2']);
    await broker.client.pushAll(queue, 'b', ['1']);
    await broker.client.ack(await broker.client.pop(queue, { group: 'g', mode: 'all', batch: 1 }), 'retry');
    assert.deepEqual((await peek(queue, 'a')).groups[0].blockedBy, []);
    await post(`resources/queues/${queue}/partitions/a/pause`);
    const onePaused = await depth('g');
    assert.deepEqual([onePaused.ready, onePaused.partitionsPaused, onePaused.blockedBy], [3, 1, []]);
    assert.deepEqual(
      onePaused.partitions.map(({ partition, ready, paused }) => [partition, ready, paused]),
      [
        ['a', 2, true],
        ['b', 1, false],
      ],
    );
    await post(`consumer-groups/g/queues/${queue}/pause`);
    await post(`resources/queues/${queue}/pause`);
    assert.deepEqual((await depth('g')).blockedBy, ['queue_paused', 'group_paused']);
    assert.deepEqual((await depth('unknown')).blockedBy, ['queue_paused']);
    const [group] = (await peek(queue, 'a')).groups;
    assert.deepEqual(group.blockedBy, ['queue_paused', 'partition_paused', 'group_paused']);
    assert.deepEqual(await broker.client.pop(queue, { group: 'g' }), []);
    await post(`resources/queues/${queue}/resume`);
    await post(`consumer-groups/g/queues/${queue}/resume`);
    await broker.client.configure(queue, { maxLeasedPartitions: 1, maxPerSecond: 1 });
    assert.deepEqual((await depth('g')).bounds, {
      leasedPartitions: 0,
      maxLeasedPartitions: 1,
      maxPerSecond: 1,
      allowedNow: 1,
    });
    assert.equal((await broker.client.pop(queue, { group: 'g' })).length, 1);
    const used = await depth('g');
    assert.deepEqual(used.blockedBy, ['leased_partitions', 'rate']);
    assert.deepEqual(used.bounds, { leasedPartitions: 1, maxLeasedPartitions: 1, maxPerSecond: 1, allowedNow: 0 });
    assert.deepEqual((await peek(queue, 'b')).groups[0].blockedBy, ['leased_partitions', 'rate']);
  });

  // Contract 9.3
  it('measures the depth of a queue for one group', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'a', ['1', '2', '3']);
    await broker.client.pushAll(queue, 'b', ['1', '2']);
    await broker.client.pop(queue, { group: 'g', mode: 'all', batch: 2 });
    const depth = await get<Record<string, unknown>>(`/api/v1/resources/queues/${queue}/depth?group=g`);
    const { partitions, ...sums } = depth;
    assert.deepEqual(sums, {
      queue,
      group: 'g',
      pending: 3,
      processing: 2,
      ready: 2,
      partitionsPending: 2,
      partitionsReady: 1,
      partitionsPaused: 0,
      blockedBy: [],
      bounds: null,
      conflation: false,
      effectivePending: 3,
      effectiveReady: 2,
      partitionsNext: null,
    });
    assert.deepEqual(
      (partitions as { partition: string; pending: number; processing: number; ready: number }[]).map(
        ({ partition, pending, processing, ready }) => [partition, pending, processing, ready],
      ),
      [
        ['a', 1, 2, 0],
        ['b', 2, 0, 2],
      ],
    );
    const missing = await broker.client.request<ErrorBody>('GET', '/api/v1/resources/queues/nope/depth');
    assert.deepEqual([missing.status, missing.body.error], [404, 'Queue not found']);
  });

  // Contract 9.3
  it('pages through partitions in detail, depth and sizes', async () => {
    const queue = freshName('q');
    const names = ['10', '9', '__proto__', 'x', 'a"b'];
    await broker.client.push(names.map((partition) => ({ queue, partition, payload: 1 })));
    const read = async (path: string, pick: (body: Record<string, unknown>) => string[]): Promise<string[]> => {
      const seen: string[] = [];
      let after = '0';
      for (;;) {
        const body = await get<Record<string, unknown>>(
          `/api/v1/resources/queues/${queue}${path}?partitionsLimit=2&partitionsAfter=${after}`,
        );
        seen.push(...pick(body));
        if (body['partitionsNext'] === null) return seen;
        after = body['partitionsNext'] as string;
      }
    };
    const rows = (body: Record<string, unknown>) => body['partitions'] as Record<string, string>[];
    assert.deepEqual(await read('', (body) => rows(body).map(({ name }) => name)), names);
    assert.deepEqual(await read('/depth', (body) => rows(body).map(({ partition }) => partition)), names);
    const sizes = await read('/sizes', (body) => Object.keys(body['partitions'] as object));
    assert.deepEqual(sizes.sort(), [...names].sort());
  });

  // Contract 9.3
  it('sums up by namespace and task, and pages through queues', async () => {
    const space = freshName('space');
    for (const task of ['one', 'two']) await broker.client.pushAll(`${space}.${task}`, 'p', ['1', '2']);
    const { namespaces } = await get<{ namespaces: Record<string, unknown>[] }>('/api/v1/resources/namespaces');
    assert.deepEqual(
      namespaces.find(({ namespace }) => namespace === space),
      { namespace: space, queues: 2, partitions: 2, messages: { total: 4, pending: 4 } },
    );
    const { tasks } = await get<{ tasks: Record<string, unknown>[] }>('/api/v1/resources/tasks');
    assert.ok(tasks.some(({ task }) => task === 'one'));
    const overview = await get<{ queues: number; messages: { total: number } }>('/api/v1/resources/overview');
    assert.ok(overview.queues >= 2 && overview.messages.total >= 4);
    const page = await get<{ queues: { name: string }[]; total: number; queuesTruncated: boolean }>(
      '/api/v1/resources/queues?limit=1',
    );
    assert.deepEqual([page.queues.length, page.queuesTruncated], [1, true]);
    assert.ok(page.total >= 2);
  });

  // B-TRC-1; contract 13.4
  it('records traces with several names for a message that is held, which stays held', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['t1']);
    const [message] = await broker.client.pop(queue, { group: 'g', mode: 'all' });
    const names = [freshName('order'), freshName('tenant')];
    const record = (json: unknown) =>
      broker.client.request<{ success: boolean; traceId: string }>('POST', '/api/v1/traces', { json });
    const first = await record({
      transactionId: 't1',
      partitionId: message.partitionId,
      consumerGroup: 'g',
      traceNames: names,
      eventType: 'info',
      data: { step: 'charged' },
      worker: 'w1',
    });
    assert.deepEqual([first.status, first.body.success], [201, true]);
    const second = await record({ transactionId: 't1', partitionId: message.partitionId, names: [names[0]], data: 2 });
    assert.equal(second.status, 201);
    assert.notEqual(first.body.traceId, second.body.traceId);
    const traces = await get<TraceList>(`/api/v1/traces/${message.partitionId}/t1`);
    assert.equal(traces.total, 2);
    assert.deepEqual(traces.events, traces.traces);
    assert.deepEqual(
      traces.traces.map(({ data, eventType, event_type }) => [data, eventType, event_type]),
      [
        [2, 'event', 'event'],
        [{ step: 'charged' }, 'info', 'info'],
      ],
    );
    const [, charged] = traces.traces;
    assert.deepEqual(
      [charged.queue_name, charged.partition_name, charged.worker_id, charged.consumer_group, charged.trace_names],
      [queue, 'p', 'w1', 'g', names],
    );
    const named = await get<TraceList>(`/api/v1/traces/by-name/${names[1]}`);
    assert.deepEqual(
      named.traces.map(({ traceId }) => traceId),
      [first.body.traceId],
    );
    const counted = await get<{ trace_names: Record<string, unknown>[] }>('/api/v1/traces/names?limit=1000');
    const row = counted.trace_names.find((each) => each['trace_name'] === names[0]);
    assert.deepEqual([row?.['trace_count'], row?.['message_count']], [2, 1]);
    const [acked] = await broker.client.ack([message]);
    assert.deepEqual([acked.success, acked.leaseReleased], [true, true]);
  });

  // Contract 13.4
  it('refuses traces without an id, of no partition, and with texts that are too long', async () => {
    const cases: [object, number, RegExp][] = [
      [{ data: 1 }, 400, /transactionId is required/],
      [{ transactionId: 't', partitionId: '999999999' }, 404, /Partition not found/],
      [{ transactionId: 't', partitionId: 'odd' }, 404, /Partition not found/],
      [{ transactionId: 't', traceNames: ['n'.repeat(512)] }, 400, /at most 511/],
      [{ transactionId: 't'.repeat(512) }, 400, /at most 511/],
      [{ transactionId: 't', data: 'd'.repeat(70_000) }, 400, /at most 65536/],
      [{ transactionId: 't', traceNames: Array.from({ length: 65 }, (_, i) => `n${i}`) }, 400, /at most 64/],
    ];
    for (const [json, status, error] of cases) {
      const answer = await broker.client.request<ErrorBody>('POST', '/api/v1/traces', { json });
      assert.equal(answer.status, status);
      assert.match(answer.body.error, error);
    }
    const loose = await broker.client.request('POST', '/api/v1/traces', { json: { transactionId: 'loose' } });
    assert.equal(loose.status, 201);
  });

  // Contract 15
  it('answers the status pages with figures that add up', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['1', '2']);
    await broker.client.ack(await broker.client.pop(queue));
    const status = await get<{
      engine: string;
      bucketMinutes: number;
      throughput: { ingested: number; processed: number }[];
      queues: { name: string }[];
      messages: { total: number };
    }>('/api/v1/status');
    assert.deepEqual([status.engine, status.bucketMinutes], ['raft', 1]);
    assert.ok(status.throughput.reduce((sum, { ingested }) => sum + ingested, 0) >= 2);
    assert.ok(status.queues.some(({ name }) => name === queue));
    assert.ok(status.messages.total >= 2);
    const analytics = await get<{ data: unknown[]; totals: { ingested: number } }>('/api/v1/status/analytics');
    assert.ok(analytics.data.length > 0 && analytics.totals.ingested >= 2);
    const { queues } = await get<{ queues: { name: string; messages: { total: number } }[] }>('/api/v1/status/queues');
    assert.equal(queues.find(({ name }) => name === queue)?.messages.total, 2);
    const one = await get<{ name: string; totals: { total: number } }>(`/api/v1/status/queues/${queue}`);
    assert.deepEqual([one.name, one.totals.total], [queue, 2]);
    const unread = await broker.client.request('GET', '/api/v1/status?from=yesterday');
    assert.equal(unread.status, 400);
    const refreshed = await broker.client.request('POST', '/api/v1/stats/refresh');
    assert.deepEqual(refreshed.body, { success: true, refreshed: false, engine: 'raft' });
  });

  // Contract 15
  it('says that there is no maintenance mode, and does not pretend to switch one on', async () => {
    const path = '/api/v1/system/maintenance';
    assert.deepEqual(await get(path), {
      maintenanceMode: false,
      popMaintenanceMode: false,
      bufferedMessages: 0,
      bufferHealthy: true,
    });
    assert.deepEqual(await get(`${path}/pop`), { popMaintenanceMode: false });
    const set = (to: unknown) => broker.client.request('POST', `${path}/pop`, { json: { enabled: to } });
    assert.equal((await set(false)).status, 200);
    assert.equal((await set(true)).status, 400);
    assert.equal((await set('yes')).status, 400);
  });

  // Contract 15
  it('answers the JSON 404 for surfaces that do not exist here', async () => {
    for (const path of ['/api/v1/kv', '/api/v1/kv/ns/key', '/api/v1/timers/q', '/api/v1/ephemeral/queues']) {
      const answer = await broker.client.request<ErrorBody>('GET', path);
      assert.deepEqual([answer.status, answer.body], [404, { code: 'no_such_route', error: 'not found', path }]);
    }
  });
});

describe('browsing after a restart', () => {
  // Contract 13.4, checklist 40
  it('traces survive a kill and a clean stop, and are shown again', async () => {
    const broker = await BrokerProcess.start();
    try {
      for (let i = 0; i < 3; i++) {
        const answer = await broker.client.request('POST', '/api/v1/traces', {
          json: { transactionId: 't', traceNames: ['n'], data: i },
        });
        assert.equal(answer.status, 201);
        if (i === 0) await broker.killAndRestart();
        else await broker.restart();
        const page = await broker.client.request<TraceList>('GET', '/api/v1/traces/by-name/n');
        assert.deepEqual(
          page.body.traces.map(({ data }) => data),
          Array.from({ length: i + 1 }, (_, back) => i - back),
        );
      }
    } finally {
      await broker.dispose();
    }
  });

  // B-PSH-10; contract 13.2
  it('shows messages of an encrypted queue in the clear, and says so when the key is gone', async () => {
    const key = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
    const broker = await BrokerProcess.start({ env: { LANEMQ_ENCRYPTION_KEY: key } });
    try {
      const { client } = broker;
      await client.configure('secret', { encryptionEnabled: true });
      await client.pushAll('secret', 'p', ['hush']);
      const shown = await client.request<MessageList>('GET', '/api/v1/messages?queue=secret');
      assert.deepEqual(
        shown.body.messages.map(({ data, isEncrypted, payloadAvailable }) => [data, isEncrypted, payloadAvailable]),
        [['hush', true, true]],
      );
      await broker.stop();
      const keyless = await BrokerProcess.start({ dataFolder: broker.dataFolder });
      try {
        for (const path of ['/api/v1/messages?queue=secret', '/api/v1/resources/queues/secret/partitions/p/peek']) {
          const answer = await keyless.client.request<
            Record<string, { payload: unknown; payloadAvailable: boolean }[]>
          >('GET', path);
          assert.equal(answer.status, 200);
          const [row] = answer.body['messages'] ?? answer.body['records'];
          assert.deepEqual([row.payload, row.payloadAvailable], [null, false]);
        }
      } finally {
        await keyless.dispose();
      }
    } finally {
      await broker.dispose();
    }
  });
});
