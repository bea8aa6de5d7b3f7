/** Loops that the cases are made of: each connection keeps one request on its way. */
import { Latency } from './latency.ts';
import { confirmedCount, PopAnswer, queuedCount } from './pop-answer.ts';
import { clockUs, PushRequest, type PushShape } from './push-request.ts';
import { bodilessRequest, expectStatus, openConnections, type RawConnection } from './raw-connection.ts';

/** Chooses what item `i` of a request becomes; called for every item before each request. */
export type ItemChooser = (request: PushRequest, i: number, timeUs: number) => void;

export interface PushLoad {
  readonly port: number;
  readonly shape: PushShape;
  readonly connections: number;
  /** Makes the chooser of one connection, so that no two connections write to one partition. */
  chooserOf(connection: number): ItemChooser;
  /** Asked before each request; false ends the loop of that connection. */
  mayContinue(pushed: number): boolean | Promise<boolean>;
}

/** Pushes until told to end. Resolves with the messages stored, the requests, and the time each request took. */
export async function pushLoop(load: PushLoad): Promise<{ messages: number; requests: number; latency: Latency }> {
  const latency = new Latency();
  let messages = 0;
  let requests = 0;
  const run = async (connection: RawConnection, index: number) => {
    const request = new PushRequest(load.shape);
    const choose = load.chooserOf(index);
    while (await load.mayContinue(messages)) {
      const sentAtUs = clockUs();
      for (let i = 0; i < request.items; i++) choose(request, i, sentAtUs);
      messages += request.items;
      requests += 1;
      const answer = await connection.request(request.bytes);
      latency.record(clockUs() - sentAtUs);
      const stored = queuedCount(answer);
      if (stored !== request.items) throw new Error(`a push stored ${stored} of ${request.items} messages`);
    }
    connection.close();
  };
  const connections = await openConnections(load.port, load.connections);
  await Promise.all(connections.map(run));
  return { messages, requests, latency };
}

export interface ConsumeLoad {
  readonly port: number;
  readonly queue: string;
  readonly group: string;
  readonly connections: number;
  readonly batch: number;
  readonly partitions: number;
  readonly leaseSeconds: number;
  /** Milliseconds a pop waits when there is nothing; 0 = it does not. */
  readonly waitMs: number;
  /** Sees each answer before it is acked. */
  onMessages(answer: PopAnswer, receivedAtUs: number): void;
  /** Asked before each pop with the messages acked so far; false ends the loop of that connection. */
  mayContinue(acked: number): boolean;
  /** Keeps the acks instead of sending them. */
  readonly keptAcks?: { request: Uint8Array; count: number }[];
}

/** Pops and acks until told to end. Resolves with the messages consumed and the requests. */
export async function consumeLoop(load: ConsumeLoad): Promise<{ messages: number; requests: number }> {
  let messages = 0;
  let requests = 0;
  const pop = bodilessRequest('GET', popPath(load));
  const run = async (connection: RawConnection) => {
    const answer = new PopAnswer(load.group);
    while (load.mayContinue(messages)) {
      requests += 1;
      answer.read(await connection.request(pop));
      if (answer.count === 0) continue;
      load.onMessages(answer, clockUs());
      if (load.keptAcks !== undefined) load.keptAcks.push({ request: answer.copyAck(), count: answer.count });
      else {
        requests += 1;
        await sendAck(connection, answer.ackRequest, answer.count);
      }
      messages += answer.count;
    }
    connection.close();
  };
  const connections = await openConnections(load.port, load.connections);
  await Promise.all(connections.map(run));
  return { messages, requests };
}

/** Sends acks that were kept. */
export async function ackLoop(
  port: number,
  connectionCount: number,
  acks: readonly { request: Uint8Array; count: number }[],
): Promise<{ messages: number; requests: number }> {
  let next = 0;
  let messages = 0;
  const run = async (connection: RawConnection) => {
    while (next < acks.length) {
      const ack = acks[next++];
      await sendAck(connection, ack.request, ack.count);
      messages += ack.count;
    }
    connection.close();
  };
  const connections = await openConnections(port, connectionCount);
  await Promise.all(connections.map(run));
  return { messages, requests: acks.length };
}

/** Makes the group known to the queue before there is anything, and the queue with it. */
export async function registerGroup(port: number, queue: string, group: string): Promise<void> {
  const [connection] = await openConnections(port, 1);
  const path = `/api/v1/pop/queue/${queue}?consumerGroup=${group}&subscriptionMode=all&batch=1`;
  expectStatus(await connection.request(bodilessRequest('GET', path)), 204);
  connection.close();
}

export async function sendAck(connection: RawConnection, request: Uint8Array, count: number): Promise<void> {
  const confirmed = confirmedCount(await connection.request(request));
  if (confirmed !== count) throw new Error(`an ack confirmed ${confirmed} of ${count} messages`);
}

/**
 * Watches that every partition is delivered in order and without gaps. Counts instead of throwing, so that a run
 * with a fault still shows how large it is.
 */
export class OrderWatch {
  readonly #next: Float64Array;
  violations = 0;

  constructor(partitionCount: number) {
    this.#next = new Float64Array(partitionCount);
  }

  /** `numbered`: the pushes gave the messages of each partition the numbers 0, 1, 2, … */
  see(answer: PopAnswer, numbered: boolean): void {
    for (let i = 0; i < answer.count; i++) {
      const partition = answer.partitions[i];
      const expected = this.#next[partition]++;
      if (answer.offsets[i] !== expected || (numbered && answer.numbers[i] !== expected)) this.violations += 1;
    }
  }
}

function popPath(load: ConsumeLoad): string {
  const wait = load.waitMs > 0 ? `&wait=true&timeout=${load.waitMs}` : '';
  return (
    `/api/v1/pop/queue/${load.queue}?consumerGroup=${load.group}&subscriptionMode=all` +
    `&batch=${load.batch}&partitions=${load.partitions}&leaseSeconds=${load.leaseSeconds}${wait}`
  );
}
