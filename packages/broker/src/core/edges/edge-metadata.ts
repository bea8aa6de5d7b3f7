/** Databases and tables: made, changed and deleted. */
import type { Refusal } from '../outcomes.ts';
import { type EdgeContext, edgeNameRule, refusal, storageRule } from './edge-context.ts';
import type { EdgeDatabaseRecord, EdgeTableMode, EdgeTableRecord } from './edge-records.ts';
import { type EdgeSchema, edgeTableLimits, readEdgeSchema, refuseSchemaChange } from './edge-schema.ts';
import type { EdgeState, EdgeTable } from './edge-state.ts';

const { commentLengthMax, databasesMax, tablesMax } = edgeTableLimits;

function refuseComment(comment: string): Refusal | null {
  if (comment.length <= commentLengthMax) return null;
  return refusal('bad_request', `comment has ${comment.length} characters, at most ${commentLengthMax} are stored`);
}

export function decideCreateDatabase(
  context: EdgeContext,
  name: string,
  comment: string,
): EdgeDatabaseRecord | Refusal {
  const { edges, journal, nowUs } = context;
  if (!edgeNameRule.test(name)) return refusal('bad_request', `database must match ${edgeNameRule.source}`);
  const refused = refuseComment(comment);
  if (refused !== null) return refused;
  if (edges.databases.has(name)) return refusal('conflict', `database ${name} exists`);
  if (edges.databases.size >= databasesMax)
    return refusal('conflict', `there are ${databasesMax} databases, the limit`);
  const record = { name, active: true, comment, createdAtUs: nowUs };
  journal.database(record);
  return record;
}

export function findDatabase(edges: EdgeState, name: string): EdgeDatabaseRecord | Refusal {
  return edges.databases.get(name) ?? refusal('not_found', `no database ${name}`);
}

/** Absent members stay as they are. */
export function decideChangeDatabase(
  context: EdgeContext,
  name: string,
  change: { readonly active?: boolean; readonly comment?: string },
): EdgeDatabaseRecord | Refusal {
  const found = findDatabase(context.edges, name);
  if ('ok' in found) return found;
  const changed = { ...found, ...change };
  const refused = refuseComment(changed.comment);
  if (refused !== null) return refused;
  if (changed.active !== found.active || changed.comment !== found.comment) context.journal.database(changed);
  return changed;
}

export function decideDeleteDatabase(context: EdgeContext, name: string): EdgeDatabaseRecord | Refusal {
  const found = findDatabase(context.edges, name);
  if ('ok' in found) return found;
  if (found.active) return refusal('bad_request', `database ${name} is active: deactivate it before it is deleted`);
  if (context.edges.tablesOf(name).length > 0) {
    return refusal('bad_request', `database ${name} has tables: delete them first`);
  }
  context.journal.databaseDeleted({ name });
  return found;
}

/** Why no table of this name can be made; null when one can. `what`: how its maker calls it. */
export function refuseNewTable(
  edges: EdgeState,
  what: 'queue' | 'table',
  { database, name, storage }: { readonly database: string; readonly name: string; readonly storage: string },
): Refusal | null {
  if (!edgeNameRule.test(name)) return refusal('bad_request', `${what} must match ${edgeNameRule.source}`);
  if (!storageRule.test(storage)) return refusal('bad_request', `storage must match ${storageRule.source}`);
  const found = edges.databases.get(database);
  if (found === undefined || !found.active) {
    return refusal('bad_request', `ddl create failed: namespace \`${database}\` is unknown or inactive`);
  }
  if (edges.find(database, name) !== undefined) return refusal('conflict', `${what} ${database}.${name} exists`);
  if (edges.tables.size >= tablesMax) return refusal('conflict', `there are ${tablesMax} tables and queues, the limit`);
  return null;
}

export function decideCreateTable(
  context: EdgeContext,
  command: {
    readonly database: string;
    readonly name: string;
    readonly schema: unknown;
    readonly storage: string;
    readonly mode: EdgeTableMode;
    readonly comment: string;
  },
): EdgeTableRecord | Refusal {
  const { edges, journal, nowUs } = context;
  const { database, name, storage, mode, comment } = command;
  const schema = readEdgeSchema(command.schema);
  if ('ok' in schema) return schema;
  const refused = refuseComment(comment) ?? refuseNewTable(edges, 'table', command);
  if (refused !== null) return refused;
  const record = {
    number: edges.nextTableNumber,
    database,
    name,
    storage,
    active: true,
    comment,
    mode,
    createdAtUs: nowUs,
    queue: null,
    schema,
  };
  journal.table(record);
  return record;
}

export function findTable(edges: EdgeState, database: string, name: string): EdgeTable | Refusal {
  return edges.find(database, name) ?? refusal('not_found', `no table ${database}.${name}`);
}

export function listTables(edges: EdgeState, database: string): readonly EdgeTableRecord[] | Refusal {
  const found = findDatabase(edges, database);
  return 'ok' in found ? found : edges.tablesOf(database).map(({ record }) => record);
}

/** Absent members stay as they are. The settings of a queue are not in its comment, so that nothing here ends it. */
export function decideChangeTable(
  context: EdgeContext,
  database: string,
  name: string,
  change: {
    readonly active?: boolean;
    readonly comment?: string;
    readonly mode?: EdgeTableMode;
    readonly schema?: unknown;
  },
): EdgeTableRecord | Refusal {
  const table = findTable(context.edges, database, name);
  if ('ok' in table) return table;
  const schema = change.schema === undefined ? table.record.schema : changedSchema(table.record, change.schema);
  if (schema !== null && 'ok' in schema) return schema;
  const changed = { ...table.record, ...change, schema };
  const refused = refuseComment(changed.comment);
  if (refused !== null) return refused;
  context.journal.table(changed);
  return changed;
}

function changedSchema(record: EdgeTableRecord, given: unknown): EdgeSchema | Refusal {
  if (record.schema === null) return refusal('bad_request', 'the schema of a queue cannot be changed');
  const schema = readEdgeSchema(given);
  if ('ok' in schema) return schema;
  const wrong = refuseSchemaChange(record.schema, schema);
  return wrong === null ? schema : refusal('bad_request', wrong);
}

/** The table with all its rows; it must be inactive. */
export function decideDeleteTable(context: EdgeContext, database: string, name: string): EdgeTableRecord | Refusal {
  const table = findTable(context.edges, database, name);
  if ('ok' in table) return table;
  if (table.record.active) {
    return refusal('bad_request', `table ${database}.${name} is active: deactivate it before it is deleted`);
  }
  context.journal.tableDeleted({ number: table.record.number });
  return table.record;
}
