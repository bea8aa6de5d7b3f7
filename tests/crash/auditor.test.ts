/** The net itself: histories that a correct broker can produce pass, and each planted fault is caught by its rule. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Auditor } from './auditor.ts';
import type { AckItem, AckOperation, AckResult, AckStatus, DeadLetterRow, PopOperation } from './history.ts';

const leaseMs = 1000;

/** Writes histories in a few words. One queue `q`, group `g`; each step says when it began and when it was answered. */
class Script {
  private now = 0;
  readonly auditor = new Auditor({ nowMs: () => this.now });

  constructor() {
    this.auditor.declareQueue('q', { retryLimit: 1, filesDeadLetters: true });
    this.auditor.declareGroup('q', 'g', 'all');
  }

  at(ms: number): this {
    this.now = ms;
    return this;
  }

  /** Pushes ids to partition `p`, answered as queued from `offset` on. */
  push(began: number, ended: number, offset: number, ...ids: string[]): this {
    this.at(began);
    const items = ids.map((id) => ({ queue: 'q', partition: 'p', transactionId: id, payload: payloadOf(id) }));
    const push = this.auditor.beginPush(items);
    this.at(ended);
    const results = ids.map((id, i) => ({
      status: 'queued' as const,
      messageId: `m-${id}`,
      transactionId: id,
      offset: offset + i,
    }));
    this.auditor.endPush(push, results);
    return this;
  }

  duplicate(began: number, ended: number, offset: number, id: string): this {
    this.at(began);
    const push = this.auditor.beginPush([{ queue: 'q', partition: 'p', transactionId: id, payload: payloadOf(id) }]);
    this.at(ended);
    this.auditor.endPush(push, [{ status: 'duplicate', messageId: `m-${id}`, transactionId: id, offset }]);
    return this;
  }

  lostPush(began: number, ended: number, id: string, refused = false): this {
    this.at(began);
    const push = this.auditor.beginPush([{ queue: 'q', partition: 'p', transactionId: id, payload: payloadOf(id) }]);
    this.at(ended);
    if (refused) this.auditor.refuse(push);
    else this.auditor.lose(push);
    return this;
  }

  pop(began: number, ended: number, lease: string, offset: number, ids: string[], more: PopDetails = {}): this {
    this.at(began);
    const pop = this.beginPop(more);
    this.at(ended);
    const messages = ids.map((id, i) => ({
      partition: 'p',
      partitionId: '7',
      offset: offset + i,
      messageId: `m-${id}`,
      transactionId: id,
      payload: more.payload ?? payloadOf(id),
      createdAt: `2026-01-01T00:00:00.${String(offset + i).padStart(6, '0')}Z`,
      attempt: more.attempt ?? 1,
      leaseId: lease,
    }));
    this.auditor.endPop(pop, messages);
    return this;
  }

  lostPop(began: number, ended: number): this {
    this.at(began);
    const pop = this.beginPop({});
    this.at(ended);
    this.auditor.lose(pop);
    return this;
  }

  private beginPop(more: PopDetails): PopOperation {
    return this.auditor.beginPop({
      queue: 'q',
      partition: null,
      group: 'g',
      batch: more.batch ?? 100,
      partitions: 1,
      leaseMs,
      commitOnDelivery: more.commitOnDelivery ?? false,
    });
  }

  /** `items`: id and status, and what the answer says besides success. */
  ack(began: number, ended: number, lease: string, items: [string, AckStatus, Partial<AckResult>?][]): this {
    const ack = this.beginAck(began, lease, items);
    this.at(ended);
    const results = items.map(([, , answer]) => ({
      success: true,
      error: null,
      leaseReleased: true,
      deadLettered: false,
      noop: false,
      ...answer,
    }));
    this.auditor.endAck(ack, results);
    return this;
  }

  lostAck(began: number, ended: number, lease: string, items: [string, AckStatus][]): this {
    const ack = this.beginAck(began, lease, items);
    this.at(ended);
    this.auditor.lose(ack);
    return this;
  }

  private beginAck(began: number, lease: string, items: readonly [string, AckStatus, ...unknown[]][]): AckOperation {
    this.at(began);
    const acked: AckItem[] = items.map(([id, status]) => ({
      partitionId: '7',
      transactionId: id,
      leaseId: lease,
      status,
    }));
    return this.auditor.beginAck('g', acked);
  }

  extend(began: number, ended: number, lease: string, extensionMs: number, granted: boolean): this {
    this.at(began);
    const extension = this.auditor.beginExtend(lease, extensionMs);
    this.at(ended);
    this.auditor.endExtend(extension, granted);
    return this;
  }

  deadLetters(...rows: [number, string][]): this {
    const list: DeadLetterRow[] = rows.map(([offset, id]) => ({
      partition: 'p',
      group: 'g',
      offset,
      transactionId: id,
      messageId: `m-${id}`,
      payload: payloadOf(id),
    }));
    this.auditor.noteDeadLetters('q', list);
    return this;
  }

  drained(): this {
    this.auditor.declareDrained('q', 'g');
    return this;
  }

  passes(): void {
    assert.deepEqual(this.auditor.audit(), []);
  }

  fails(rule: string, text: RegExp): void {
    const findings = this.auditor.audit();
    const caught = findings.some((finding) => finding.startsWith(`${rule}:`) && text.test(finding));
    assert.ok(
      caught,
      `expected a finding of rule ${rule} that matches ${text}, got:\n${findings.join('\n') || 'none'}`,
    );
  }
}

interface PopDetails {
  readonly attempt?: number;
  readonly batch?: number;
  readonly payload?: string;
  readonly commitOnDelivery?: boolean;
}

function payloadOf(id: string): string {
  return `{"of":"${id}"}`;
}

function script(): Script {
  return new Script();
}

describe('histories that a correct broker can produce pass', () => {
  it('push, pop, ack, drained', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(20, 30, 'L1', 0, ['a', 'b'])
      .ack(40, 50, 'L1', [['b', 'completed']])
      .drained()
      .passes();
  });

  it('a push without an answer may be stored or not, and its repetition may be queued or duplicate', () => {
    script().lostPush(0, 10, 'a').duplicate(20, 30, 0, 'a').lostPush(40, 50, 'b').push(60, 70, 1, 'b').passes();
    script().lostPush(0, 10, 'a').passes();
  });

  it('an ack without an answer may have counted or not', () => {
    const common = (): Script =>
      script()
        .push(0, 10, 0, 'a', 'b')
        .pop(20, 30, 'L1', 0, ['a'], { batch: 1 })
        .lostAck(40, 50, 'L1', [['a', 'completed']]);
    common().pop(60, 70, 'L2', 1, ['b']).passes();
    common().pop(1100, 1110, 'L2', 0, ['a', 'b'], { attempt: 2 }).passes();
  });

  it('a lease that ended is given to another, with the next attempt', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .pop(1040, 1050, 'L2', 0, ['a'], { attempt: 2 })
      .ack(1060, 1070, 'L1', [['a', 'completed', { success: false, error: 'invalid or expired lease' }]])
      .passes();
  });

  it('a pop that got no answer explains a higher attempt', () => {
    script().push(0, 10, 0, 'a').lostPop(20, 30).pop(1100, 1110, 'L2', 0, ['a'], { attempt: 2 }).passes();
  });

  it('an extended lease may be acked after its first length, and a refused extend of an ended one is right', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .extend(500, 510, 'L1', 2000, true)
      .ack(2000, 2010, 'L1', [['a', 'completed']])
      .extend(2100, 2110, 'L1', 1000, false)
      .passes();
  });

  it('failed, failed, dead-lettered, and what comes behind it goes on', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(20, 30, 'L1', 0, ['a', 'b'])
      .ack(40, 50, 'L1', [['a', 'failed']])
      .pop(60, 70, 'L2', 0, ['a', 'b'], { attempt: 2 })
      .ack(80, 90, 'L2', [
        ['a', 'failed', { deadLettered: true }],
        ['b', 'retry'],
      ])
      .pop(100, 110, 'L3', 1, ['b'])
      .ack(120, 130, 'L3', [['b', 'completed']])
      .deadLetters([0, 'a'])
      .drained()
      .passes();
  });

  it('a repeated ack with the lease it released counts again', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .lostAck(40, 50, 'L1', [['a', 'completed']])
      .ack(5000, 5010, 'L1', [['a', 'completed']])
      .passes();
  });

  it('parked pops answered in any order do not overlap', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(1, 30, 'L1', 0, ['a'], { batch: 1 })
      .ack(40, 50, 'L1', [['a', 'completed']])
      .pop(2, 45, 'L2', 1, ['b'])
      .passes();
  });

  it('an option whose only change got no answer has its first value, or the new one', () => {
    for (const value of [0, 5]) {
      const s = script().at(0);
      s.auditor.lose(s.auditor.beginConfigure('q', 'retentionSeconds', 5));
      s.at(20).auditor.noteOption('q', 'retentionSeconds', { value, initial: 0, beganAtMs: 10 });
      s.passes();
    }
  });

  it('commit on delivery that got no answer loses what it took', () => {
    const s = script().push(0, 10, 0, 'a', 'b');
    s.at(20);
    const pop = s.auditor.beginPop({
      queue: 'q',
      partition: null,
      group: 'g',
      batch: 1,
      partitions: 1,
      leaseMs,
      commitOnDelivery: true,
    });
    s.at(30);
    s.auditor.lose(pop);
    s.pop(40, 50, '', 1, ['b'], { commitOnDelivery: true }).drained().passes();
  });
});

describe('a planted fault is caught', () => {
  it('an acknowledged record is gone', () => {
    script()
      .push(0, 10, 0, 'a')
      .push(11, 20, 1, 'b')
      .pop(30, 40, 'L1', 0, ['a'])
      .ack(50, 60, 'L1', [['a', 'completed']])
      .drained()
      .fails('kept', /offset 1, record b, was never delivered/);
  });

  it('an offset is assigned twice', () => {
    script()
      .push(0, 10, 0, 'a')
      .push(20, 30, 0, 'b')
      .fails('identity', /offset 0: assigned twice/);
  });

  it('a hole between offsets', () => {
    script()
      .push(0, 10, 0, 'a')
      .push(20, 30, 2, 'c')
      .pop(40, 50, 'L1', 0, ['a'])
      .ack(60, 70, 'L1', [['a', 'completed']])
      .pop(80, 90, 'L2', 2, ['c'])
      .drained()
      .fails('kept', /offset 1, a hole/);
  });

  it('offsets within one append are not consecutive', () => {
    const s = script().at(0);
    const item = (id: string) => ({ queue: 'q', partition: 'p', transactionId: id, payload: payloadOf(id) });
    const push = s.auditor.beginPush([item('a'), item('b')]);
    const result = (id: string, offset: number) => ({
      status: 'queued' as const,
      messageId: `m-${id}`,
      transactionId: id,
      offset,
    });
    s.at(10).auditor.endPush(push, [result('a', 0), result('b', 2)]);
    s.fails('gap', /offset 2 behind 0/);
  });

  it('a later push got an earlier place', () => {
    script()
      .push(0, 10, 1, 'b')
      .push(20, 30, 0, 'a')
      .fails('gap', /offset 0: pushed after/);
  });

  it('a transactionId is stored twice', () => {
    script()
      .push(0, 10, 0, 'a')
      .push(20, 30, 1, 'a')
      .fails('identity', /stored twice/);
  });

  it('a record that was lost comes back at another offset after a duplicate answer', () => {
    script()
      .push(0, 10, 0, 'a')
      .duplicate(20, 30, 3, 'a')
      .fails('identity', /also at offset 0/);
  });

  it('a refused push is delivered', () => {
    script()
      .lostPush(0, 10, 'a', true)
      .pop(20, 30, 'L1', 0, ['a'])
      .fails('invented', /without being refused/);
  });

  it('a refused push makes the next one a duplicate', () => {
    script()
      .lostPush(0, 10, 'a', true)
      .duplicate(20, 30, 0, 'a')
      .fails('invented', /without being refused/);
  });

  it('a record nobody pushed is delivered', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a', 'x'])
      .fails('invented', /nobody pushed it here/);
  });

  it('a payload is another one', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'], { payload: '{"of":"b"}' })
      .fails('identity', /not the payload/);
  });

  it('an acked record is delivered again', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .ack(40, 50, 'L1', [['a', 'completed']])
      .pop(60, 70, 'L2', 0, ['a'], { attempt: 2 })
      .fails('settled', /offset 0 was delivered/);
  });

  it('a record that an implicit ack has settled is delivered again', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(20, 30, 'L1', 0, ['a', 'b'])
      .ack(40, 50, 'L1', [['b', 'completed']])
      .pop(1100, 1110, 'L2', 1, ['b'])
      .fails('settled', /everything up to 1/);
  });

  it('a failed record is passed over', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(20, 30, 'L1', 0, ['a'], { batch: 1 })
      .ack(40, 50, 'L1', [['a', 'failed']])
      .pop(60, 70, 'L2', 1, ['b'])
      .fails('order', /nothing above -1 can have been settled/);
  });

  it('the last record vanishes without ever being settled', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .drained()
      .fails('kept', /nothing is left to deliver/);
  });

  it('two leases on one partition at once', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .pop(100, 110, 'L2', 0, ['a'], { attempt: 2 })
      .fails('holder', /while lease L1/);
  });

  it('a lease is given away although it was extended', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .extend(500, 510, 'L1', 2000, true)
      .pop(1500, 1510, 'L2', 0, ['a'], { attempt: 2 })
      .fails('holder', /while lease L1/);
  });

  it('a lease id is used again', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .pop(1100, 1110, 'L1', 0, ['a'], { attempt: 2 })
      .fails('holder', /second pop/);
  });

  it('an ack counts after its lease was given to another', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .pop(1100, 1110, 'L2', 0, ['a'], { attempt: 2 })
      .ack(1120, 1130, 'L1', [['a', 'completed']])
      .fails('holder', /came after it|had ended/);
  });

  it('a live lease is refused', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .ack(40, 50, 'L1', [
        ['a', 'completed', { success: false, error: 'invalid or expired lease', leaseReleased: false }],
      ])
      .fails('kept', /lease L1 was refused/);
  });

  it('an ended lease is revived, and a live one cannot be extended', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .extend(5000, 5010, 'L1', 1000, true)
      .fails('holder', /extended after/);
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .extend(100, 110, 'L1', 1000, false)
      .fails('kept', /could not be extended/);
  });

  it('an attempt that does not rise, and one that nothing explains', () => {
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .pop(1100, 1110, 'L2', 0, ['a'], { attempt: 1 })
      .fails('attempt', /after attempt 1 of the same head/);
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'], { attempt: 2 })
      .fails('attempt', /after 0 deliveries/);
  });

  it('dead letters that are missing, twice there, invented, or too early', () => {
    const filed = (): Script =>
      script()
        .push(0, 10, 0, 'a')
        .pop(20, 30, 'L1', 0, ['a'])
        .ack(40, 50, 'L1', [['a', 'dlq', { deadLettered: true }]]);
    filed()
      .deadLetters()
      .fails('kept', /is not in the list/);
    filed()
      .deadLetters([0, 'a'], [0, 'a'])
      .fails('identity', /dead-lettered twice/);
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .ack(40, 50, 'L1', [['a', 'completed']])
      .deadLetters([0, 'a'])
      .fails('invented', /no ack can have made it one/);
    script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .ack(40, 50, 'L1', [['a', 'failed', { deadLettered: true }]])
      .fails('invented', /before its time/);
  });

  it('an option falls back to an older value', () => {
    const s = script();
    const set = (began: number, ended: number, value: number): void => {
      s.at(began);
      const operation = s.auditor.beginConfigure('q', 'retentionSeconds', value);
      s.at(ended);
      s.auditor.endConfigure(operation);
    };
    set(0, 10, 1);
    set(20, 30, 2);
    s.at(50).auditor.noteOption('q', 'retentionSeconds', { value: 2, initial: 0, beganAtMs: 40 });
    s.passes();
    s.at(70).auditor.noteOption('q', 'retentionSeconds', { value: 1, initial: 0, beganAtMs: 60 });
    s.fails('kept', /retentionSeconds is 1/);
  });

  it('a group registered in mode new loses what was pushed afterwards', () => {
    const s = script();
    s.auditor.declareGroup('q', 'g', 'new');
    s.push(0, 10, 0, 'a')
      .pop(20, 30, '', 0, [])
      .push(40, 50, 1, 'b')
      .push(60, 70, 2, 'c')
      .pop(80, 90, 'L1', 2, ['c'])
      .ack(95, 96, 'L1', [['c', 'completed']])
      .drained();
    s.fails('kept', /offset 1, record b, was never delivered/);
    assert.equal(s.auditor.audit().filter((finding) => finding.includes('offset 0')).length, 0);
  });

  it('a pop answers more than was asked for, or a message of another partition behind the right one', () => {
    script()
      .push(0, 10, 0, 'a', 'b')
      .pop(20, 30, 'L1', 0, ['a', 'b'], { batch: 1 })
      .fails('bounds', /batch 1/);
    const s = script().push(0, 10, 0, 'a', 'b', 'c').at(20);
    s.pop(20, 30, 'L1', 1, ['b']).fails('order', /offset 1 was delivered/);
  });

  it('a story names what happened in the partition', () => {
    const s = script()
      .push(0, 10, 0, 'a')
      .pop(20, 30, 'L1', 0, ['a'])
      .ack(40, 50, 'L1', [['a', 'completed']]);
    const story = s.auditor.story('q', 'p').join('\n');
    for (const word of ['push id:a', 'offset 0 is a', 'g got 0-0', 'ack L1: 0 completed → ok released']) {
      assert.ok(story.includes(word), `${word} is missing in:\n${story}`);
    }
  });
});
