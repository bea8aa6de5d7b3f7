/** Databases, edge tables and their edges: /graph/v3 */
import type { ServerResponse } from 'node:http';
import { limits } from '@lanemq/protocol';
import type { ByteWriter } from '../codec/mod.ts';
import { asciiBytes } from '../codec/mod.ts';
import {
  type EdgeDatabaseRecord,
  type EdgeTableMode,
  type EdgeTableRecord,
  edgeLimits,
  type InsertOutcome,
  type JsonNode,
  readJsonNode,
  type ScanCommand,
} from '../core/mod.ts';
import type { Reply, ScannedPage } from '../runtime/mod.ts';
import {
  bodyNode,
  EdgeBodyExchange,
  type EdgeExchange,
  EdgeWriteExchange,
  HeldReply,
  jsonReply,
  limitOf,
  readingQuery,
  wordOf,
} from './edge-exchange.ts';
import type { BrokerRequest } from './exchange.ts';
import { BadParameter, type QueryParameters } from './query-parameters.ts';
import type { Services } from './services.ts';
import type { JsonObject } from './small-body.ts';

type Names = readonly string[];
type Take = (exchange: EdgeBodyExchange, body: JsonObject) => void;

const modes: readonly EdgeTableMode[] = ['SYNC', 'ASYNC', 'DROP'];

/** Who made and changed something is not recorded. */
function descriptor(active: boolean, comment: string, createdAtUs: number): object {
  const createdAt = Math.floor(createdAtUs / 1000);
  return { active, comment, revision: -1, createdAt, createdBy: '', updatedAt: -1, updatedBy: '' };
}

function databaseJson({ name, active, comment, createdAtUs }: EdgeDatabaseRecord): object {
  return { tenant: 'local', database: name, ...descriptor(active, comment, createdAtUs) };
}

/** What every queue is. */
const queueSchema = {
  type: 'IMMUTABLE_EDGE',
  source: { type: 'LONG', comment: 'partition' },
  target: { type: 'STRING', comment: 'message id' },
  properties: [
    { name: 'seq', type: 'LONG', comment: '', nullable: false },
    { name: 'value', type: 'STRING', comment: '', nullable: true },
  ],
  direction: 'OUT',
  indexes: [{ index: 'seq', fields: [{ field: 'seq', order: 'ASC' }] }],
  groups: [],
} as const;

function tableJson(record: EdgeTableRecord): object {
  const { database, name: table, active, comment, createdAtUs, storage, mode } = record;
  const schema = record.schema ?? queueSchema;
  return { tenant: 'local', database, table, schema, storage, mode, ...descriptor(active, comment, createdAtUs) };
}

/** An optional member of a body, or what is wrong with it. */
function optional<Type>(
  body: JsonObject,
  name: string,
  is: (value: unknown) => value is Type,
  what: string,
): Type | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (is(value)) return value;
  throw new BadParameter(`${name} must be ${what}`);
}

const isString = (value: unknown): value is string => typeof value === 'string';
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
const isMode = (value: unknown): value is EdgeTableMode => modes.some((mode) => mode === value);

function changeOf(body: JsonObject): { active?: boolean; comment?: string } {
  const active = optional(body, 'active', isBoolean, 'true or false');
  const comment = optional(body, 'comment', isString, 'a string');
  return { ...(active === undefined ? {} : { active }), ...(comment === undefined ? {} : { comment }) };
}

function bodyExchange(
  services: Services,
  request: BrokerRequest,
  response: ServerResponse,
  take: Take,
): EdgeBodyExchange {
  return new EdgeBodyExchange(services, request, response, (exchange, body) => {
    try {
      take(exchange, body);
    } catch (error) {
      if (!(error instanceof BadParameter)) throw error;
      exchange.fail('bad_request', error.message);
    }
  });
}

/** POST /graph/v3/databases */
export function createDatabase(services: Services, request: BrokerRequest, response: ServerResponse): EdgeBodyExchange {
  return bodyExchange(services, request, response, (exchange, body) => {
    const { comment = '' } = changeOf(body);
    const name = optional(body, 'database', isString, 'a string');
    if (name === undefined) throw new BadParameter('database is missing');
    services.engine.edgeTables.createDatabase(name, comment, jsonReply(exchange, databaseJson));
  });
}

/** PUT /graph/v3/databases/{database} */
export function changeDatabase(
  services: Services,
  request: BrokerRequest,
  response: ServerResponse,
  [name]: Names,
): EdgeBodyExchange {
  return bodyExchange(services, request, response, (exchange, body) => {
    services.engine.edgeTables.changeDatabase(name, changeOf(body), jsonReply(exchange, databaseJson));
  });
}

/** GET /graph/v3/databases */
export function listDatabases(exchange: EdgeExchange): void {
  const toJson = (records: readonly EdgeDatabaseRecord[]) => records.map(databaseJson);
  exchange.services.engine.edgeTables.databases(jsonReply(exchange, toJson));
}

/** GET /graph/v3/databases/{database} */
export function getDatabase(exchange: EdgeExchange, [name]: Names): void {
  exchange.services.engine.edgeTables.database(name, jsonReply(exchange, databaseJson));
}

/** DELETE /graph/v3/databases/{database} */
export function deleteDatabase(exchange: EdgeExchange, [name]: Names): void {
  exchange.services.engine.edgeTables.deleteDatabase(name, jsonReply(exchange, databaseJson));
}

/** POST …/tables */
export function createTable(
  services: Services,
  request: BrokerRequest,
  response: ServerResponse,
  [database]: Names,
): EdgeBodyExchange {
  return bodyExchange(services, request, response, (exchange, body) => {
    const { comment = '' } = changeOf(body);
    const mode = optional(body, 'mode', isMode, modes.join(', ')) ?? 'SYNC';
    const { table: name, storage, schema } = body;
    if (!isString(name)) throw new BadParameter('table must be a string');
    if (!isString(storage)) throw new BadParameter('storage must be a string');
    const command = { database, name, schema, storage, mode, comment };
    services.engine.edgeTables.createTable(command, jsonReply(exchange, tableJson));
  });
}

/** PUT …/tables/{table} */
export function changeTable(
  services: Services,
  request: BrokerRequest,
  response: ServerResponse,
  [database, table]: Names,
): EdgeBodyExchange {
  return bodyExchange(services, request, response, (exchange, body) => {
    const mode = optional(body, 'mode', isMode, modes.join(', '));
    const { schema } = body;
    const change = {
      ...changeOf(body),
      ...(mode === undefined ? {} : { mode }),
      ...(schema === undefined || schema === null ? {} : { schema }),
    };
    services.engine.edgeTables.changeTable(database, table, change, jsonReply(exchange, tableJson));
  });
}

/** GET …/tables */
export function listTables(exchange: EdgeExchange, [database]: Names): void {
  const toJson = (records: readonly EdgeTableRecord[]) => records.map(tableJson);
  exchange.services.engine.edgeTables.tables(database, jsonReply(exchange, toJson));
}

/** GET …/tables/{table} */
export function getTable(exchange: EdgeExchange, [database, table]: Names): void {
  exchange.services.engine.edgeTables.table(database, table, jsonReply(exchange, tableJson));
}

/** DELETE …/tables/{table} */
export function deleteTable(exchange: EdgeExchange, [database, table]: Names): void {
  exchange.services.engine.edgeTables.deleteTable(database, table, jsonReply(exchange, tableJson));
}

/** POST …/edges and …/edges/sync, which do the same: a 200 means on disk. `lock` changes nothing. */
export class InsertExchange extends EdgeWriteExchange {
  readonly #names: Names;
  readonly #query: string;

  constructor(services: Services, request: BrokerRequest, response: ServerResponse, names: Names, query: string) {
    super(services, request, response);
    this.#names = names;
    this.#query = query;
  }

  protected override bodyBytesMax(): number {
    return Math.min(edgeLimits.bodyBytesMax, this.services.options.maxBodyBytes);
  }

  protected take(body: Uint8Array): void {
    readingQuery(this, this.#query, (parameters) => {
      wordOf(parameters, 'lock', ['true', 'false']);
      const mutations = mutationsOf(bodyNode(body));
      this.services.supervisor.handedOver(this);
      this.services.engine.edgeTables.insert(this.#names[0], this.#names[1], mutations, this.#reply());
    });
    if (this.answered) this.releaseBody();
  }

  #reply(): Reply<InsertOutcome> {
    let text = '';
    return {
      encode: ({ edges }) => {
        const results = edges.map(
          ({ source, target }) => `{"source":${source},"target":${target},"status":"CREATED","count":1}`,
        );
        text = `{"results":[${results.join(',')}]}`;
      },
      send: (failure) => {
        this.releaseBody();
        if (failure !== null) this.refuse(failure);
        else this.answerJson(200, Buffer.from(text));
      },
    };
  }
}

function mutationsOf(body: JsonNode | null): readonly JsonNode[] {
  if (body === null) throw new BadParameter(`the body must be JSON, nested at most ${limits.jsonDepthMax} deep`);
  const mutations = body.kind === 'object' ? body.members.get('mutations') : undefined;
  if (mutations?.kind !== 'array') throw new BadParameter('mutations must be an array');
  if (mutations.items.length <= edgeLimits.mutationsMax) return mutations.items;
  throw new BadParameter(`more than ${edgeLimits.mutationsMax} mutations in one request`);
}

function required(parameters: QueryParameters, name: string): string {
  const text = parameters.text(name);
  if (text === null) throw new BadParameter(`${name} is required`);
  return text;
}

function scanCommand(
  parameters: QueryParameters,
  [database, table, index]: Names,
  whenNoLimit: number | null,
): ScanCommand {
  const limit = limitOf(parameters, edgeLimits.scanMax, whenNoLimit);
  const start = required(parameters, 'start');
  const direction = wordOf(parameters, 'direction', ['OUT', 'IN']);
  if (direction === null) throw new BadParameter('direction is required');
  return { database, table, index, start, direction, limit, ranges: parameters.name('ranges') };
}

/** The key in an offset that a scan gave. */
function offsetKey(parameters: QueryParameters): Uint8Array | null {
  const text = parameters.name('offset');
  if (text === null) return null;
  if (!/^[A-Za-z0-9_-]+$/.test(text)) throw new BadParameter('offset is none that a scan gave');
  return Buffer.from(text, 'base64url');
}

/** GET …/edges/scan/{index} */
export function scanEdges(exchange: EdgeExchange, names: Names, query: string): void {
  readingQuery(exchange, query, (parameters) => {
    const { supervisor, engine } = exchange.services;
    if (parameters.name('features') !== null) throw new BadParameter('features are not offered by immutable tables');
    const command = {
      ...scanCommand(parameters, names, edgeLimits.scanDefault),
      after: offsetKey(parameters),
      filters: parameters.name('filters'),
    };
    if (!supervisor.hasRoomForAnswer()) {
      exchange.failWithoutRoom();
      return;
    }
    supervisor.handedOver(exchange);
    engine.edgeTables.scan(command, new HeldReply<ScannedPage>(exchange, writeEdges));
  });
}

const edgesAre = asciiBytes('{"edges":[');
const contextIs = asciiBytes(',"context":{}}');
const countIs = asciiBytes('],"count":');
const offsetIs = asciiBytes(',"total":-1,"offset":');
const hasNextIs = asciiBytes(',"hasNext":');
const comma = 44;
const openBrace = 123;

function writeEdges(writer: ByteWriter, { page, filter, values, ends }: ScannedPage): void {
  const { rows, hasNext } = page;
  let count = 0;
  writer.raw(edgesAre);
  rows.forEach(({ length }, i) => {
    const start = ends[i] - length;
    if (filter !== null && !filter(fieldsOf(values.subarray(start, ends[i])))) return;
    if (count++ > 0) writer.byte(comma);
    writer.byte(openBrace);
    writer.copy(values, start, ends[i]);
    writer.raw(contextIs);
  });
  writer.raw(countIs);
  writer.integer(count);
  writer.raw(offsetIs);
  const last = hasNext ? rows[rows.length - 1] : undefined;
  writer.raw(Buffer.from(last === undefined ? 'null' : JSON.stringify(Buffer.from(last.key).toString('base64url'))));
  writer.raw(hasNextIs);
  writer.raw(Buffer.from(`${hasNext}`));
  writer.raw(contextIs);
}

/** The fields of a stored edge. */
function fieldsOf(stored: Uint8Array): (field: string) => JsonNode | undefined {
  const edge = readJsonNode(`{${Buffer.from(stored).toString('utf8')}}`);
  const members = edge.kind === 'object' ? edge.members : new Map<string, JsonNode>();
  const properties = members.get('properties');
  return (field) => (properties?.kind === 'object' ? properties.members.get(field) : undefined) ?? members.get(field);
}

/** DELETE …/edges/scan/{index} */
export function scanDelete(exchange: EdgeExchange, names: Names, query: string): void {
  readingQuery(exchange, query, (parameters) => {
    const command = scanCommand(parameters, names, null);
    const { database, table, index } = command;
    const toJson = ({ deleted }: { readonly deleted: number }) => ({ database, table, index, deleted });
    exchange.services.engine.edgeTables.scanDelete(command, jsonReply(exchange, toJson));
  });
}

/** …/edges/get and …/edges/count */
export function refuseLookUp(exchange: EdgeExchange): void {
  exchange.fail('bad_request', 'immutable tables are read by scan: they have no look-up of one edge and no count');
}
