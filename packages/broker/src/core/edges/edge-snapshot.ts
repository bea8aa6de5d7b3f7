/**
 * Edge tables in a snapshot; no sections when there is no database.
 *
 *   edge-tables   JSON object: databases, tables with the rows they ever took in, last target, next number
 *   edge-known    JSON array of {table, id, source, target, stampUs}: ids of messages, by table and as they came
 *   edge-rows     rows of queues, by table number, partition and order: u32 table | u32 partition | 8 u32 and 2 f64 as in
 *                 edge-rows.ts
 *   edge-keyed    rows of tables with a schema, by table number and key: u32 table | u32 key length | u32 value length
 *                 | u32 checksum | f64 address | the key
 */
import { assert } from '../assert.ts';
import type { EdgeDatabaseRecord, EdgeTableRecord } from './edge-records.ts';
import { type EdgeBound, edgeRow } from './edge-rows.ts';
import { type EdgeState, type EdgeTable, keyBehind, rowsOf } from './edge-state.ts';
import type { KeyedRow } from './keyed-rows.ts';

const rowBytes = 8 + edgeRow.words * 4 + edgeRow.numbers * 8;
const keyedFixedBytes = 24;
const pieceRows = 16_384;

interface Piece {
  readonly name: string;
  readonly bytes: Uint8Array;
}

interface Tables {
  readonly databases: readonly EdgeDatabaseRecord[];
  readonly tables: readonly { readonly record: EdgeTableRecord; readonly appended: number }[];
  readonly lastTarget: readonly number[];
  readonly nextTableNumber: number;
}

interface Known {
  readonly table: number;
  readonly id: string;
  readonly source: number;
  readonly target: readonly number[];
  readonly stampUs: number;
}

export function* saveEdges(state: EdgeState): Generator<Piece> {
  if (state.databases.size === 0 && state.nextTableNumber === 1) return;
  const tables = [...state.tables.values()].sort((a, b) => a.record.number - b.record.number);
  const facts: Tables = {
    databases: [...state.databases.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    tables: tables.map(({ record, appended }) => ({ record, appended })),
    lastTarget: [...state.lastTarget],
    nextTableNumber: state.nextTableNumber,
  };
  yield jsonPiece('edge-tables', facts);
  for (const table of tables) {
    yield* knownPieces(table);
    yield* rowPieces(table);
    yield* keyedPieces(table);
  }
}

function jsonPiece(name: string, value: object): Piece {
  return { name, bytes: new TextEncoder().encode(JSON.stringify(value)) };
}

function* knownPieces({ record, known }: EdgeTable): Generator<Piece> {
  let piece: Known[] = [];
  for (const [id, { source, target, stampUs }] of known) {
    piece.push({ table: record.number, id, source, target: [...target], stampUs });
    if (piece.length < pieceRows) continue;
    yield jsonPiece('edge-known', piece);
    piece = [];
  }
  if (piece.length > 0) yield jsonPiece('edge-known', piece);
}

function* rowPieces({ record, sources }: EdgeTable): Generator<Piece> {
  for (const [source, rows] of [...sources].sort(([a], [b]) => a - b)) {
    let after: EdgeBound | null = null;
    do {
      const bytes = new Uint8Array(Math.min(rows.count, pieceRows) * rowBytes);
      const view = new DataView(bytes.buffer);
      let p = 0;
      after = rows.visit(after, pieceRows, (words, w, numbers, n) => {
        view.setUint32(p, record.number, true);
        view.setUint32(p + 4, source, true);
        p += 8;
        for (let i = 0; i < edgeRow.words; i++, p += 4) view.setUint32(p, words[w + i], true);
        for (let i = 0; i < edgeRow.numbers; i++, p += 8) view.setFloat64(p, numbers[n + i], true);
      });
      if (p > 0) yield { name: 'edge-rows', bytes: bytes.subarray(0, p) };
    } while (after !== null);
  }
}

function* keyedPieces({ record, edges }: EdgeTable): Generator<Piece> {
  let from: Uint8Array = new Uint8Array(0);
  for (let isLeft = edges.count > 0; isLeft; ) {
    const { rows, hasNext } = edges.page({ from, to: null }, pieceRows, Number.POSITIVE_INFINITY);
    yield { name: 'edge-keyed', bytes: keyedBytes(record.number, rows) };
    from = keyBehind(rows[rows.length - 1].key);
    isLeft = hasNext;
  }
}

function keyedBytes(table: number, rows: readonly KeyedRow[]): Uint8Array {
  const bytes = new Uint8Array(rows.reduce((sum, { key }) => sum + keyedFixedBytes + key.length, 0));
  const view = new DataView(bytes.buffer);
  let p = 0;
  for (const { key, length, checksum, address } of rows) {
    view.setUint32(p, table, true);
    view.setUint32(p + 4, key.length, true);
    view.setUint32(p + 8, length, true);
    view.setUint32(p + 12, checksum, true);
    view.setFloat64(p + 16, address, true);
    bytes.set(key, p + keyedFixedBytes);
    p += keyedFixedBytes + key.length;
  }
  return bytes;
}

/** Takes a section that begins with `edge-`; false when it is none of these. */
export function loadEdges(state: EdgeState, { name, bytes }: Piece): boolean {
  const json = (): unknown => JSON.parse(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  switch (name) {
    case 'edge-tables':
      loadTables(state, json() as Tables);
      return true;
    case 'edge-known':
      for (const { table, id, source, target, stampUs } of json() as readonly Known[]) {
        tableOf(state, table).known.set(id, { source, target: Uint32Array.from(target), stampUs });
      }
      return true;
    case 'edge-rows':
      loadRows(state, bytes);
      return true;
    case 'edge-keyed':
      loadKeyed(state, bytes);
      return true;
    default:
      return false;
  }
}

function loadTables(state: EdgeState, facts: Tables): void {
  for (const database of facts.databases) state.databases.set(database.name, database);
  for (const { record, appended } of facts.tables) state.addTable(record).appended = appended;
  state.lastTarget.set(facts.lastTarget);
  state.nextTableNumber = facts.nextTableNumber;
}

function tableOf(state: EdgeState, number: number): EdgeTable {
  const table = state.tables.get(number);
  assert(table !== undefined, 'rows belong to a known table');
  return table;
}

function loadRows(state: EdgeState, bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const words = new Uint32Array(edgeRow.words);
  const numbers = new Float64Array(edgeRow.numbers);
  for (let p = 0; p < bytes.length; ) {
    const table = tableOf(state, view.getUint32(p, true));
    const source = view.getUint32(p + 4, true);
    p += 8;
    for (let i = 0; i < edgeRow.words; i++, p += 4) words[i] = view.getUint32(p, true);
    for (let i = 0; i < edgeRow.numbers; i++, p += 8) numbers[i] = view.getFloat64(p, true);
    rowsOf(table, source).add(words, numbers);
  }
}

function loadKeyed(state: EdgeState, bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let p = 0; p < bytes.length; ) {
    const keyEnd = p + keyedFixedBytes + view.getUint32(p + 4, true);
    tableOf(state, view.getUint32(p, true)).edges.put(bytes.subarray(p + keyedFixedBytes, keyEnd), {
      address: view.getFloat64(p + 16, true),
      length: view.getUint32(p + 8, true),
      checksum: view.getUint32(p + 12, true),
    });
    p = keyEnd;
  }
}
