/** Tables with a schema: edges are inserted, scanned, and deleted by ranges of their index. */
import type { Refusal } from '../outcomes.ts';
import { type EdgeContext, refusal } from './edge-context.ts';
import { castEdgeValue, compareBytes, edgeKeyBytes, joinBytes } from './edge-keys.ts';
import { findTable } from './edge-metadata.ts';
import type { EdgePut } from './edge-records.ts';
import { BadScan, type EdgeFields, edgeFilter, scanRange, startKey } from './edge-scan.ts';
import { type EdgeIndex, type EdgeSchema, fieldType } from './edge-schema.ts';
import { type EdgeState, type EdgeTable, keyBehind } from './edge-state.ts';
import type { JsonNode } from './json-node.ts';
import type { KeyedPage, KeyRange } from './keyed-rows.ts';

export const edgeLimits = {
  mutationsMax: 1000,
  /** All of a body is taken apart at once, at many times its size. */
  bodyBytesMax: 4 * 1024 * 1024,
  scanDefault: 25,
  scanMax: 1000,
  /** Of one edge, as it is stored. */
  edgeBytesMax: 256 * 1024,
  /** Of its key: the ends and the index values. */
  keyBytesMax: 4096,
  pageBytesMax: 16 * 1024 * 1024,
} as const;

interface SchemaTable {
  readonly table: EdgeTable;
  readonly schema: EdgeSchema;
}

/** An active table that has a schema. */
function schemaTable(edges: EdgeState, database: string, name: string): SchemaTable | Refusal {
  const table = findTable(edges, database, name);
  if ('ok' in table) return table;
  const { schema, active } = table.record;
  if (schema === null) {
    return refusal(
      'bad_request',
      `\`${database}.${name}\` is a queue/v1 table: its messages are read and written there`,
    );
  }
  return active ? { table, schema } : refusal('conflict', `table ${database}.${name} is inactive`);
}

/** Casts, or says what is wrong; null = the value is absent. */
class EdgeReader {
  readonly #schema: EdgeSchema;
  /** Where in the request the edge stands. */
  readonly #at: string;
  readonly #edge: ReadonlyMap<string, JsonNode>;
  readonly #properties: ReadonlyMap<string, JsonNode>;

  constructor(schema: EdgeSchema, number: number, edge: JsonNode | undefined) {
    this.#schema = schema;
    this.#at = `mutations[${number}].edge`;
    if (edge?.kind !== 'object') throw new BadScan(`${this.#at} must be an object`);
    this.#edge = edge.members;
    const properties = edge.members.get('properties');
    if (properties !== undefined && properties.kind !== 'object' && properties.kind !== 'null') {
      throw new BadScan(`${this.#at}.properties must be an object`);
    }
    this.#properties = properties?.kind === 'object' ? properties.members : new Map();
    for (const name of this.#properties.keys()) {
      if (!schema.properties.some((property) => property.name === name)) {
        throw new BadScan(`${this.#at}.properties.${name} is no property of the table`);
      }
    }
  }

  field(name: string): string | null {
    const property = this.#schema.properties.find((each) => each.name === name);
    const node = property === undefined ? this.#edge.get(name) : this.#properties.get(name);
    const path = property === undefined ? `${this.#at}.${name}` : `${this.#at}.properties.${name}`;
    if (node === undefined || node.kind === 'null') {
      if (property?.nullable === true) return null;
      throw new BadScan(`${path} is missing`);
    }
    const type = fieldType(this.#schema, name);
    const stored = type === undefined ? null : castEdgeValue(type, node);
    if (stored === null) throw new BadScan(`${path} must be of type ${type}`);
    return stored;
  }
}

const encoder = new TextEncoder();

/** The edge as it is stored and shown: JSON text without the braces around it. */
function edgeText(schema: EdgeSchema, reader: EdgeReader): string {
  const properties = schema.properties.map(({ name }) => `${JSON.stringify(name)}:${reader.field(name) ?? 'null'}`);
  const [version, source, target] = ['version', 'source', 'target'].map((name) => reader.field(name));
  return `"version":${version},"source":${source},"target":${target},"properties":{${properties.join(',')}}`;
}

function edgeKey(schema: EdgeSchema, index: EdgeIndex, reader: EdgeReader): Uint8Array {
  const part = (name: string, order: 'ASC' | 'DESC'): Uint8Array =>
    edgeKeyBytes(fieldType(schema, name) ?? 'STRING', reader.field(name), order);
  const [start, other] = schema.direction === 'OUT' ? ['source', 'target'] : ['target', 'source'];
  const fields = index.fields.map(({ field, order }) => part(field, order));
  return joinBytes([part(start, 'ASC'), ...fields, part(other, 'ASC')]);
}

export interface InsertOutcome {
  /** Source and target of each mutation, in order, as JSON text. */
  readonly edges: readonly { readonly source: string; readonly target: string }[];
}

/** Inserts all edges or none. */
export function decideInsertEdges(
  context: EdgeContext,
  database: string,
  name: string,
  mutations: readonly JsonNode[],
): InsertOutcome | Refusal {
  const found = schemaTable(context.edges, database, name);
  if ('ok' in found) return found;
  const { table, schema } = found;
  const [index] = schema.indexes;
  if (index === undefined) return refusal('bad_request', 'the table has no index: nothing of an edge would be stored');
  const puts: EdgePut[] = [];
  const edges: { source: string; target: string }[] = [];
  try {
    mutations.forEach((mutation, number) => {
      const members = mutation.kind === 'object' ? mutation.members : new Map<string, JsonNode>();
      const type = members.get('type');
      if (type?.kind !== 'string' || type.text !== 'INSERT') {
        throw new BadScan(`mutations[${number}].type must be INSERT: edges of an immutable table do not change`);
      }
      const reader = new EdgeReader(schema, number, members.get('edge'));
      const put = { key: edgeKey(schema, index, reader), value: encoder.encode(edgeText(schema, reader)) };
      if (put.key.length > edgeLimits.keyBytesMax || put.value.length > edgeLimits.edgeBytesMax) {
        const { keyBytesMax, edgeBytesMax } = edgeLimits;
        throw new BadScan(
          `mutations[${number}] is too large: at most ${keyBytesMax} bytes of key and ${edgeBytesMax} bytes in all`,
        );
      }
      puts.push(put);
      edges.push({ source: reader.field('source') ?? '', target: reader.field('target') ?? '' });
    });
  } catch (error) {
    if (!(error instanceof BadScan)) throw error;
    return refusal('bad_request', error.message);
  }
  if (puts.length > 0) context.journal.edgesPut(table.record.number, context.nowUs, puts);
  return { edges };
}

export interface ScanCommand {
  readonly database: string;
  readonly table: string;
  readonly index: string;
  readonly start: string;
  readonly direction: 'OUT' | 'IN';
  readonly limit: number;
  readonly ranges: string | null;
}

export interface ScanOutcome {
  readonly page: KeyedPage;
  /** Which of the rows are shown, told by what is stored for them; null = all. */
  readonly filter: ((fields: EdgeFields) => boolean) | null;
}

interface Scan extends SchemaTable {
  /** Null: the table stores no rows in this direction. */
  readonly range: KeyRange | null;
  readonly start: Uint8Array;
}

function scanOf(edges: EdgeState, command: ScanCommand): Scan | Refusal {
  const found = schemaTable(edges, command.database, command.table);
  if ('ok' in found) return found;
  const { schema } = found;
  const index = schema.indexes.find((each) => each.index === command.index);
  if (index === undefined) {
    return refusal('bad_request', `no index \`${command.index}\` on \`${command.database}.${command.table}\``);
  }
  if (command.direction !== schema.direction) return { ...found, range: null, start: new Uint8Array(0) };
  const start = startKey(schema, command.start);
  return { ...found, start, range: scanRange(schema, index, start, command.ranges) };
}

function heedingBadScan<Outcome>(run: () => Outcome | Refusal): Outcome | Refusal {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof BadScan)) throw error;
    return refusal('bad_request', error.message);
  }
}

const noRows: KeyedPage = { rows: [], hasNext: false };

/** @param after key of the row to go on behind: it takes the place of the lower bound of the ranges. */
export function decideScan(
  edges: EdgeState,
  command: ScanCommand & { readonly after: Uint8Array | null; readonly filters: string | null },
): ScanOutcome | Refusal {
  return heedingBadScan(() => {
    const scan = scanOf(edges, command);
    if ('ok' in scan) return scan;
    const { range, start, table, schema } = scan;
    const filter = command.filters === null ? null : edgeFilter(schema, command.filters);
    if (range === null) return { page: noRows, filter };
    const { after } = command;
    if (after !== null && compareBytes(after.subarray(0, start.length), start) !== 0) {
      throw new BadScan('offset is not one that a scan of this start gave');
    }
    const from = after === null ? range.from : keyBehind(after);
    return { page: table.edges.page({ from, to: range.to }, command.limit, edgeLimits.pageBytesMax), filter };
  });
}

export function decideScanDelete(context: EdgeContext, command: ScanCommand): { readonly deleted: number } | Refusal {
  return heedingBadScan(() => {
    const scan = scanOf(context.edges, command);
    if ('ok' in scan) return scan;
    const { range, table } = scan;
    const deleted = range === null ? 0 : table.edges.countIn(range, command.limit);
    if (range !== null && deleted > 0) context.journal.edgesDeleted(table.record.number, range, deleted);
    return { deleted };
  });
}
