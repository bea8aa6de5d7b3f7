import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createHasher } from '../../src/codec/hasher.ts';
import { ByteWriter, hashPushItems, scanAckBody, scanPushBody, writeBlock } from '../../src/codec/mod.ts';
import { type DeliveredPiece, idText, type PopOutcome, type PushItems } from '../../src/core/mod.ts';
import { writeAckAnswer } from '../../src/http/ack-answer.ts';
import { isoTime } from '../../src/http/iso-time.ts';
import { PopAnswerWriter, Undecipherable } from '../../src/http/pop-answer.ts';
import { writePushAnswer } from '../../src/http/push-answer.ts';

const identity = { saltHigh: 0xab, saltLow: 0x1234_5678, seedHigh: 5, seedLow: 6 };
const hasher = await createHasher(5, 6);

interface Item {
  readonly queue: string;
  readonly transactionId?: string;
  readonly payload: unknown;
}

function itemsOf(items: readonly Item[]): PushItems {
  const scanned = scanPushBody(Buffer.from(JSON.stringify({ items })));
  assert.ok(scanned.ok);
  hashPushItems(scanned.items, hasher);
  return scanned.items;
}

/** The stored form of items as one append. */
function blockOf(
  items: readonly Item[],
  at: { pid: number; firstOffset: number; stampUs: number },
  encrypted = false,
): DeliveredPiece {
  const bytes = new Uint8Array(1024 * 1024);
  const space = {
    bytes,
    view: new DataView(bytes.buffer),
    position: 24,
    require: (length: number) => assert.ok(length < bytes.length),
  };
  const numbers = Int32Array.from(items.keys());
  writeBlock(space, at.pid, at.firstOffset, at.stampUs, itemsOf(items), numbers, 0, items.length, encrypted, hasher);
  return { bytes, view: space.view, at: 24, fromIndex: 0, toIndex: items.length };
}

const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const item = fc.record(
  { queue: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }), transactionId: text, payload: fc.jsonValue() },
  { requiredKeys: ['queue', 'payload'] },
);
const stamp = fc.integer({ min: 1, max: 4_000_000_000_000_000 });
const pid = fc.integer({ min: 1, max: 2 ** 40 - 1 });
const offset = fc.integer({ min: 0, max: 2 ** 53 - 100 });

function written(write: (writer: ByteWriter) => void): string {
  const writer = new ByteWriter(16);
  write(writer);
  return Buffer.from(writer.take()).toString('utf8');
}

describe('the answer of a push', () => {
  it('is what JSON.stringify makes of the outcome', () => {
    const outcome = fc.record({ item, status: fc.nat(2), pid, offset, stamp, index: fc.nat(1000) });
    fc.assert(
      fc.property(fc.array(outcome, { minLength: 1, maxLength: 5 }), (rows) => {
        const items = itemsOf(rows.map((row) => row.item));
        const answer = written((writer) =>
          writePushAnswer(writer, identity, items, {
            ok: true,
            count: rows.length,
            statuses: Uint8Array.from(rows, (row) => row.status),
            offsets: Float64Array.from(rows, (row) => row.offset),
            pids: Float64Array.from(rows, (row) => row.pid),
            stamps: Float64Array.from(rows, (row) => row.stamp),
            indexes: Uint32Array.from(rows, (row) => row.index),
            dues: null,
          }),
        );
        const expected = rows.map((row, index) => {
          const messageId = idText(identity, row.stamp, row.pid, row.index);
          return {
            index,
            message_id: messageId,
            transaction_id: row.item.transactionId || messageId,
            queueName: row.item.queue,
            status: ['queued', 'duplicate', 'error'][row.status],
            ...(row.status === 2 ? {} : { offset: row.offset }),
          };
        });
        assert.equal(answer, JSON.stringify(expected));
      }),
    );
  });
});

describe('the answer of an ack', () => {
  it('is what JSON.stringify makes of the outcome, with the texts of the contract', () => {
    const texts = [
      null,
      'partitionId is not a partition id',
      'no partition',
      'invalid or expired lease',
      'transaction is unresolvable, already committed, or acknowledgment is stale',
    ];
    const flag = fc.nat(1);
    const outcome = fc.record({ transactionId: text, error: fc.nat(4), released: flag, dlq: flag, noop: flag });
    fc.assert(
      fc.property(fc.array(outcome, { minLength: 1, maxLength: 5 }), (rows) => {
        const acknowledgments = rows.map(({ transactionId }) => ({ transactionId, partitionId: '1' }));
        const scanned = scanAckBody(Buffer.from(JSON.stringify({ acknowledgments })), identity);
        assert.ok(scanned.ok);
        const answer = written((writer) =>
          writeAckAnswer(writer, scanned.items, {
            ok: true,
            count: rows.length,
            errors: Uint8Array.from(rows, (row) => row.error),
            leaseReleased: Uint8Array.from(rows, (row) => row.released),
            deadLettered: Uint8Array.from(rows, (row) => row.dlq),
            noop: Uint8Array.from(rows, (row) => row.noop),
          }),
        );
        const expected = rows.map((row, index) => ({
          index,
          transactionId: row.transactionId,
          success: row.error === 0,
          error: texts[row.error],
          leaseReleased: row.released === 1,
          dlq: row.dlq === 1,
          noop: row.noop === 1,
        }));
        assert.equal(answer, JSON.stringify(expected));
      }),
    );
  });
});

const emptyPop: PopOutcome = {
  ok: true,
  queue: 'orders',
  group: 'billing',
  leaseStamp: 0,
  runs: [],
  conflation: false,
  conflationConflict: false,
  autopilot: null,
};

function popAnswer(outcome: PopOutcome, decrypt: ConstructorParameters<typeof PopAnswerWriter>[2] = null): string {
  return written((writer) => new PopAnswerWriter(writer, identity, decrypt).write(outcome));
}

describe('the answer of a pop', () => {
  it('is what JSON.stringify makes of the stored records, for any cut of the blocks', () => {
    const append = fc.record({
      items: fc.array(item, { minLength: 1, maxLength: 4 }),
      firstOffset: offset,
      stampUs: stamp,
    });
    const run = fc.record({
      pid,
      partition: text,
      attempt: fc.integer({ min: 1, max: 100 }),
      appends: fc.array(append, { minLength: 1, maxLength: 3 }),
      skipped: fc.nat(3),
    });
    const pop = fc.record({
      queue: text,
      group: text,
      leaseStamp: fc.oneof(fc.constant(0), stamp),
      runs: fc.array(run, { minLength: 1, maxLength: 3 }),
      conflation: fc.boolean(),
      conflationConflict: fc.boolean(),
      autopilot: fc.option(fc.record({ partitions: fc.nat(64), batch: fc.nat(10_000) })),
    });
    fc.assert(
      fc.property(pop, (made) => {
        const leaseId = made.leaseStamp === 0 ? '' : idText(identity, made.leaseStamp, 0, 0);
        const messages: object[] = [];
        const runs = made.runs.map((each) => {
          const pieces = each.appends.map((append, number) => {
            const piece = blockOf(append.items, { pid: each.pid, ...append });
            const fromIndex = number === 0 ? Math.min(each.skipped, append.items.length - 1) : 0;
            for (let i = fromIndex; i < append.items.length; i++) {
              const id = idText(identity, append.stampUs, each.pid, i);
              messages.push({
                id,
                transactionId: append.items[i].transactionId || id,
                traceId: null,
                data: append.items[i].payload,
                producerSub: null,
                createdAt: isoTime(append.stampUs),
                partitionId: String(each.pid),
                partition: each.partition,
                leaseId,
                consumerGroup: made.group,
                deliveryAttempt: each.attempt,
                offset: append.firstOffset + i,
              });
            }
            return { ...piece, fromIndex };
          });
          const names = Buffer.from(each.partition);
          return { pid: each.pid, names, nameStart: 0, nameEnd: names.length, attempt: each.attempt, pieces };
        });
        const expected = {
          success: true,
          queue: made.queue,
          partition: made.runs[0].partition,
          partitionId: String(made.runs[0].pid),
          leaseId,
          consumerGroup: made.group,
          messages,
          partitionsClaimed: runs.length,
          ...(made.conflation ? { conflation: true } : {}),
          ...(made.conflationConflict ? { conflationConflict: true } : {}),
          ...(made.autopilot === null ? {} : { autopilot: made.autopilot }),
        };
        assert.equal(popAnswer({ ok: true, ...made, runs }), JSON.stringify(expected));
      }),
    );
  });

  it('reports a conflation that delivers nothing', () => {
    assert.deepEqual(JSON.parse(popAnswer({ ...emptyPop, conflationConflict: true })), {
      success: true,
      queue: 'orders',
      partition: '',
      partitionId: '',
      leaseId: '',
      consumerGroup: 'billing',
      messages: [],
      partitionsClaimed: 0,
      conflationConflict: true,
    });
  });

  it('shows what was encrypted as it was sent, and nothing of it without the key', () => {
    const piece = blockOf([{ queue: 'q', payload: 'secret' }], { pid: 1, firstOffset: 0, stampUs: 1 }, true);
    const outcome = {
      ...emptyPop,
      runs: [{ pid: 1, names: Buffer.from('p'), nameStart: 0, nameEnd: 1, attempt: 1, pieces: [piece] }],
    };
    const decrypt = (bytes: Uint8Array, start: number, end: number) =>
      Buffer.from(Buffer.from(bytes.subarray(start, end)).toString().toUpperCase());
    assert.equal(JSON.parse(popAnswer(outcome, decrypt)).messages[0].data, 'SECRET');
    assert.throws(() => popAnswer(outcome), Undecipherable);
    const wrongKey = () => {
      throw new Error('the tag does not fit');
    };
    assert.throws(() => popAnswer(outcome, wrongKey), Undecipherable);
  });
});
