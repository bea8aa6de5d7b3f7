/** What an edge table is made of, and which tables may be made. */
import type { Refusal } from '../outcomes.ts';
import { type EdgeType, edgeTypes, type SortOrder } from './edge-keys.ts';

export interface EdgeProperty {
  readonly name: string;
  readonly type: EdgeType;
  readonly nullable: boolean;
  readonly comment: string;
}

export interface EdgeEnd {
  readonly type: 'LONG' | 'STRING';
  readonly comment: string;
}

export interface EdgeIndex {
  readonly index: string;
  readonly fields: readonly { readonly field: string; readonly order: SortOrder }[];
}

/** As clients give it and get it back. */
export interface EdgeSchema {
  readonly type: 'IMMUTABLE_EDGE';
  readonly source: EdgeEnd;
  readonly target: EdgeEnd;
  readonly properties: readonly EdgeProperty[];
  /** OUT: rows are found by their source; IN: by their target. */
  readonly direction: 'OUT' | 'IN';
  readonly indexes: readonly EdgeIndex[];
  readonly groups: readonly never[];
}

export const edgeTableLimits = {
  databasesMax: 1000,
  tablesMax: 10_000,
  propertiesMax: 100,
  indexFieldsMax: 8,
  commentLengthMax: 1000,
  /** Of a schema as JSON text: the schemas of all tables fit into one answer. */
  schemaLengthMax: 16 * 1024,
} as const;

/** Names that an index field may have besides those of properties. */
const systemTypes = new Map<string, EdgeType>([['version', 'LONG']]);

/** The type of an index field or of what a filter names; undefined when the table has none of that name. */
export function fieldType(schema: EdgeSchema, field: string): EdgeType | undefined {
  if (field === 'source') return schema.source.type;
  if (field === 'target') return schema.target.type;
  return systemTypes.get(field) ?? schema.properties.find(({ name }) => name === field)?.type;
}

type Json = Readonly<Record<string, unknown>>;

class BadSchema extends Error {
  override readonly name = 'BadSchema';
}

function fail(message: string): never {
  throw new BadSchema(message);
}

function object(value: unknown, what: string): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  return fail(`${what} must be an object`);
}

function array(value: unknown, what: string): readonly unknown[] {
  return Array.isArray(value) ? value : fail(`${what} must be an array`);
}

function comment(value: unknown, what: string): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : fail(`the comment of ${what} must be a string`);
}

function end(value: unknown, what: 'source' | 'target'): EdgeEnd {
  const { type, comment: text } = object(value, `schema.${what}`) as { type?: unknown; comment?: unknown };
  const upper = typeof type === 'string' ? type.toUpperCase() : '';
  if (upper !== 'LONG' && upper !== 'STRING') return fail(`schema.${what}.type must be LONG or STRING`);
  return { type: upper, comment: comment(text, what) };
}

const fieldNameRule = /^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/;

function property(value: unknown): EdgeProperty {
  const given = object(value, 'each property') as {
    name?: unknown;
    type?: unknown;
    nullable?: unknown;
    comment?: unknown;
  };
  const { name, type, nullable = true } = given;
  if (typeof name !== 'string' || !fieldNameRule.test(name)) {
    return fail(`the name of a property must match ${fieldNameRule.source}`);
  }
  const upper = typeof type === 'string' ? type.toUpperCase() : '';
  const known = edgeTypes.find((each) => each === upper);
  if (known === undefined) return fail(`the type of property ${name} must be one of ${edgeTypes.join(', ')}`);
  if (typeof nullable !== 'boolean') return fail(`nullable of property ${name} must be true or false`);
  return { name, type: known, nullable, comment: comment(given.comment, `property ${name}`) };
}

function index(value: unknown): EdgeIndex {
  const given = object(value, 'each index') as { index?: unknown; fields?: unknown };
  const { index: name } = given;
  if (typeof name !== 'string' || !fieldNameRule.test(name)) {
    return fail(`the name of an index must match ${fieldNameRule.source}`);
  }
  const fields = array(given.fields, `fields of index ${name}`).map((each) => {
    const { field, order = 'ASC' } = object(each, `each field of index ${name}`) as {
      field?: unknown;
      order?: unknown;
    };
    if (typeof field !== 'string') return fail(`each field of index ${name} needs a field`);
    if (order !== 'ASC' && order !== 'DESC') return fail(`the order of field ${field} must be ASC or DESC`);
    return { field, order } as const;
  });
  if (fields.length === 0 || fields.length > edgeTableLimits.indexFieldsMax) {
    return fail(`index ${name} must have 1..${edgeTableLimits.indexFieldsMax} fields`);
  }
  return { index: name, fields };
}

/** Reads a schema, or says what is wrong with it. */
export function readEdgeSchema(value: unknown): EdgeSchema | Refusal {
  try {
    return schemaOf(value);
  } catch (error) {
    if (!(error instanceof BadSchema)) throw error;
    return { ok: false, code: 'bad_request', message: error.message };
  }
}

function schemaOf(value: unknown): EdgeSchema {
  const given = object(value, 'schema') as { [Name in keyof EdgeSchema]?: unknown };
  if (given.type !== 'IMMUTABLE_EDGE') fail('schema.type must be IMMUTABLE_EDGE: there are no other tables here');
  const { direction } = given;
  if (direction !== 'OUT' && direction !== 'IN') {
    return fail('schema.direction must be OUT or IN: an immutable table stores one row per edge');
  }
  const properties = array(given.properties ?? [], 'schema.properties').map(property);
  if (properties.length > edgeTableLimits.propertiesMax) {
    fail(`schema.properties has more than ${edgeTableLimits.propertiesMax} entries`);
  }
  const names = new Set(properties.map(({ name }) => name));
  if (names.size < properties.length) fail('schema.properties names a property twice');
  for (const name of ['version', 'source', 'target']) {
    if (names.has(name)) fail(`${name} is no name for a property: every edge has one already`);
  }
  const indexes = array(given.indexes ?? [], 'schema.indexes').map(index);
  if (indexes.length > 1) fail('an immutable table has at most one index: each edge is stored once');
  if (given.groups !== undefined && array(given.groups, 'schema.groups').length > 0) {
    fail('schema.groups must be empty: groups are not offered');
  }
  const schema: EdgeSchema = {
    type: 'IMMUTABLE_EDGE',
    source: end(given.source, 'source'),
    target: end(given.target, 'target'),
    properties,
    direction,
    indexes,
    groups: [],
  };
  for (const { field } of indexes[0]?.fields ?? []) {
    const type = fieldType(schema, field);
    if (type === undefined) fail(`index field ${field} is no property of the table`);
    if (type === 'BYTES') fail(`index field ${field} must not be BYTES: they have no order`);
  }
  const { length } = JSON.stringify(schema);
  const { schemaLengthMax } = edgeTableLimits;
  if (length > schemaLengthMax) fail(`schema has ${length} characters as JSON, at most ${schemaLengthMax} are stored`);
  return schema;
}

/** What is wrong with replacing a schema; null when the new one only adds nullable properties. */
export function refuseSchemaChange(before: EdgeSchema, after: EdgeSchema): string | null {
  const old = new Set(before.properties.map(({ name }) => name));
  const added = after.properties.filter(({ name }) => !old.has(name));
  if (added.some(({ nullable }) => !nullable)) return 'a property that is added must be nullable';
  const kept = after.properties.filter(({ name }) => old.has(name));
  const rest = (schema: EdgeSchema, properties: readonly EdgeProperty[]): string =>
    JSON.stringify([
      [schema.source.type, schema.target.type, schema.direction, schema.indexes],
      properties.map(({ name, type, nullable }) => [name, type, nullable]),
    ]);
  if (rest(before, before.properties) === rest(after, kept)) return null;
  return 'a schema may only be changed by adding nullable properties behind those it has';
}
