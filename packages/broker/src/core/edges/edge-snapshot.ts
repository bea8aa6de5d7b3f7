/**
 * Edge tables in a snapshot; no sections when there is no database.
 *
 *   edge-tables   JSON object: databases, tables with the rows they ever took in, last target, next number
 *   edge-rows     rows, by table number, source and order: u32 table | u32 source | 8 u32 and 2 f64 as in edge-rows.ts
 */
import { assert } from '../assert.ts';
import type { EdgeDatabaseRecord, EdgeTableRecord } from './edge-records.ts';
import { edgeRow } from './edge-rows.ts';
import { type EdgeState, rowsOf } from './edge-state.ts';

const rowBytes = 8 + edgeRow.words * 4 + edgeRow.numbers * 8;
const pieceRows = 16_384;

interface Tables {
  readonly databases: readonly EdgeDatabaseRecord[];
  readonly tables: readonly { readonly record: EdgeTableRecord; readonly appended: number }[];
  readonly lastTarget: readonly number[];
  readonly nextTableNumber: number;
}

export function* saveEdges(state: EdgeState): Generator<{ readonly name: string; readonly bytes: Uint8Array }> {
  if (state.databases.size === 0) return;
  const tables = [...state.tables.values()].sort((a, b) => a.record.number - b.record.number);
  const facts: Tables = {
    databases: [...state.databases.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    tables: tables.map(({ record, appended }) => ({ record, appended })),
    lastTarget: [...state.lastTarget],
    nextTableNumber: state.nextTableNumber,
  };
  yield { name: 'edge-tables', bytes: new TextEncoder().encode(JSON.stringify(facts)) };
  for (const table of tables) {
    const sources = [...table.sources.keys()].sort((a, b) => a - b);
    for (const source of sources) {
      const rows = rowsOf(table, source);
      const bytes = new Uint8Array(rows.count * rowBytes);
      const view = new DataView(bytes.buffer);
      let p = 0;
      rows.visit((words, w, numbers, n) => {
        view.setUint32(p, table.record.number, true);
        view.setUint32(p + 4, source, true);
        p += 8;
        for (let i = 0; i < edgeRow.words; i++, p += 4) view.setUint32(p, words[w + i], true);
        for (let i = 0; i < edgeRow.numbers; i++, p += 8) view.setFloat64(p, numbers[n + i], true);
      });
      for (let at = 0; at < p; at += pieceRows * rowBytes) {
        yield { name: 'edge-rows', bytes: bytes.subarray(at, Math.min(p, at + pieceRows * rowBytes)) };
      }
    }
  }
}

export function loadEdgeTables(state: EdgeState, bytes: Uint8Array): void {
  const facts = JSON.parse(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)) as Tables;
  for (const database of facts.databases) state.databases.set(database.name, database);
  for (const { record, appended } of facts.tables) state.addTable(record).appended = appended;
  state.lastTarget.set(facts.lastTarget);
  state.nextTableNumber = facts.nextTableNumber;
}

export function loadEdgeRows(state: EdgeState, bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const words = new Uint32Array(edgeRow.words);
  const numbers = new Float64Array(edgeRow.numbers);
  for (let p = 0; p < bytes.length; ) {
    const table = state.tables.get(view.getUint32(p, true));
    assert(table !== undefined, 'rows belong to a known table');
    const source = view.getUint32(p + 4, true);
    p += 8;
    for (let i = 0; i < edgeRow.words; i++, p += 4) words[i] = view.getUint32(p, true);
    for (let i = 0; i < edgeRow.numbers; i++, p += 8) numbers[i] = view.getFloat64(p, true);
    rowsOf(table, source).add(words, numbers);
  }
}
