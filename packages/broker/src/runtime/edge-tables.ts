/** Databases and edge tables on a shard: what they are, and the edges in them. */
import {
  decideChangeDatabase,
  decideChangeTable,
  decideCreateDatabase,
  decideCreateTable,
  decideDeleteDatabase,
  decideDeleteTable,
  decideInsertEdges,
  decideScan,
  decideScanDelete,
  type EdgeContext,
  type EdgeDatabaseRecord,
  type EdgeTableRecord,
  findDatabase,
  findTable,
  type InsertOutcome,
  type JsonNode,
  listTables,
  type Refusal,
  type ScanCommand,
  type ScanOutcome,
} from '../core/mod.ts';
import type { EdgeHost } from './edge-host.ts';
import { edgeDiskFull } from './edge-queues.ts';
import { EdgeReadOperation, type ReadReply, type RowValues } from './edge-read.ts';
import type { Reply } from './engine.ts';
import { isRefusal, SimpleOperation } from './operations.ts';

export interface ScannedPage extends ScanOutcome, RowValues {}

export class EdgeTables {
  readonly #host: EdgeHost;
  readonly #tableChanged: (number: number) => void;

  constructor(host: EdgeHost, tableChanged: (number: number) => void) {
    this.#host = host;
    this.#tableChanged = tableChanged;
  }

  #run<Outcome extends object>(decide: (context: EdgeContext) => Outcome | Refusal, reply: Reply<Outcome>): void {
    this.#host.submit(new SimpleOperation<Outcome>(() => decide(this.#host.context()), reply));
  }

  createDatabase(name: string, comment: string, reply: Reply<EdgeDatabaseRecord>): void {
    this.#run((context) => decideCreateDatabase(context, name, comment), reply);
  }

  databases(reply: Reply<readonly EdgeDatabaseRecord[]>): void {
    this.#run(({ edges }) => [...edges.databases.values()], reply);
  }

  database(name: string, reply: Reply<EdgeDatabaseRecord>): void {
    this.#run(({ edges }) => findDatabase(edges, name), reply);
  }

  changeDatabase(
    name: string,
    change: Parameters<typeof decideChangeDatabase>[2],
    reply: Reply<EdgeDatabaseRecord>,
  ): void {
    this.#run((context) => decideChangeDatabase(context, name, change), reply);
  }

  deleteDatabase(name: string, reply: Reply<EdgeDatabaseRecord>): void {
    this.#run((context) => decideDeleteDatabase(context, name), reply);
  }

  createTable(command: Parameters<typeof decideCreateTable>[1], reply: Reply<EdgeTableRecord>): void {
    this.#run((context) => decideCreateTable(context, command), reply);
  }

  tables(database: string, reply: Reply<readonly EdgeTableRecord[]>): void {
    this.#run(({ edges }) => listTables(edges, database), reply);
  }

  table(database: string, name: string, reply: Reply<EdgeTableRecord>): void {
    this.#run(({ edges }) => {
      const table = findTable(edges, database, name);
      return isRefusal(table) ? table : table.record;
    }, reply);
  }

  changeTable(
    database: string,
    name: string,
    change: Parameters<typeof decideChangeTable>[3],
    reply: Reply<EdgeTableRecord>,
  ): void {
    this.#run((context) => {
      const record = decideChangeTable(context, database, name, change);
      if (!isRefusal(record)) this.#tableChanged(record.number);
      return record;
    }, reply);
  }

  deleteTable(database: string, name: string, reply: Reply<EdgeTableRecord>): void {
    this.#run((context) => decideDeleteTable(context, database, name), reply);
  }

  insert(database: string, table: string, mutations: readonly JsonNode[], reply: Reply<InsertOutcome>): void {
    this.#run((context) => {
      if (this.#host.isDiskFull()) return edgeDiskFull;
      return decideInsertEdges(context, database, table, mutations);
    }, reply);
  }

  scan(command: Parameters<typeof decideScan>[1], reply: ReadReply<ScannedPage>): void {
    const decide = (): ScanOutcome | Refusal => decideScan(this.#host.context().edges, command);
    this.#host.submit(new EdgeReadOperation(this.#host, decide, ({ page }) => page.rows, reply));
  }

  scanDelete(command: ScanCommand, reply: Reply<{ readonly deleted: number }>): void {
    this.#run((context) => decideScanDelete(context, command), reply);
  }
}
