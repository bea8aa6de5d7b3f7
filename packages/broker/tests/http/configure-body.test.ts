import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { queueOptionTable } from '@lanemq/protocol';
import { readConfigureBody } from '../../src/http/configure-body.ts';

function accepted(body: unknown) {
  const read = readConfigureBody(body);
  assert.ok(read.ok, read.ok ? '' : read.message);
  return read.request;
}

describe('the body of configure', () => {
  it('takes options from their object, or from the top level when there is none', () => {
    const expected = {
      queue: 'q',
      namespace: null,
      task: null,
      mode: 'merge',
      options: { leaseTime: 30, retryLimit: 5 },
    };
    assert.deepEqual(accepted({ queue: 'q', options: { leaseTime: 30, retryLimit: 5 } }), expected);
    assert.deepEqual(accepted({ queue: 'q', leaseTime: 30, retryLimit: 5 }), expected);
    assert.deepEqual(accepted({ queue: 'q', leaseTime: 1, options: {} }).options, {});
  });

  it('tells a missing option from one that is null', () => {
    assert.deepEqual(accepted({ queue: 'q', options: { leaseTime: null } }).options, { leaseTime: null });
  });

  it('ignores unknown options and takes empty labels as not sent', () => {
    const request = accepted({ queue: 'q', namespace: '', task: 't', mode: 'replace', options: { leasetime: 1 } });
    assert.deepEqual(request, { queue: 'q', namespace: null, task: 't', mode: 'replace', options: {} });
  });

  it('knows maxSize by both names', () => {
    assert.deepEqual(accepted({ queue: 'q', options: { maxQueueSize: 5 } }).options, { maxSize: 5 });
    assert.deepEqual(accepted({ queue: 'q', options: { maxSize: 0, maxQueueSize: 5 } }).options, { maxSize: 5 });
    assert.deepEqual(accepted({ queue: 'q', options: { maxSize: 5, maxQueueSize: 0 } }).options, { maxSize: 5 });
    assert.deepEqual(accepted({ queue: 'q', options: { maxSize: 5, maxQueueSize: 5 } }).options, { maxSize: 5 });
    assert.ok(!readConfigureBody({ queue: 'q', options: { maxSize: 5, maxQueueSize: 6 } }).ok);
  });

  it('clamps minPopWaitTime, as the contract says', () => {
    assert.deepEqual(accepted({ queue: 'q', minPopWaitTime: 70_000 }).options, { minPopWaitTime: 60_000 });
    assert.deepEqual(accepted({ queue: 'q', minPopWaitTime: -1 }).options, { minPopWaitTime: 0 });
  });

  it('accepts every option at its default', () => {
    const options = Object.fromEntries(Object.entries(queueOptionTable).map(([name, facts]) => [name, facts.default]));
    assert.deepEqual(accepted({ queue: 'q', options }).options, options);
  });

  for (const [body, text] of [
    [undefined, /^the body must be a JSON object$/],
    [[], /^the body must be a JSON object$/],
    ['q', /^the body must be a JSON object$/],
    [{}, /^queue is required/],
    [{ queue: '' }, /^queue is required/],
    [{ queue: 5 }, /^queue is required/],
    [{ queue: 'q', mode: 'append' }, /^mode must be "merge" or "replace", got append$/],
    [{ queue: 'q', mode: 3 }, /^mode must be "merge" or "replace", got 3$/],
    [{ queue: 'q', namespace: 3 }, /^namespace must be a string$/],
    [{ queue: 'q', options: [] }, /^options must be an object$/],
    [{ queue: 'q', options: 'x' }, /^options must be an object$/],
    [{ queue: 'q', options: { leaseTime: '30' } }, /^leaseTime must be an integer$/],
    [{ queue: 'q', options: { leaseTime: 1.5 } }, /^leaseTime must be an integer$/],
    [{ queue: 'q', options: { leaseTime: Number.POSITIVE_INFINITY } }, /^leaseTime must be an integer$/],
    [{ queue: 'q', options: { leaseTime: true } }, /^leaseTime must be an integer$/],
    [{ queue: 'q', options: { retryLimit: -1 } }, /^retryLimit must be from 0 to 1000000, got -1$/],
    [{ queue: 'q', options: { retentionSeconds: -1 } }, /^retentionSeconds must be from 0/],
    [{ queue: 'q', options: { deadLetterQueue: 1 } }, /^deadLetterQueue must be a boolean$/],
    [{ queue: 'q', options: { encryptionEnabled: 'true' } }, /^encryptionEnabled must be a boolean$/],
    [{ queue: 'q', options: { retentionSinkHold: 5 } }, /^retentionSinkHold must be a string$/],
    [{ queue: 'q', options: { retentionSinkHold: 'a b' } }, /^retentionSinkHold must be at most 64/],
    [{ queue: 'q', options: { retentionSinkHoldMaxSeconds: 59 } }, /^retentionSinkHoldMaxSeconds must be 0 or at/],
  ] as const) {
    it(`refuses ${JSON.stringify(body)}`, () => {
      const read = readConfigureBody(body);
      assert.ok(!read.ok);
      assert.match(read.message, text);
    });
  }
});
