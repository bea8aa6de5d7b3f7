/**
 * Contract section 8, checklist 29 to 33, B-FET-1 to B-FET-4: reads by offset. Retention is not part of these tests:
 * every partition begins at offset 0.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type ErrorBody, freshName } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { postText, RawConnection } from './raw-connection.ts';

interface FetchedRecord {
  readonly offset: number;
  readonly transactionId: string;
  readonly payload: unknown;
  readonly ts: string;
}

interface FetchedEntry {
  readonly queue: string;
  readonly partition: string;
  readonly records: readonly FetchedRecord[];
  readonly highWatermark: number;
  readonly logStartOffset: number;
  readonly error?: string;
}

interface OffsetEntry {
  readonly offset: number | null;
  readonly ts: string | null;
  readonly highWatermark: number;
  readonly logStartOffset: number;
  readonly error?: string;
}

interface ChangedBody {
  readonly safeTime: string;
  readonly safeTimeDegraded: boolean;
  readonly entries: readonly {
    readonly queue: string;
    readonly partitions: readonly {
      readonly name: string;
      readonly id: string;
      readonly lastOffset: number;
      readonly logStart: number;
      readonly lastWriteAt: string;
    }[];
    readonly next: string | null;
    readonly error?: string;
  }[];
}

const unknown = 'UNKNOWN_TOPIC_OR_PARTITION';
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const isoMicros = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

describe('reads by offset', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  const post = async <Body>(path: string, json: unknown): Promise<Body> => {
    const answer = await broker.client.request<Body>('POST', path, { json });
    assert.equal(answer.status, 200, answer.bytes.toString());
    return answer.body;
  };
  const refused = async (path: string, json: unknown): Promise<ErrorBody> => {
    const answer = await broker.client.request<ErrorBody>('POST', path, { json });
    assert.equal(answer.status, 400, answer.bytes.toString());
    return answer.body;
  };
  const fetchAll = async (json: object): Promise<readonly FetchedEntry[]> =>
    (await post<{ entries: FetchedEntry[] }>('/api/v1/fetch', json)).entries;
  const fetchOne = async (entry: object, rest: object = {}): Promise<FetchedEntry> =>
    (await fetchAll({ entries: [entry], ...rest }))[0];
  const changed = (...entries: readonly object[]) => post<ChangedBody>('/api/v1/partitions/changed', { entries });
  const push = (queue: string, partition: string, ...payloads: readonly unknown[]) =>
    broker.client.push(payloads.map((payload) => ({ queue, partition, payload })));

  // Contract 8.1, rule 1 and 5
  it('answers what was pushed, with its transactionId, its stamp and the bounds', async () => {
    const queue = freshName('q');
    const [pushed, without] = await broker.client.push([
      { queue, partition: 'a', transactionId: 'order-9137-"created"', payload: { orderId: 9137, ü: ['x', null] } },
      { queue, partition: 'a', payload: 0 },
    ]);
    const entry = await fetchOne({ queue, partition: 'a', offset: 0 });
    const [record] = await broker.client.pop(queue);
    assert.match(record.createdAt, isoMicros);
    assert.deepEqual(entry, {
      queue,
      partition: 'a',
      records: [
        {
          offset: 0,
          transactionId: pushed.transaction_id,
          payload: { orderId: 9137, ü: ['x', null] },
          ts: record.createdAt,
        },
        { offset: 1, transactionId: without.transaction_id, payload: 0, ts: record.createdAt },
      ],
      highWatermark: 2,
      logStartOffset: 0,
    });
  });

  // Checklist 29; B-FET-1, B-FET-2, B-FET-3
  it('reads 1,200 partitions of 3 records in calls of 1,000, and a pop afterwards still delivers all', async () => {
    const queue = freshName('q');
    const names = Array.from({ length: 1200 }, (_, i) => `p-${i}`);
    await broker.client.push(
      names.flatMap((partition) =>
        [0, 1, 2].map((n) => ({ queue, partition, transactionId: `${partition}/${n}`, payload: { partition, n } })),
      ),
    );
    for (const part of [names.slice(0, 1000), names.slice(1000)]) {
      const entries = await fetchAll({ entries: part.map((partition) => ({ queue, partition, offset: 0 })) });
      assert.deepEqual(
        entries.map((entry) => entry.partition),
        part,
      );
      for (const { partition, records, highWatermark, logStartOffset } of entries) {
        assert.deepEqual(
          records.map(({ offset, transactionId, payload }) => ({ offset, transactionId, payload })),
          [0, 1, 2].map((n) => ({ offset: n, transactionId: `${partition}/${n}`, payload: { partition, n } })),
        );
        assert.deepEqual([highWatermark, logStartOffset], [3, 0]);
      }
    }
    await push(queue, 'p-7', 'later');
    const later = await fetchAll({
      entries: names.slice(0, 1000).map((partition) => ({ queue, partition, offset: 3 })),
    });
    for (const { partition, records } of later) {
      assert.deepEqual(
        records.map(({ offset, payload }) => [offset, payload]),
        partition === 'p-7' ? [[3, 'later']] : [],
      );
    }
    let delivered = 0;
    for (;;) {
      const messages = await broker.client.pop(queue, { batch: 10_000, partitions: 64, group: 'g', mode: 'all' });
      if (messages.length === 0) break;
      delivered += messages.length;
    }
    assert.equal(delivered, 3601);
  });

  // Checklist 30; contract 8.1, rules 2 and 4
  it('reads everything under a ceiling of 250 bytes over three partitions of two 102-byte records', async () => {
    const queue = freshName('q');
    for (const partition of ['a', 'b', 'c']) await push(queue, partition, 'x'.repeat(100), 'y'.repeat(100));
    const next = new Map([
      ['a', 0],
      ['b', 0],
      ['c', 0],
    ]);
    const first = await fetchAll({
      entries: [...next].map(([partition, offset]) => ({ queue, partition, offset, maxBytes: 250 })),
      maxBytes: 250,
    });
    // Two of the first partition make 204 bytes; the ceiling is not spent when the second one's turn comes, so its
    // first record is given whatever it weighs; then it is.
    assert.deepEqual(
      first.map(({ records }) => records.length),
      [2, 1, 0],
    );
    assert.ok(first.every(({ error, highWatermark }) => error === undefined && highWatermark === 2));
    for (let calls = 0; [...next.values()].some((offset) => offset < 2); calls++) {
      assert.ok(calls < 6, 'no endless loop');
      const entries = await fetchAll({
        entries: [...next].map(([partition, offset]) => ({ queue, partition, offset, maxBytes: 250 })),
        maxBytes: 250,
      });
      for (const { partition, records } of entries) {
        for (const { offset } of records) {
          assert.equal(offset, next.get(partition));
          next.set(partition, offset + 1);
        }
      }
    }
  });

  // Contract 8.1, rule 2
  it('gives the first record whatever it weighs, and stops before a later one is over the budget', async () => {
    const queue = freshName('q');
    await push(queue, 'a', 'x'.repeat(1000), 'y', 'z'.repeat(1000));
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0, maxBytes: 1 })).records.length, 1);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0, maxBytes: 1004 })).records.length, 1);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0, maxBytes: 1005 })).records.length, 2);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 2, maxBytes: 0 })).records.length, 1);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0 }, { maxBytes: 1005 })).records.length, 2);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0 })).records.length, 3);
  });

  // Contract 8.1, rule 3
  it('gives at most 10,000 records per entry, and the rest to the next call', async () => {
    const queue = freshName('q');
    await push(queue, 'a', ...Array.from({ length: 10_003 }, (_, i) => i));
    const { records, highWatermark } = await fetchOne({ queue, partition: 'a', offset: 0, maxBytes: 8_388_608 });
    assert.equal(records.length, 10_000);
    assert.equal(highWatermark, 10_003);
    const rest = await fetchOne({ queue, partition: 'a', offset: 10_000 });
    assert.deepEqual(
      rest.records.map(({ offset, payload }) => [offset, payload]),
      [10_000, 10_001, 10_002].map((n) => [n, n]),
    );
  });

  // Contract 8.1, rules 6, 7 and 8; B-FET-4
  it('answers each entry for itself: unknown queue, partition never written, offset out of range, end of the log', async () => {
    const queue = freshName('q');
    await push(queue, 'a', 1, 2);
    const none = freshName('none');
    const entries = await fetchAll({
      entries: [
        { queue: none, partition: 'a', offset: 0 },
        { queue, partition: 'never', offset: 0 },
        { queue, partition: 'a', offset: 2 },
        { queue, partition: 'a', offset: 3 },
        { queue, partition: 'never', offset: 1 },
        { queue, partition: 'a', offset: 1 },
      ],
    });
    const empty = { records: [] as FetchedRecord[], logStartOffset: 0 };
    assert.deepEqual(entries.slice(0, 5), [
      { queue: none, partition: 'a', ...empty, highWatermark: 0, error: unknown },
      { queue, partition: 'never', ...empty, highWatermark: 0 },
      { queue, partition: 'a', ...empty, highWatermark: 2 },
      { queue, partition: 'a', ...empty, highWatermark: 2, error: 'OFFSET_OUT_OF_RANGE' },
      { queue, partition: 'never', ...empty, highWatermark: 0, error: 'OFFSET_OUT_OF_RANGE' },
    ]);
    assert.equal(entries[5].records.length, 1);
    // Reading made no queue.
    assert.equal((await fetchOne({ queue: none, offset: 0 })).error, unknown);
  });

  // Checklist 32; contract 8.1
  it('takes 1,024 entries and no more, in all three routes', async () => {
    const queue = freshName('q');
    await push(queue, 'Default', 1);
    const many = (count: number) => Array.from({ length: count }, () => ({ queue, timestamp: 0 }));
    for (const path of ['/api/v1/fetch', '/api/v1/fetch/offsets', '/api/v1/partitions/changed']) {
      assert.equal((await post<{ entries: object[] }>(path, { entries: many(1024) })).entries.length, 1024);
      assert.match((await refused(path, { entries: many(1025) })).error, /too many entries/);
      assert.deepEqual((await post<{ entries: object[] }>(path, { entries: [] })).entries, []);
    }
  });

  // Contract 8.1
  it('takes Default for an absent partition, an integer for its digits, 0 for an absent offset', async () => {
    const queue = freshName('q');
    await broker.client.push([
      { queue, payload: 'd' },
      { queue, partition: '42', payload: 'n' },
    ]);
    const entries = await fetchAll({
      entries: [{ queue }, { queue, partition: 42, offset: null }, { queue, partition: null, offset: 0 }],
    });
    assert.deepEqual(
      entries.map(({ partition, records }) => [partition, records[0].payload]),
      [
        ['Default', 'd'],
        ['42', 'n'],
        ['Default', 'd'],
      ],
    );
  });

  // Contract 8.1
  it('refuses bad bodies with a text that names the field', async () => {
    const queue = freshName('q');
    const cases: readonly [object, RegExp][] = [
      [{ entries: [{ queue, offset: -1 }] }, /offset must be non-negative/],
      [{ entries: [{ queue, offset: 1.5 }] }, /offset/],
      [{ entries: [{ queue, offset: '0' }] }, /offset/],
      [{ entries: [{ queue: 7, offset: 0 }] }, /queue/],
      [{ entries: [{ queue, partition: {} }] }, /partition/],
      [{ entries: [{ queue, maxBytes: 'x' }] }, /maxBytes/],
      [{ entries: [7] }, /entry/],
      [{ entries: {} }, /entries/],
      [{}, /entries/],
      [[], /entries/],
      [{ entries: [{ queue }], maxWaitMs: '1' }, /maxWaitMs/],
      [{ entries: [{ queue }], minBytes: [] }, /minBytes/],
    ];
    for (const [body, text] of cases) assert.match((await refused('/api/v1/fetch', body)).error, text);
    const raw = await broker.client.request<ErrorBody>('POST', '/api/v1/fetch', { bytes: '{"entries":' });
    assert.equal(raw.status, 400);
  });

  // Contract 8.1, rule 10
  it('shows records that a delay or a window still holds back from pops', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { delayedProcessing: 3600, windowBuffer: 3600 });
    await push(queue, 'a', 'held');
    assert.equal((await broker.client.pop(queue)).length, 0);
    assert.equal((await fetchOne({ queue, partition: 'a', offset: 0 })).records[0].payload, 'held');
  });

  describe('waiting', () => {
    // Contract 8.1, rule 9
    it('ends the wait with the first record, of a partition that did not exist', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      const waiting = fetchOne({ queue, partition: 'new', offset: 0 }, { maxWaitMs: 30_000 });
      await parked(broker, 1);
      await push(queue, 'other', 1);
      await push(queue, 'new', 'woken');
      assert.equal((await waiting).records[0].payload, 'woken');
    });

    // Contract 8.1, rule 9
    it('waits until minBytes are there, over all entries', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      let answered = false;
      const waiting = fetchAll({
        entries: ['a', 'b'].map((partition) => ({ queue, partition, offset: 0 })),
        maxWaitMs: 30_000,
        minBytes: 100,
      }).finally(() => {
        answered = true;
      });
      await parked(broker, 1);
      for (let i = 0; i < 9; i++) {
        await push(queue, i % 2 === 0 ? 'a' : 'b', 'x'.repeat(8));
        assert.equal(answered, false, `${(i + 1) * 10} bytes are not 100`);
      }
      await push(queue, 'b', 'x'.repeat(8));
      const [a, b] = await waiting;
      assert.deepEqual([a.records.length, b.records.length], [5, 5]);
    });

    // Contract 8.1, rule 9
    it('answers what there is when the time is over, and at once with minBytes 0', async () => {
      const queue = freshName('q');
      await push(queue, 'a', 'x');
      const startedAt = performance.now();
      const { records } = await fetchOne({ queue, partition: 'a', offset: 0 }, { maxWaitMs: 300, minBytes: 1000 });
      assert.equal(records.length, 1);
      assert.ok(performance.now() - startedAt >= 250);
      const atOnce = performance.now();
      await fetchOne({ queue, partition: 'a', offset: 1 }, { maxWaitMs: 30_000, minBytes: 0 });
      await fetchOne({ queue, partition: 'a', offset: 1 }, { minBytes: 10 });
      assert.ok(performance.now() - atOnce < 5000);
    });

    // Contract 8.1, rule 9
    it('ends the wait at once when an entry has an error, or gets one', async () => {
      const queue = freshName('q');
      await push(queue, 'a', 'x');
      const entries = [
        { queue, partition: 'a', offset: 1 },
        { queue, partition: 'a', offset: 9 },
      ];
      const answer = await fetchAll({ entries, maxWaitMs: 30_000 });
      assert.equal(answer[1].error, 'OFFSET_OUT_OF_RANGE');
      const waiting = fetchOne({ queue, partition: 'a', offset: 1 }, { maxWaitMs: 30_000 });
      await parked(broker, 1);
      await broker.client.deleteQueue(queue);
      assert.equal((await waiting).error, unknown);
    });

    it('forgets a fetch whose client has gone', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      const body = JSON.stringify({ entries: [{ queue, partition: 'a', offset: 0 }], maxWaitMs: 30_000 });
      const connection = await RawConnection.open(broker.client.port);
      connection.write(postText('/api/v1/fetch', body));
      await parked(broker, 1);
      connection.destroy();
      await parked(broker, 0);
    });
  });

  describe('fetch/offsets', () => {
    const offsets = async (...entries: readonly object[]) =>
      (await post<{ entries: OffsetEntry[] }>('/api/v1/fetch/offsets', { entries })).entries;

    // Contract 8.2
    it('finds the first record at or after a time, in milliseconds or ISO', async () => {
      const queue = freshName('q');
      const pushes = 20;
      for (let i = 0; i < pushes; i++) await push(queue, 'a', i, i);
      const { records } = await fetchOne({ queue, partition: 'a', offset: 0 });
      for (let i = 0; i < pushes; i++) {
        const record = records[i * 2];
        const [exact] = await offsets({ queue, partition: 'a', timestamp: record.ts });
        assert.deepEqual(exact, {
          queue,
          partition: 'a',
          offset: i * 2,
          ts: record.ts,
          highWatermark: pushes * 2,
          logStartOffset: 0,
        });
      }
      const [all, none, byMs] = await offsets(
        { queue, partition: 'a', timestamp: '2020-01-01' },
        { queue, partition: 'a', timestamp: '2200-01-01T00:00:00Z' },
        { queue, partition: 'a', timestamp: Date.parse(records[10].ts) },
      );
      assert.equal(all.offset, 0);
      assert.deepEqual([none.offset, none.ts], [null, null]);
      const milliseconds = new Date(Date.parse(records[10].ts)).toISOString().replace('Z', '000Z');
      const expected = records.find(({ ts }) => ts >= milliseconds);
      assert.equal(byMs.offset, expected?.offset);
    });

    // Contract 8.2
    it('answers unknown queues and partitions like fetch, and refuses what is no time', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      const [unknownQueue, never] = await offsets(
        { queue: freshName('none'), timestamp: 0 },
        { queue, partition: 'never', timestamp: 0 },
      );
      assert.equal(unknownQueue.error, unknown);
      assert.deepEqual(
        [never.offset, never.ts, never.highWatermark, never.logStartOffset, never.error],
        [null, null, 0, 0, undefined],
      );
      for (const timestamp of [undefined, null, 'yesterday', '', true, '2026-13-01']) {
        assert.match((await refused('/api/v1/fetch/offsets', { entries: [{ queue, timestamp }] })).error, /timestamp/);
      }
    });
  });

  describe('partitions/changed', () => {
    // Checklist 33; contract 8.3, rules 1 to 3
    it('lists 1,100 partitions in two pages in the order of their creation, with null at the end', async () => {
      const queue = freshName('q');
      const names = Array.from({ length: 1100 }, (_, i) => `p-${(i * 7919) % 1100}`);
      await broker.client.push(names.map((partition) => ({ queue, partition, payload: 1 })));
      const first = await changed({ queue });
      assert.match(first.safeTime, isoMicros);
      assert.equal(first.safeTimeDegraded, false);
      const [page] = first.entries;
      assert.equal(page.partitions.length, 1000);
      assert.match(page.next ?? '', /^p\|\d+$/);
      const [second] = (await changed({ queue, since: null, after: page.next, limit: 1000 })).entries;
      assert.equal(second.next, null);
      const listed = [...page.partitions, ...second.partitions];
      assert.deepEqual(
        listed.map(({ name }) => name),
        names,
      );
      assert.equal(new Set(listed.map(({ id }) => id)).size, 1100);
      for (const { id, lastOffset, logStart, lastWriteAt } of listed) {
        assert.match(id, uuid);
        assert.deepEqual([lastOffset, logStart], [0, 0]);
        assert.match(lastWriteAt, isoMicros);
        assert.ok(lastWriteAt <= first.safeTime);
      }
    });

    // Contract 8.3, rule 3
    it('gives a next exactly when the page is full, also before an empty last page', async () => {
      const queue = freshName('q');
      await broker.client.push([1, 2, 3, 4].map((n) => ({ queue, partition: `p${n}`, payload: n })));
      const [full] = (await changed({ queue, limit: 4 })).entries;
      assert.equal(full.partitions.length, 4);
      assert.notEqual(full.next, null);
      const [empty] = (await changed({ queue, limit: 4, after: full.next })).entries;
      assert.deepEqual([empty.partitions.length, empty.next], [0, null]);
      const sizes = [];
      for (const limit of [0, -5, 1, null, undefined, 5000]) {
        sizes.push((await changed({ queue, limit })).entries[0].partitions.length);
      }
      assert.deepEqual(sizes, [1, 1, 1, 4, 4, 4]);
    });

    // Contract 8.3, rule 3
    it('goes on right when partitions are created and written between the pages, and when the queue is deleted', async () => {
      const queue = freshName('q');
      await broker.client.push([1, 2, 3].map((n) => ({ queue, partition: `p${n}`, payload: n })));
      const [first] = (await changed({ queue, limit: 2 })).entries;
      await push(queue, 'p1', 'again');
      await push(queue, 'p4', 'new');
      const [second] = (await changed({ queue, limit: 2, after: first.next })).entries;
      assert.deepEqual(
        [...first.partitions, ...second.partitions].map(({ name }) => name),
        ['p1', 'p2', 'p3', 'p4'],
      );
      await broker.client.deleteQueue(queue);
      assert.deepEqual((await changed({ queue, after: second.next })).entries, [{ queue, error: unknown }]);
      await push(queue, 'p9', 'anew');
      const [third] = (await changed({ queue, after: second.next })).entries;
      assert.deepEqual(
        third.partitions.map(({ name, lastOffset }) => [name, lastOffset]),
        [['p9', 0]],
      );
    });

    // Checklist 33; contract 8.3, rules 5 and 6
    it('lists a later write and nothing older when since is a safeTime', async () => {
      const queue = freshName('q');
      await push(queue, 'old', 1);
      await push(queue, 'last', 1);
      const { safeTime } = await changed({ queue });
      await push(queue, 'new', 1);
      await push(queue, 'old', 2);
      const [page] = (await changed({ queue, since: safeTime })).entries;
      for (const { lastWriteAt } of page.partitions) assert.ok(lastWriteAt >= safeTime);
      const names = page.partitions.map(({ name }) => name);
      assert.ok(names.includes('old') && names.includes('new'));
      assert.deepEqual(page.partitions.find(({ name }) => name === 'old')?.lastOffset, 1);
    });

    // Contract 8.3, rule 4
    it('answers unknown queues before bad cursors, with two keys each', async () => {
      const queue = freshName('q');
      await push(queue, 'a', 1);
      const none = freshName('none');
      const { entries } = await changed(
        { queue: none, after: 'bad' },
        {},
        { queue, after: 'n|5' },
        { queue, after: 't|5' },
        { queue, after: 'p|' },
        { queue, after: 'p|1x' },
        { queue, after: 5 },
        { queue, after: '' },
      );
      assert.deepEqual(entries.slice(0, 7), [
        { queue: none, error: unknown },
        { queue: '', error: unknown },
        ...Array.from({ length: 5 }, () => ({ queue, error: 'BAD_CURSOR' })),
      ]);
      assert.equal(entries[7].partitions.length, 1);
    });

    // Contract 8.3
    it('reads a since in every form, to the microsecond, and refuses all else', async () => {
      const queue = freshName('q');
      await push(queue, 'a', 1);
      const at = (await changed({ queue })).entries[0].partitions[0].lastWriteAt;
      const count = async (since: string) => (await changed({ queue, since })).entries[0].partitions.length;
      assert.equal(await count(at), 1);
      const later = `${at.slice(0, -7)}${String(Number(at.slice(-7, -1)) + 1).padStart(6, '0')}Z`;
      if (!at.endsWith('999999Z')) assert.equal(await count(later), 0);
      for (const since of ['2020-01-01', '2020-01-01T10:00', '2020-01-01T10:00:00', '2020-01-01T10:00:00.5+02:00']) {
        assert.equal(await count(since), 1);
      }
      for (const since of ['', 'yesterday', 7, {}, '2026-02-30', '2026-1-1']) {
        const body = { entries: [{ queue }, { queue, since }] };
        assert.match((await refused('/api/v1/partitions/changed', body)).error, /since/);
      }
    });
  });
});

// Contract 8.1, rule 10
describe('reads of encrypted queues', () => {
  it('answers payloads in clear, and refuses clearly when the broker has no key any more', async () => {
    const key = randomBytes(32).toString('hex');
    const broker = await BrokerProcess.start({ env: { LANEMQ_ENCRYPTION_KEY: key } });
    try {
      await broker.client.configure('secret', { encryptionEnabled: true });
      await broker.client.push([{ queue: 'secret', partition: 'a', payload: { clear: 'text' } }]);
      const json = { entries: [{ queue: 'secret', partition: 'a', offset: 0 }] };
      const { body } = await broker.client.request<{ entries: FetchedEntry[] }>('POST', '/api/v1/fetch', { json });
      assert.deepEqual(body.entries[0].records[0].payload, { clear: 'text' });
      await broker.stop();
      const keyless = await BrokerProcess.start({ dataFolder: broker.dataFolder });
      try {
        const answer = await keyless.client.request<ErrorBody>('POST', '/api/v1/fetch', { json });
        assert.equal(answer.status, 500);
        assert.match(answer.body.error, /encrypted.*LANEMQ_ENCRYPTION_KEY/);
      } finally {
        await keyless.stop();
      }
    } finally {
      await broker.dispose();
    }
  });
});

describe('reads and the end of a broker', () => {
  it('ends parked fetches when it stops', async () => {
    const broker = await BrokerProcess.start();
    await broker.client.configure('q');
    const json = { entries: [{ queue: 'q', partition: 'a', offset: 0 }], maxWaitMs: 30_000 };
    const waiting = broker.client.request<{ entries: FetchedEntry[] }>('POST', '/api/v1/fetch', { json });
    await parked(broker, 1);
    await broker.stop();
    const { status, body } = await waiting;
    assert.equal(status, 200);
    assert.deepEqual(body.entries[0].records, []);
    await broker.dispose();
  });
});

/** Waits until so many fetches are parked. */
async function parked(broker: BrokerProcess, count: number): Promise<void> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const { body } = await broker.client.request<{ engine?: Record<string, number> }>('GET', '/metrics');
    const parkedFetches = JSON.stringify(body).match(/"parkedFetches":(\d+)/)?.[1];
    if (parkedFetches === undefined ? false : count === 0 ? parkedFetches === '0' : Number(parkedFetches) >= count)
      return;
    assert.ok(performance.now() < deadline, `parkedFetches is ${parkedFetches}, not ${count}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
