/** The auditor of the demo finds what it must find: histories with planted faults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AuditedEvent, type AuditInput, audit } from '../../scripts/demo/audit.ts';

const stored = new Map([['p', ['a', 'b', 'c']]]);

/** `w1 started 0` and so on, one nanosecond apart; `w1 died`. */
function history(...lines: string[]): AuditedEvent[] {
  return lines.map((line, index) => {
    const [worker, kind, offset] = line.split(' ');
    if (kind === 'died') return { kind, atNs: index, group: 'g', worker };
    return {
      kind: kind as 'started' | 'completed' | 'failed',
      atNs: index,
      group: 'g',
      worker,
      partition: 'p',
      offset: Number(offset),
      transactionId: stored.get('p')?.[Number(offset)] ?? '',
    };
  });
}

function verdictOf(events: readonly AuditedEvent[], more: Partial<AuditInput> = {}) {
  const [verdict] = audit({ stored, groups: ['g'], events, deadLetters: [], failuresUntilDead: 2, ...more });
  return verdict;
}

const undisturbed = [
  'w1 started 0',
  'w1 completed 0',
  'w1 started 1',
  'w1 completed 1',
  'w2 started 2',
  'w2 completed 2',
];

test('an undisturbed history has no violations and nothing lost', () => {
  const verdict = verdictOf(history(...undisturbed));
  assert.deepEqual(verdict.violations, []);
  assert.equal(verdict.completed, 3);
  assert.equal(verdict.lost, 0);
  assert.equal(verdict.redeliveries, 0);
});

test('events that arrive out of turn are judged by their time', () => {
  assert.deepEqual(verdictOf(history(...undisturbed).reverse()).violations, []);
});

test('a message that comes back after its worker died is a redelivery and no violation', () => {
  const verdict = verdictOf(
    history(
      'w1 started 0',
      'w1 completed 0',
      'w1 started 1',
      'w1 died',
      'w2 started 0',
      'w2 completed 0',
      'w2 started 1',
      'w2 completed 1',
      'w2 started 2',
      'w2 completed 2',
    ),
  );
  assert.deepEqual(verdict.violations, []);
  assert.equal(verdict.redeliveries, 2);
});

test('a message handled before the one in front of it is a violation', () => {
  const verdict = verdictOf(history('w1 started 1', 'w1 completed 1', 'w1 started 0', 'w1 completed 0'));
  assert.equal(verdict.violations.length, 1);
});

test('a message handled after the one in front of it failed is a violation', () => {
  const verdict = verdictOf(history('w1 started 0', 'w1 failed 0', 'w1 started 1', 'w1 completed 1'));
  assert.equal(verdict.violations.length, 1);
});

test('two handlers at the same time in one partition are a violation', () => {
  const verdict = verdictOf(history('w1 started 0', 'w2 started 0', 'w1 completed 0', 'w2 completed 0'));
  assert.equal(verdict.violations.length, 1);
});

test('a message that was not stored there is a violation', () => {
  const events = history('w1 started 0').map((event) => ({ ...event, transactionId: 'z' }) as AuditedEvent);
  assert.equal(verdictOf(events).violations.length, 1);
});

test('the lane goes on behind a dead letter only after all its failures', () => {
  const deadLetters = [{ group: 'g', partition: 'p', offset: 0 }];
  const settled = history(
    'w1 started 0',
    'w1 failed 0',
    'w1 started 0',
    'w1 failed 0',
    'w1 started 1',
    'w1 completed 1',
  );
  const verdict = verdictOf(settled, { deadLetters });
  assert.deepEqual(verdict.violations, []);
  assert.equal(verdict.deadLetters, 1);
  assert.equal(verdict.lost, 1);
  const early = history('w1 started 0', 'w1 failed 0', 'w1 started 1', 'w1 completed 1');
  assert.equal(verdictOf(early, { deadLetters }).violations.length, 1);
});

test('a message that nobody completed is lost', () => {
  assert.equal(verdictOf(history('w1 started 0', 'w1 completed 0')).lost, 2);
});
