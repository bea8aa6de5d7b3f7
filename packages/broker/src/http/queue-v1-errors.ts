/** The error body of queue/v1 and of the edge table routes, for all statuses. */
import { STATUS_CODES } from 'node:http';
import { type ErrorCode, errorTable } from '@lanemq/protocol';
import type { Exchange } from './exchange.ts';

export function failEdge(exchange: Exchange, code: ErrorCode, message: string, retryAfterSeconds = 0): void {
  const { status } = errorTable[code];
  const body = { timestamp: Date.now(), status, error: STATUS_CODES[status] ?? '', message };
  exchange.failWith(status, Buffer.from(JSON.stringify(body)), retryAfterSeconds);
}
