import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readPopRequest } from '../../src/http/pop-parameters.ts';
import { BadParameter, QueryParameters } from '../../src/http/query-parameters.ts';

describe('query parameters', () => {
  it('read what URLSearchParams writes', () => {
    const pairs = fc.uniqueArray(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' })), {
      selector: ([name]) => name,
    });
    fc.assert(
      fc.property(pairs, (written) => {
        const parameters = new QueryParameters(new URLSearchParams(written).toString());
        for (const [name, value] of written) {
          // A pair without name and value leaves no trace in a query.
          if (name !== '' || value !== '') assert.equal(parameters.text(name), value);
        }
      }),
    );
  });

  it('refuse a name that is given twice and what is not percent-encoded UTF-8', () => {
    for (const query of ['a=1&a=2', 'a=%', 'a=%zz', 'a=%ff', '%c0%80=1', 'a=%ed%a0%80']) {
      assert.throws(() => new QueryParameters(query), BadParameter, query);
    }
  });

  it('take only true and false for flags and only decimal digits for numbers', () => {
    const parameters = new QueryParameters('t=true&f=false&y=yes&e=&n=12&m=-3&x=1.5&h=0x1&big=99999999999999999999');
    assert.equal(parameters.flag('t'), true);
    assert.equal(parameters.flag('f'), false);
    assert.equal(parameters.flag('missing'), false);
    assert.equal(parameters.integer('n'), 12);
    assert.equal(parameters.integer('m'), -3);
    assert.equal(parameters.integer('big'), 1e20);
    assert.equal(parameters.integer('missing'), null);
    for (const name of ['y', 'e', 'n']) assert.throws(() => parameters.flag(name), BadParameter);
    for (const name of ['x', 'e', 'h', 't']) assert.throws(() => parameters.integer(name), BadParameter);
  });
});

const anywhere = { kind: 'queue', queue: 'q' } as const;
const pinned = { kind: 'partition', queue: 'q', partition: 'p' } as const;

function read(query: string, target: typeof anywhere | typeof pinned | null = anywhere) {
  return readPopRequest(target, query, 'new');
}

describe('the parameters of a pop', () => {
  it('have the defaults of the contract', () => {
    assert.deepEqual(read(''), {
      target: anywhere,
      group: '__QUEUE_MODE__',
      batch: null,
      partitions: null,
      wait: false,
      timeoutMs: 30_000,
      leaseSeconds: null,
      subscriptionMode: 'new',
      subscriptionFrom: null,
      commitOnDelivery: false,
      conflation: false,
      autopilot: false,
    });
    assert.equal(readPopRequest(anywhere, '', 'all').subscriptionMode, 'all');
  });

  for (const [query, field, expected] of [
    ['batch=7', 'batch', 7],
    ['batch=0', 'batch', 1],
    ['batch=-1', 'batch', 1],
    ['batch=1000000000', 'batch', 10_000],
    ['partitions=0', 'partitions', 1],
    ['partitions=65', 'partitions', 64],
    ['timeout=60001', 'timeoutMs', 60_000],
    ['timeout=1000000000000', 'timeoutMs', 60_000],
    ['timeout=0', 'timeoutMs', 0],
    ['wait=true', 'wait', true],
    ['leaseSeconds=0', 'leaseSeconds', null],
    ['leaseSeconds=-5', 'leaseSeconds', null],
    ['leaseSeconds=5', 'leaseSeconds', 5],
    ['leaseSeconds=1000000000000', 'leaseSeconds', 604_800],
    ['consumerGroup=', 'group', '__QUEUE_MODE__'],
    ['consumerGroup=a%2Fb', 'group', 'a/b'],
    ['subscriptionMode=NEW', 'subscriptionMode', 'new'],
    ['subscriptionMode=new-only', 'subscriptionMode', 'new'],
    ['subscriptionMode=new_only', 'subscriptionMode', 'new'],
    ['subscriptionMode=newonly', 'subscriptionMode', 'new'],
    ['subscriptionMode=from-the-start', 'subscriptionMode', 'all'],
    ['subscriptionFrom=now', 'subscriptionFrom', 'now'],
    ['subscriptionFrom=yesterday', 'subscriptionFrom', null],
    ['subscriptionFrom=1970-01-01T00:00:01Z', 'subscriptionFrom', 1_000_000],
    ['subscriptionFrom=1970-01-01T02:00:01%2B02:00', 'subscriptionFrom', 1_000_000],
    ['subscriptionFrom=1970-01-01T02:00:01+02:00', 'subscriptionFrom', 1_000_000],
    ['subscriptionFrom=1960-01-01', 'subscriptionFrom', 0],
    ['autoAck=true', 'commitOnDelivery', true],
    ['commitOnDelivery=true', 'commitOnDelivery', true],
    ['autoAck=false&commitOnDelivery=true', 'commitOnDelivery', true],
    ['autopilot=true', 'autopilot', true],
    ['autopilot=true&conflation=true&consumerGroup=g', 'autopilot', false],
    ['conflation=true&consumerGroup=g', 'conflation', true],
    ['unknown=1&batch=2', 'batch', 2],
  ] as const) {
    it(`take ${query} as ${field} ${JSON.stringify(expected)}`, () => {
      assert.equal(read(query)[field], expected);
    });
  }

  for (const [query, text] of [
    ['batch=1.5', /^batch must be a whole number/],
    ['batch=%2210%22', /^batch must be a whole number/],
    ['batch=1e9', /^batch must be a whole number/],
    ['batch=', /^batch must be a whole number/],
    ['timeout=-1', /^timeout must not be negative/],
    ['timeout=abc', /^timeout must be a whole number/],
    ['timeout=NaN', /^timeout must be a whole number/],
    ['wait=1', /^wait must be true or false/],
    ['wait=TRUE', /^wait must be true or false/],
    ['autoAck=yes', /^autoAck must be true or false/],
    ['batch=1&batch=2', /"batch" is given twice/],
    ['conflation=true', /conflation .*consumerGroup/],
    ['conflation=true&consumerGroup=g&autoAck=true', /conflation .*commitOnDelivery/],
  ] as const) {
    it(`refuse ${query}`, () => {
      assert.throws(() => read(query), { name: 'BadParameter', message: text });
    });
  }

  it('keep autopilot for pops of any partition only', () => {
    assert.equal(read('autopilot=true', pinned).autopilot, false);
    assert.equal(read('autopilot=true&namespace=n', null).autopilot, false);
  });

  it('never make a discover pop wait, and need a label for it', () => {
    const request = read('namespace=n&wait=true', null);
    assert.deepEqual([request.target, request.wait], [{ kind: 'discover', namespace: 'n', task: null }, false]);
    for (const query of ['', 'namespace=', 'namespace=&task=']) {
      assert.throws(() => read(query, null), { message: 'namespace or task is required' });
    }
  });
});
