import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { limits } from '@lanemq/protocol';
import { BrokerState, StateLoader, saveState, type TraceRecord } from '../../src/core/mod.ts';

const dayUs = 24 * 3600 * 1_000_000;

function trace(stampUs: number, data = 'null'): TraceRecord {
  return {
    stampUs,
    pid: 0,
    transactionId: `t${stampUs}`,
    group: null,
    eventType: 'event',
    names: ['n'],
    data,
    worker: null,
    traceId: null,
    messageId: null,
  };
}

describe('traces', () => {
  it('go when they are seven days older than a new one, a bounded number each time', () => {
    const { traces } = new BrokerState();
    for (let i = 1; i <= 100; i++) traces.add(trace(i));
    traces.add(trace(8 * dayUs));
    assert.equal(traces.count, 37);
    traces.add(trace(8 * dayUs + 1));
    assert.deepEqual([traces.count, traces.at(0).stampUs], [2, 8 * dayUs]);
  });

  it('stay within their number and their bytes, and the oldest go first', () => {
    const { traces } = new BrokerState();
    for (let i = 1; i <= limits.tracesMax + 10; i++) traces.add(trace(i));
    assert.deepEqual([traces.count, traces.at(0).stampUs], [limits.tracesMax, 11]);
    const large = 'x'.repeat(limits.traceDataBytesMax);
    for (let i = 1; i <= 1000; i++) traces.add(trace(limits.tracesMax + 10 + i, large));
    assert.ok(traces.bytes <= limits.traceBytesMax);
    assert.equal(traces.at(traces.count - 1).stampUs, limits.tracesMax + 1010);
  });

  it('are the same in a state that was loaded from its pieces, also when more come', () => {
    const state = new BrokerState();
    for (let i = 1; i <= 5000; i++) state.trace(trace(i));
    const loader = new StateLoader();
    for (const piece of saveState(state)) loader.add({ name: piece.name, bytes: piece.bytes.slice() });
    const loaded = loader.finish();
    for (const each of [state, loaded]) each.trace(trace(8 * dayUs));
    assert.deepEqual([...loaded.traces.all()], [...state.traces.all()]);
    assert.deepEqual([loaded.traces.bytes, loaded.digest], [state.traces.bytes, state.digest]);
  });
});
