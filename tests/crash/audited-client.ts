/**
 * HTTP calls whose requests and answers the auditor sees. A call resolves with the answer, or with null when there was
 * none or the broker was overloaded; what no call may ever see (another refusal, a 5xx, an answer that never comes) is
 * kept in `faults`.
 */

import type * as wire from '../e2e/broker-client.ts';
import { type Answer, popPath, queueModeGroup, type RequestParts } from '../e2e/broker-client.ts';
import type { Auditor } from './auditor.ts';
import type { AckItem, AckResult, DeliveredMessage, Operation, PopRequest, PushItem, PushResult } from './history.ts';

/** How long a broker that runs may take to answer, beyond what a pop was told to wait. */
const answerMs = 20_000;
const faultsKept = 20;
/** The one refusal that a client has to expect: nothing was done, and it may try again. */
const overloaded = 429;

/** The part of `BrokerClient` that is used here. */
export interface Requester {
  request<Body>(method: string, path: string, parts: RequestParts): Promise<Answer<Body>>;
}

export interface PopCall extends PopRequest {
  /** 0 = do not wait. */
  readonly waitMs: number;
  /** '' = send no hint. */
  readonly mode: '' | 'all' | 'new';
}

export class AuditedClient {
  readonly auditor: Auditor;
  readonly faults: string[] = [];
  readonly #client: Requester;

  constructor(auditor: Auditor, client: Requester) {
    this.auditor = auditor;
    this.#client = client;
  }

  async push(items: readonly PushItem[]): Promise<readonly PushResult[] | null> {
    const operation = this.auditor.beginPush(items);
    // The payload's text is sent as it was made, so that what comes back can be compared with it.
    const texts = items.map((item) => {
      const id = item.transactionId === null ? '' : `"transactionId":${JSON.stringify(item.transactionId)},`;
      return `{"queue":${JSON.stringify(item.queue)},"partition":${JSON.stringify(item.partition)},${id}"payload":${item.payload}}`;
    });
    const bytes = `{"items":[${texts.join(',')}]}`;
    const body = await this.#call<wire.PushResult[]>(operation, 201, 'POST', '/api/v1/push', { bytes });
    if (body === null) return null;
    const results = body.map((row) => ({
      status: row.status,
      messageId: row.message_id,
      transactionId: row.transaction_id,
      offset: row.offset ?? null,
    }));
    this.auditor.endPush(operation, results);
    return results;
  }

  async pop(call: PopCall): Promise<readonly DeliveredMessage[] | null> {
    const operation = this.auditor.beginPop(call);
    const path = popPath(call.queue, {
      ...(call.partition === null ? {} : { partition: call.partition }),
      ...(call.group === queueModeGroup ? {} : { group: call.group }),
      ...(call.mode === '' ? {} : { mode: call.mode }),
      ...(call.waitMs === 0 ? {} : { waitMs: call.waitMs }),
      ...(call.commitOnDelivery ? { autoAck: true } : { leaseSeconds: call.leaseMs / 1000 }),
      batch: call.batch,
      partitions: call.partitions,
    });
    const body = await this.#call<wire.PopBody>(operation, 200, 'GET', path, {}, call.waitMs);
    if (body === null) return null;
    const messages = (body?.messages ?? []).map((message) => ({
      partition: message.partition,
      partitionId: message.partitionId,
      offset: message.offset,
      messageId: message.id,
      transactionId: message.transactionId,
      payload: JSON.stringify(message.data),
      createdAt: message.createdAt,
      attempt: message.deliveryAttempt,
      leaseId: message.leaseId,
    }));
    this.auditor.endPop(operation, messages);
    return messages;
  }

  /** `single`: over the route for one item. */
  async ack(group: string, items: readonly AckItem[], single = false): Promise<readonly AckResult[] | null> {
    const operation = this.auditor.beginAck(group, items);
    const acknowledgments = items.map((item) => ({
      transactionId: item.transactionId,
      partitionId: item.partitionId,
      leaseId: item.leaseId === '' ? null : item.leaseId,
      status: item.status,
      error: item.status === 'completed' ? null : `failed as planned: ${item.transactionId}`,
    }));
    const consumerGroup = group === queueModeGroup ? null : group;
    const json = single ? { ...acknowledgments[0], consumerGroup } : { acknowledgments, consumerGroup };
    const path = single ? '/api/v1/ack' : '/api/v1/ack/batch';
    const body = await this.#call<wire.AckResult[]>(operation, 200, 'POST', path, { json });
    if (body === null) return null;
    const results = body.map((row) => ({
      success: row.success,
      error: row.error,
      leaseReleased: row.leaseReleased,
      deadLettered: row.dlq,
      noop: row.noop,
    }));
    this.auditor.endAck(operation, results);
    return results;
  }

  async extend(leaseId: string, seconds: number): Promise<boolean | null> {
    const operation = this.auditor.beginExtend(leaseId, seconds * 1000);
    const path = `/api/v1/lease/${leaseId}/extend`;
    const body = await this.#call<wire.ExtendBody>(operation, 200, 'POST', path, { json: { seconds } });
    if (body === null) return null;
    this.auditor.endExtend(operation, body.success);
    return body.success;
  }

  async configure(queue: string, option: string, value: number): Promise<boolean> {
    const operation = this.auditor.beginConfigure(queue, option, value);
    const json = { queue, options: { [option]: value } };
    const body = await this.#call<wire.ConfigureBody>(operation, 200, 'POST', '/api/v1/configure', { json });
    if (body === null) return false;
    this.auditor.endConfigure(operation);
    return true;
  }

  /** The body of an answer with the expected status (undefined for 204), or null when the outcome is unknown. */
  async #call<Body>(
    operation: Operation,
    expected: number,
    method: string,
    path: string,
    parts: RequestParts,
    waitMs = 0,
  ): Promise<Body | null> {
    const overdue = new AbortController();
    const timer = setTimeout(() => overdue.abort(), waitMs + answerMs);
    try {
      const answer = await this.#client.request<Body>(method, path, { ...parts, signal: overdue.signal });
      if (answer.status === expected || (answer.status === 204 && expected === 200)) return answer.body;
      if (answer.status !== overloaded)
        this.#fault(`${method} ${path} was answered ${answer.status}: ${answer.bytes.toString().slice(0, 300)}`);
      if (answer.status < 500) this.auditor.refuse(operation);
      else this.auditor.lose(operation);
      return null;
    } catch (error) {
      // The connection broke: the broker was killed, and whether the request took effect cannot be known.
      if (error instanceof SyntaxError) this.#fault(`${method} ${path} was answered with what is not JSON`);
      if (overdue.signal.aborted) this.#fault(`${method} ${path} was not answered within ${waitMs + answerMs} ms`);
      this.auditor.lose(operation);
      return null;
    } finally {
      clearTimeout(timer);
    }
  }

  #fault(text: string): void {
    if (this.faults.length < faultsKept) this.faults.push(text);
  }
}
