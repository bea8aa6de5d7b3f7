/** GET /api/v1/dlq */

import { limits } from '@lanemq/protocol';
import { asciiBytes, type ByteWriter } from '../codec/mod.ts';
import type { DeadLetterPage, DeadLetterView } from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { isoTime } from './iso-time.ts';
import type { QueryParameters } from './query-parameters.ts';
import { beginRead, readPage, readParameters, replyWith } from './read-route.ts';

const messagesAre = asciiBytes('{"messages":[');
const dataIs = asciiBytes(',"data":');
const payloadIs = asciiBytes(',"payload":');
const totalIs = asciiBytes('],"total":');
const paginationIs = asciiBytes(',"pagination":{"limit":');
const offsetIs = asciiBytes(',"offset":');
const comma = 44;
const closeBrace = 125;

interface Page {
  readonly queue: string | null;
  readonly group: string | null;
  readonly limit: number;
  readonly offset: number;
}

function readFilter(parameters: QueryParameters): Page {
  return {
    queue: parameters.name('queue'),
    group: parameters.name('consumerGroup'),
    ...readPage(parameters, limits.deadLetterPageDefault, limits.deadLetterPageMax),
  };
}

/** All of a row but its payload, which is the client's own JSON text and goes in as bytes. */
function rowJson(row: DeadLetterView): string {
  const text = JSON.stringify({
    id: row.id,
    queue: row.queue,
    partition: row.partition,
    partitionId: String(row.pid),
    createdAt: isoTime(row.createdAtUs),
    consumerGroup: row.group,
    offset: row.offset,
    messageId: row.messageId,
    transactionId: row.transactionId,
    errorMessage: row.error,
    retryCount: row.retryCount,
    failedAt: isoTime(row.failedAtUs),
  });
  return text.slice(0, -1);
}

function writePage(writer: ByteWriter, page: Page, outcome: DeadLetterPage): void {
  writer.raw(messagesAre);
  for (let i = 0; i < outcome.rows.length; i++) {
    const row = outcome.rows[i];
    if (i > 0) writer.byte(comma);
    writer.raw(Buffer.from(rowJson(row)));
    writer.raw(dataIs);
    writer.raw(row.payload);
    writer.raw(payloadIs);
    writer.raw(row.payload);
    writer.byte(closeBrace);
  }
  writer.raw(totalIs);
  writer.integer(outcome.total);
  writer.raw(paginationIs);
  writer.integer(page.limit);
  writer.raw(offsetIs);
  writer.integer(page.offset);
  writer.byte(closeBrace);
  writer.byte(closeBrace);
}

/** Newest failure first; filters that the contract does not know are ignored. */
export function listDeadLetters(exchange: Exchange, query: string): void {
  const { engine, writer } = exchange.services;
  const page = readParameters(exchange, query, readFilter);
  if (page === null || !beginRead(exchange)) return;
  const reply = replyWith<DeadLetterPage>(exchange, (outcome) => {
    writer.reset();
    writePage(writer, page, outcome);
    return { status: 200, body: writer.take() };
  });
  engine.deadLetters(page, reply);
}
