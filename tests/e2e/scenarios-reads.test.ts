/** Checklist 34 and 40, and reads by offset of what lies on disk in many segments. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { freshName } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';

interface Changed {
  readonly safeTime: string;
  readonly entries: readonly {
    readonly partitions: readonly {
      readonly name: string;
      readonly lastOffset: number;
      readonly lastWriteAt: string;
    }[];
    readonly next: string | null;
  }[];
}

interface Fetched {
  readonly entries: readonly {
    readonly partition: string;
    readonly records: readonly { readonly offset: number; readonly payload: number; readonly ts: string }[];
    readonly highWatermark: number;
    readonly error?: string;
  }[];
}

async function post<Body>(broker: BrokerProcess, path: string, json: unknown): Promise<Body> {
  const answer = await broker.client.request<Body>('POST', path, { json });
  assert.equal(answer.status, 200, answer.bytes.toString());
  return answer.body;
}

/** One pass over all pages. Answers the safeTime of its first page: what the next pass begins with. */
async function changedPass(
  broker: BrokerProcess,
  queue: string,
  since: string | null,
  see: (name: string, lastOffset: number) => void,
): Promise<string> {
  let safeTime: string | null = null;
  for (let after: string | null = null; ; ) {
    const answer: Changed = await post<Changed>(broker, '/api/v1/partitions/changed', {
      entries: [{ queue, since, after, limit: 50 }],
    });
    safeTime ??= answer.safeTime;
    const [page] = answer.entries;
    for (const { name, lastOffset, lastWriteAt } of page.partitions) {
      assert.ok(since === null || lastWriteAt >= since, 'no listed partition is older than since');
      see(name, lastOffset);
    }
    if (page.next === null) return safeTime;
    after = page.next;
  }
}

describe('reads by offset of a working broker', { concurrency: 3 }, () => {
  // Checklist 34 and 40; contract 8.3, rule 5
  it('loses no write between passes chained by safeTime, under 16 writers and a SIGKILL between two passes', async (t) => {
    const broker = await BrokerProcess.start();
    t.after(() => broker.dispose());
    const queue = freshName('q');
    const partitions = 200;
    /** The highest offset that a push was answered with, by partition. */
    const acknowledged = new Map<string, number>();
    const seen = new Map<string, number>();
    const see = (name: string, lastOffset: number): void => {
      assert.ok(lastOffset >= (seen.get(name) ?? -1), 'offsets do not go back');
      seen.set(name, lastOffset);
    };
    await broker.client.push([{ queue, partition: 'w-0', payload: 0 }]);
    let writing = true;
    const write = async (writer: number): Promise<void> => {
      for (let n = writer; writing; n += 7) {
        const names = [`w-${n % partitions}`, `w-${(n * 31) % partitions}`];
        const json = { items: names.map((partition) => ({ queue, partition, payload: n })) };
        // The broker is killed under the writers: a push without an answer may have happened or not.
        const answer = await broker.client
          .request<{ offset: number }[]>('POST', '/api/v1/push', { json })
          .catch(() => null);
        if (answer === null) await new Promise((resolve) => setImmediate(resolve));
        if (answer?.status !== 201) continue;
        names.forEach((name, i) => {
          acknowledged.set(name, Math.max(acknowledged.get(name) ?? -1, answer.body[i].offset));
        });
      }
    };
    let writers = Array.from({ length: 16 }, (_, writer) => write(writer));
    let since: string | null = null;
    try {
      for (let pass = 0; pass < sized(24, 240); pass++) {
        if (pass % 6 === 5) {
          writing = false;
          const ended = Promise.all(writers);
          await broker.kill();
          await ended;
          await broker.launch();
          writing = true;
          writers = Array.from({ length: 16 }, (_, writer) => write(writer));
        }
        const before = new Map(acknowledged);
        const next = await changedPass(broker, queue, since, see);
        assert.ok(since === null || next >= since, 'safeTime does not go back');
        since = next;
        for (const [name, offset] of before) {
          assert.ok((seen.get(name) ?? -1) >= offset, `pass ${pass} hides offset ${offset} of ${name}`);
        }
      }
    } finally {
      writing = false;
      await Promise.all(writers);
    }
    await changedPass(broker, queue, since, see);
    for (const [name, offset] of acknowledged) assert.ok((seen.get(name) ?? -1) >= offset);
  });

  it('reads back from many segments all that was pushed, in batches and one by one, whatever the limits of the call', async (t) => {
    const broker = await BrokerProcess.start({
      args: ['--segment-bytes', '1048576', '--tail-bytes', '1048576', '--cold-bytes', '1048576'],
    });
    t.after(() => broker.dispose());
    const queue = freshName('q');
    const lanes = 20;
    const counts = Array.from({ length: lanes }, () => 0);
    const pushTo = async (choose: (i: number) => number, items: number): Promise<void> => {
      await broker.client.push(
        Array.from({ length: items }, (_, i) => {
          const lane = choose(i);
          return { queue, partition: `p${lane}`, payload: counts[lane]++ };
        }),
      );
    };
    for (let round = 0; round < sized(60, 600); round++) {
      await pushTo(() => round % lanes, 500);
      await pushTo((i) => i % lanes, 500);
    }
    await broker.restart();
    const names = counts.map((_, lane) => `p${lane}`);
    for (const limits of [
      { entry: 8_388_608, call: undefined },
      { entry: 1000, call: 8000 },
      { entry: 50_000, call: 100_000 },
    ]) {
      const next = new Map(names.map((name) => [name, 0]));
      for (let open = names; open.length > 0; ) {
        const { entries } = await post<Fetched>(broker, '/api/v1/fetch', {
          entries: open.map((partition) => ({ queue, partition, offset: next.get(partition), maxBytes: limits.entry })),
          ...(limits.call === undefined ? {} : { maxBytes: limits.call }),
        });
        let records = 0;
        for (const entry of entries) {
          assert.equal(entry.error, undefined);
          for (const { offset, payload } of entry.records) {
            assert.equal(offset, next.get(entry.partition));
            assert.equal(payload, offset);
            next.set(entry.partition, offset + 1);
            records++;
          }
        }
        assert.ok(records > 0, 'each call brings something');
        open = entries.filter((each) => next.get(each.partition) !== each.highWatermark).map((each) => each.partition);
      }
      assert.deepEqual([...next.values()], counts);
    }
  });

  // Contract 8.2
  it('finds a time among many appends in many segments by a search', async (t) => {
    const broker = await BrokerProcess.start({
      args: ['--segment-bytes', '1048576', '--tail-bytes', '1048576'],
    });
    t.after(() => broker.dispose());
    const queue = freshName('q');
    const appends = sized(20_000, 1_000_000);
    const at: string[] = [];
    let next = 0;
    const push = async (): Promise<void> => {
      while (next < appends) {
        next++;
        await broker.client.push([{ queue, partition: 'p', payload: 'x'.repeat(100) }]);
      }
    };
    await Promise.all(Array.from({ length: 64 }, push));
    for (const share of [0, 0.1, 0.5, 0.9, 0.9999]) {
      const offset = Math.floor(appends * share);
      const { entries } = await post<Fetched>(broker, '/api/v1/fetch', {
        entries: [{ queue, partition: 'p', offset, maxBytes: 1 }],
      });
      at.push(entries[0].records[0].ts);
      const startedAt = performance.now();
      const found = await post<{ entries: { offset: number; ts: string }[] }>(broker, '/api/v1/fetch/offsets', {
        entries: [{ queue, partition: 'p', timestamp: entries[0].records[0].ts }],
      });
      // A walk over the appends would take many times as long, whatever else the machine has to do.
      assert.ok(performance.now() - startedAt < 1000);
      assert.deepEqual([found.entries[0].offset, found.entries[0].ts], [offset, at[at.length - 1]]);
    }
    assert.ok(Number((await broker.client.metrics())['sidecars']) > 1);
  });

  it('walks many partitions in slices and lists each once, while others are served', async (t) => {
    const broker = await BrokerProcess.start();
    t.after(() => broker.dispose());
    const queue = freshName('q');
    const partitions = sized(30_000, 1_000_000);
    for (let from = 0; from < partitions; from += 10_000) {
      await broker.client.push(
        Array.from({ length: 10_000 }, (_, i) => ({ queue, partition: `p${from + i}`, payload: 1 })),
      );
    }
    // All partitions of one push share its stamp, and since is inclusive: one push more sets them apart.
    await broker.client.push([{ queue, partition: 'p0', payload: 2 }]);
    const first = await post<Changed>(broker, '/api/v1/partitions/changed', { entries: [{ queue, limit: 1 }] });
    await broker.client.push([{ queue, partition: `p${partitions - 1}`, payload: 2 }]);
    const entry = { queue, since: first.safeTime };
    const startedAt = performance.now();
    const answer = await post<Changed>(broker, '/api/v1/partitions/changed', {
      entries: Array.from({ length: 64 }, () => entry),
    });
    for (const { partitions: listed, next } of answer.entries) {
      assert.deepEqual([listed.some(({ name }) => name === `p${partitions - 1}`), next], [true, null]);
      assert.ok(listed.length <= 2);
    }
    assert.ok(performance.now() - startedAt < 30_000);
    const names = new Set<string>();
    let listed = 0;
    for (let after: string | null = null; ; ) {
      const { entries }: Changed = await post<Changed>(broker, '/api/v1/partitions/changed', {
        entries: [{ queue, after }],
      });
      for (const { name } of entries[0].partitions) names.add(name);
      listed += entries[0].partitions.length;
      after = entries[0].next;
      if (after === null) break;
    }
    assert.deepEqual([names.size, listed], [partitions, partitions]);
  });
});
