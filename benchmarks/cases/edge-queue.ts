/**
 * Case k: what queue/v1 costs. Messages are enqueued 1,000 at a time, all polled by pages of 1,000, and 100,000 rows go
 * with one commit. Then a partition is emptied message by message, by as many commits as there were messages, and an
 * empty page of it is timed, against one from before: deleted ranges must not be walked again.
 */
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { Latency } from '../support/latency.ts';
import { clockUs } from '../support/push-request.ts';
import {
  bodilessRequest,
  expectStatus,
  openConnections,
  type RawAnswer,
  RawConnection,
  requestHead,
} from '../support/raw-connection.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const namespace = 'bench';
const partitions = 30;
const perRequest = 1000;
const committedAtOnce = 100_000;
const emptyPolls = 3000;
const committers = 32;

export const edgeQueue: BenchCase = {
  id: 'k',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const messages = options.messages ?? 1_000_000;
    const broker = await BenchBroker.start(options);
    await create(broker.url, 'spread', partitions);
    await create(broker.url, 'one', 1);
    const connections = await openConnections(broker.port, options.connections ?? 4);
    const [first] = connections;

    const enqueued = await broker.phase('enqueue', () => enqueueAll(connections, 'spread', messages, options));
    const polled = await broker.phase('poll', () => pollAll(connections, messages));

    await enqueueAll([first], 'one', committedAtOnce, options);
    const commitMs = await timedCommit(first, committedAtOnce - 1, committedAtOnce);

    const emptyBefore = new Latency();
    const before = await broker.phase('poll nothing, before', () => pollNothing(broker.port, emptyBefore));
    const workers = await openConnections(broker.port, committers);
    await enqueueAll(workers.slice(0, 1), 'one', messages, options);
    const committed = await broker.phase('commit one by one', () => commitEach(workers, messages));
    const emptyAfter = new Latency();
    const after = await broker.phase('poll nothing, after', () => pollNothing(broker.port, emptyAfter));

    for (const connection of [...connections, ...workers]) connection.close();
    await broker.end();
    return {
      name: 'k',
      question: 'queue/v1: enqueue, poll, commit',
      shape: { messages, perRequest, partitions, payloadBytes: options.payloadBytes, connections: connections.length },
      phases: [enqueued, polled, before, committed, after],
      facts: { [`commit of ${committedAtOnce} rows, ms`]: commitMs },
    };
  },
};

const queuePath = (queue: string): string => `/queue/v1/namespaces/${namespace}/queues/${queue}`;

async function create(url: string, queue: string, count: number): Promise<void> {
  const post = async (path: string, body: object): Promise<void> => {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (answer.status !== 200 && answer.status !== 409) throw new Error(`POST ${path} answered ${answer.status}`);
  };
  await post('/graph/v3/databases', { database: namespace });
  await post(queuePath('').slice(0, -1), { queue, storage: `datastore://bench/${queue}`, partitions: count });
}

/** Seqs rise from 0 on; each connection takes the next thousand. */
async function enqueueAll(
  connections: readonly RawConnection[],
  queue: string,
  messages: number,
  { payloadBytes }: BenchOptions,
): Promise<{ messages: number; requests: number; latency: Latency }> {
  const latency = new Latency();
  const value = 'x'.repeat(Math.max(0, payloadBytes - 2));
  let next = 0;
  await Promise.all(
    connections.map(async (connection) => {
      while (next < messages) {
        const from = next;
        next += perRequest;
        const items = Array.from(
          { length: perRequest },
          (_, i) => `{"key":"customer-${from + i}","seq":${from + i},"value":"${value}"}`,
        );
        const body = `{"messages":[${items.join()}]}`;
        const request = Buffer.from(requestHead('POST', `${queuePath(queue)}/messages`, body.length) + body);
        const sentAtUs = clockUs();
        expectStatus(await connection.request(request), 200);
        latency.record(clockUs() - sentAtUs);
      }
    }),
  );
  return { messages: next, requests: next / perRequest, latency };
}

const bodyText = ({ bytes, bodyStart, bodyEnd }: RawAnswer): string => bytes.toString('latin1', bodyStart, bodyEnd);

/** A member near the end of an answer, read without parsing what lies before it. */
function memberAtEnd(answer: RawAnswer, name: string): string {
  const tail = answer.bytes.toString('latin1', Math.max(answer.bodyStart, answer.bodyEnd - 200), answer.bodyEnd);
  const found = new RegExp(`"${name}":([^,}]+)`).exec(tail);
  if (found === null) throw new Error(`no ${name} at the end of ${tail}`);
  return found[1];
}

async function pollAll(
  connections: readonly RawConnection[],
  messages: number,
): Promise<{ messages: number; requests: number; latency: Latency }> {
  const latency = new Latency();
  let requests = 0;
  let partition = 0;
  await Promise.all(
    connections.map(async (connection) => {
      while (partition < partitions) {
        const path = `${queuePath('spread')}/partitions/${partition++}/poll?limit=${perRequest}`;
        let offset = '';
        for (let hasNext = true; hasNext; requests++) {
          const sentAtUs = clockUs();
          const answer = await connection.request(bodilessRequest('GET', path + offset));
          expectStatus(answer, 200);
          latency.record(clockUs() - sentAtUs);
          hasNext = memberAtEnd(answer, 'hasNext') === 'true';
          offset = `&offset=${memberAtEnd(answer, 'offset')}`;
        }
      }
    }),
  );
  return { messages, requests, latency };
}

function commitRequest(offset: number): Buffer {
  return bodilessRequest('DELETE', `${queuePath('one')}/partitions/0/messages?offset=${offset}`);
}

async function timedCommit(connection: RawConnection, offset: number, expected: number): Promise<number> {
  const sentAtUs = clockUs();
  const answer = await connection.request(commitRequest(offset));
  const tookMs = (clockUs() - sentAtUs) / 1000;
  expectStatus(answer, 200);
  const committed = Number(memberAtEnd(answer, 'committed'));
  if (committed !== expected) throw new Error(`${committed} rows were committed, not ${expected}`);
  return tookMs;
}

async function commitEach(
  connections: readonly RawConnection[],
  messages: number,
): Promise<{ messages: number; requests: number }> {
  let next = 0;
  let committed = 0;
  await Promise.all(
    connections.map(async (connection) => {
      while (next < messages) {
        const answer = await connection.request(commitRequest(next++));
        expectStatus(answer, 200);
        committed += Number(memberAtEnd(answer, 'committed'));
      }
    }),
  );
  if (committed !== messages) throw new Error(`${committed} messages were committed, not ${messages}`);
  return { messages, requests: messages };
}

/** On a connection of its own: one that was idle for long is closed by the broker. */
async function pollNothing(
  port: number,
  latency: Latency,
): Promise<{ messages: number; requests: number; latency: Latency }> {
  const connection = await RawConnection.open(port);
  const request = bodilessRequest('GET', `${queuePath('one')}/partitions/0/poll`);
  for (let i = 0; i < emptyPolls; i++) {
    const sentAtUs = clockUs();
    const answer = await connection.request(request);
    expectStatus(answer, 200);
    latency.record(clockUs() - sentAtUs);
    if (!bodyText(answer).startsWith('{"messages":[]')) throw new Error('an empty partition shows messages');
  }
  connection.close();
  return { messages: emptyPolls, requests: emptyPolls, latency };
}
