/** Requests of queue/v1 and of edge tables to a real broker, and what their answers must look like. */
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { freshName } from './broker-client.ts';
import type { BrokerProcess } from './broker-process.ts';

export interface EdgeAnswer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  readonly json: any;
}

/** A request that must be refused: what, the status, and a part of the message. */
export type Refused = readonly [method: string, path: string, body: string | undefined, status: number, part: string];

export class EdgeClient {
  readonly #broker: BrokerProcess;

  constructor(broker: BrokerProcess) {
    this.#broker = broker;
  }

  async call(method: string, path: string, body?: string, type = 'application/json'): Promise<EdgeAnswer> {
    const init = body === undefined ? { method } : { method, body, headers: { 'Content-Type': type } };
    const response = await fetch(`${this.#broker.url}${path}`, init);
    const text = await response.text();
    return { status: response.status, text, json: text === '' ? null : JSON.parse(text) };
  }

  /** The answer of a request that must succeed. */
  async get(path: string): Promise<EdgeAnswer['json']> {
    return (await this.#succeed('GET', path)).json;
  }

  async send(method: string, path: string, body?: object): Promise<EdgeAnswer['json']> {
    return (await this.#succeed(method, path, body === undefined ? undefined : JSON.stringify(body))).json;
  }

  async #succeed(method: string, path: string, body?: string): Promise<EdgeAnswer> {
    const answer = await this.call(method, path, body);
    assert.ok(answer.status === 200 || answer.status === 204, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  /** The body of an error is the contract's, whatever the status. */
  async refused([method, path, body, status, part]: Refused, type?: string): Promise<void> {
    const answer = await this.call(method, path, body, type);
    const what = `${method} ${path} ${(body ?? '').slice(0, 100)}: ${answer.status} ${answer.text.slice(0, 200)}`;
    assert.equal(answer.status, status, what);
    assert.deepEqual(Object.keys(answer.json), ['timestamp', 'status', 'error', 'message'], what);
    assert.equal(answer.json.status, status);
    assert.equal(answer.json.error, STATUS_CODES[status]);
    assert.ok(Math.abs(Date.now() - answer.json.timestamp) < 60_000);
    assert.ok(answer.json.message.includes(part), what);
  }

  async newDatabase(): Promise<string> {
    const database = freshName('ns').replaceAll(/[^a-zA-Z0-9_-]/g, '');
    await this.send('POST', '/graph/v3/databases', { database });
    return database;
  }

  /** Path of a new queue `q` in a new namespace. */
  async newQueue(partitions: number, more: object = {}): Promise<string> {
    const namespace = await this.newDatabase();
    const queues = `/queue/v1/namespaces/${namespace}/queues`;
    const request = { queue: 'q', storage: 'datastore://ns/q', partitions, ...more };
    const created = await this.send('POST', queues, request);
    assert.deepEqual(created, { namespace, queue: 'q', partitions, storage: 'datastore://ns/q' });
    return `${queues}/q`;
  }

  enqueue(queue: string, messages: readonly object[], query = ''): Promise<EdgeAnswer['json']> {
    return this.send('POST', `${queue}/messages${query}`, { messages });
  }
}
