/** Reads of traces. There are at most `tracesMax` of them, and every read is a walk over all that are not too old. */
import { limits } from '@lanemq/protocol';
import { type BrokerIdentity, type BrokerState, idText, type TraceRecord, Traces, traceIdIndex } from '../core/mod.ts';
import type { PageOf, TraceNamePage, TraceNameRow, TracePage, TraceView } from './browse-views.ts';
import { partitionId } from './queue-views.ts';
import { type Walk, walkStepRows } from './walk.ts';

export function traceIdText(identity: BrokerIdentity, stampUs: number): string {
  return idText(identity, stampUs, 0, traceIdIndex);
}

function viewTrace(state: BrokerState, record: TraceRecord): TraceView {
  const { stampUs, ...facts } = record;
  const id = traceIdText(state.identity, stampUs);
  const lane = record.pid === 0 ? -1 : state.laneOf(record.pid);
  return {
    ...facts,
    id,
    traceId: record.traceId ?? id,
    queue: lane < 0 ? null : state.queueOfLane(lane).name,
    partition: lane < 0 ? null : state.partitions.nameText(lane),
    partitionId: lane < 0 ? null : partitionId(state, lane),
    createdAtUs: stampUs,
  };
}

/** The traces that are kept, newest first; `visit` says how much a trace cost. Some may be missed that are removed while a walk takes several turns. */
function* walkTraces(
  state: BrokerState,
  nowUs: number,
  visit: (record: TraceRecord) => number,
): Generator<number, undefined, undefined> {
  const expired = Traces.expiredBefore(nowUs);
  let beforeUs = Number.POSITIVE_INFINITY;
  for (;;) {
    // Places move when old ones go: the walk goes on behind the stamp it has seen last.
    let place = countBefore(state.traces, beforeUs) - 1;
    let cost = 0;
    for (; place >= 0 && cost < walkStepRows; place--) {
      const record = state.traces.at(place);
      if (record.stampUs < expired) return;
      cost += visit(record);
      beforeUs = record.stampUs;
    }
    if (place < 0) return;
    yield cost;
  }
}

/** How many traces are older than a stamp: they stand in the order of their stamps. */
function countBefore(traces: Traces, stampUs: number): number {
  let low = 0;
  let high = traces.count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (traces.at(middle).stampUs < stampUs) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function* pageOfTraces(
  state: BrokerState,
  nowUs: number,
  matches: (record: TraceRecord) => boolean,
  page: PageOf,
): Walk<TracePage> {
  const found: TraceRecord[] = [];
  let total = 0;
  yield* walkTraces(state, nowUs, (record) => {
    if (!matches(record)) return 1;
    if (total >= page.offset && found.length < page.limit) found.push(record);
    total++;
    return 1;
  });
  return { rows: found.map((record) => viewTrace(state, record)), total };
}

/** Most recently seen first; names beyond the `traceNamesCountedMax` seen last are left out. */
export function* pageOfNames(state: BrokerState, nowUs: number, page: PageOf): Walk<TraceNamePage> {
  const rows = new Map<string, TraceNameRow>();
  const messages = new Map<string, Set<string>>();
  yield* walkTraces(state, nowUs, (record) => {
    const message = `${record.pid}:${record.transactionId}`;
    for (const name of record.names) {
      let row = rows.get(name);
      if (row === undefined && rows.size === limits.traceNamesCountedMax) continue;
      if (row === undefined) {
        row = { name, traces: 0, messages: 0, lastSeenUs: record.stampUs };
        rows.set(name, row);
        messages.set(name, new Set());
      }
      row.traces++;
      messages.get(name)?.add(message);
    }
    return 1 + record.names.length;
  });
  for (const row of rows.values()) row.messages = messages.get(row.name)?.size ?? 0;
  // They were met from the newest trace back, and a map keeps the order of its rows.
  const all = [...rows.values()];
  return { rows: all.slice(page.offset, page.offset + page.limit), total: all.length };
}
