/**
 * One request and its answer.
 *
 * It is answered at most once: whatever comes later (an engine's reply after the time-out, a second failure) is dropped
 * here, so that no other place has to remember. An answer to a connection that is gone goes nowhere.
 */

import { IncomingMessage, type ServerResponse } from 'node:http';
import { type ErrorCode, errorTable } from '@lanemq/protocol';
import type { Refusal } from '../core/mod.ts';
import type { Services } from './services.ts';
import type { Supervised, SupervisedList } from './supervisor.ts';

/** node's request with the place where its exchange is found by listeners that all requests share. */
export class BrokerRequest extends IncomingMessage {
  exchange: Exchange | null = null;
  /** The client sends its body only when it is told to continue. */
  awaitsContinue = false;
  /** Bytes of the body that may still be read and dropped. */
  droppable = 0;
}

/** Bytes of a body that are read and dropped where none is wanted. */
export const unwantedBytesMax = 64 * 1024;

// One function serves all requests.
function onDropped(this: BrokerRequest, chunk: Uint8Array): void {
  this.droppable -= chunk.length;
  // Node would go on reading and dropping for as long as a request may take.
  if (this.droppable < 0) this.destroy();
}

/** Reads what is left of a body and drops it; beyond `bytesMax` the connection is cut. */
export function dropBody(request: BrokerRequest, bytesMax: number): void {
  request.droppable = bytesMax;
  request.on('data', onDropped);
  // Of a body that was never read from node drops the rest unseen.
  request.read(0);
  request.resume();
}

/** Length of the body by the headers: 0 = there is none, Infinity = they do not tell. */
export function announcedBytes({ rawHeaders }: BrokerRequest): number {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name.length === 14 && name.toLowerCase() === 'content-length') return Number(rawHeaders[i + 1]);
    if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') return Number.POSITIVE_INFINITY;
  }
  return 0;
}

const jsonType = 'application/json';
const textType = 'text/plain; charset=utf-8';

/** Seconds after which a refused request may come again, when the refusal does not say. */
const retryAfterSecondsDefault = 1;
/** `overloaded` spreads its clients over this many seconds. */
const overloadedSpreadSeconds = 5;

/**
 * After an answer that closes the connection while the client may still be sending, what it sends is read and dropped
 * for this long: closing at once would reset the connection, and the client could lose the answer.
 */
const lingerMs = 500;
/** … or this many bytes; then it has to wait, until the time is over. */
const lingerBytesMax = 1024 * 1024;

/** 4xx and 5xx bodies; optional `error` texts never appear anywhere else. */
export function errorBody(code: ErrorCode, message: string): Uint8Array {
  return Buffer.from(JSON.stringify({ error: message, code }));
}

/** Clients have left so much of their answers unread that there is no memory for another. */
export const withoutRoom: Refusal = {
  ok: false,
  code: 'retry',
  message: 'too many answer bytes that clients have not read yet',
};

/** Seconds after which to try again, as the refusal says or as is usual for the code; 0 = trying again does not help. */
export function retryAfter(code: ErrorCode, refused: number | undefined): number {
  if (refused !== undefined) return refused;
  if (code === 'overloaded') return 1 + Math.floor(Math.random() * overloadedSpreadSeconds);
  return errorTable[code].retriable && errorTable[code].status !== 500 ? retryAfterSecondsDefault : 0;
}

export class Exchange implements Supervised {
  readonly services: Services;
  readonly request: BrokerRequest;
  readonly response: ServerResponse;
  answered = false;
  /** It counts among the large reads that are running. */
  isLargeRead = false;
  /** The answer ends the connection, although the client may still be sending. */
  protected hangsUp = false;
  /** Length of a body that nobody wants. */
  #unwantedBytes = 0;

  list: SupervisedList | null = null;
  previous: Supervised | null = null;
  next: Supervised | null = null;
  sinceMs = 0;
  unsentBytes = 0;

  constructor(services: Services, request: BrokerRequest, response: ServerResponse) {
    this.services = services;
    this.request = request;
    this.response = response;
    request.exchange = this;
  }

  get hasTurn(): boolean {
    return this.response.socket !== null;
  }

  /** For a route that takes no body: a small one that comes nevertheless is dropped, so that it hides no disconnect. */
  ignoreBody(): this {
    this.#unwantedBytes = announcedBytes(this.request);
    if (this.#unwantedBytes === Number.POSITIVE_INFINITY) dropBody(this.request, unwantedBytesMax);
    else if (this.#unwantedBytes <= unwantedBytesMax) this.request.resume();
    return this;
  }

  /** Answers with a body of JSON text; `body` belongs to the answer from here on. */
  answerJson(status: number, body: Uint8Array): void {
    this.#answer(status, ['Content-Type', jsonType, 'Content-Length', String(body.length)], body);
  }

  /** The same for a body that was made in pieces. `whenSent`: they are not needed any more; never when the client is gone. */
  answerJsonPieces(status: number, pieces: readonly Uint8Array[], whenSent?: () => void): void {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (whenSent !== undefined && !this.answered) this.response.once('finish', whenSent);
    this.#answer(status, ['Content-Type', jsonType, 'Content-Length', String(length)], pieces, length);
  }

  answerValue(status: number, value: object): void {
    this.answerJson(status, Buffer.from(JSON.stringify(value)));
  }

  answerText(status: number, contentType: string, text: string): void {
    const body = Buffer.from(text);
    this.#answer(status, ['Content-Type', contentType, 'Content-Length', String(body.length)], body);
  }

  /** 204: no body and no length. */
  answerEmpty(): void {
    this.#answer(204, [], null);
  }

  /** Answers with the status of the code and the error body of the contract. */
  fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    this.failWith(errorTable[code].status, errorBody(code, message), retryAfter(code, retryAfterSeconds));
  }

  /** The same with another body; `retryAfterSeconds` 0 = no such header. */
  failWith(status: number, body: Uint8Array, retryAfterSeconds = 0): void {
    const headers = ['Content-Type', jsonType, 'Content-Length', String(body.length)];
    if (retryAfterSeconds > 0) headers.push('Retry-After', String(retryAfterSeconds));
    this.#answer(status, headers, body);
  }

  failWithoutRoom(): void {
    this.refuse(withoutRoom);
  }

  refuse(refusal: Refusal): void {
    this.fail(refusal.code, refusal.message, refusal.retryAfterSeconds);
  }

  /** Refuses a body in plain text and ends the connection. */
  refuseTooLarge(bytesMax: number): void {
    this.hangsUp = true;
    this.answerText(413, textType, `body over the limit of ${bytesMax} bytes\n`);
  }

  overdue(): void {
    this.fail('outcome_unknown', `no durable outcome within ${this.services.options.requestTimeoutMs} ms`);
  }

  cut(): void {
    this.response.destroy();
  }

  #count(status: number): void {
    const { answers } = this.services;
    answers.set(status, (answers.get(status) ?? 0) + 1);
  }

  #answer(
    status: number,
    headers: string[],
    body: Uint8Array | readonly Uint8Array[] | null,
    length = body?.length ?? 0,
  ): void {
    if (this.answered) return;
    this.answered = true;
    const { services, response } = this;
    if (this.isLargeRead) services.readsRunning--;
    const { supervisor } = services;
    supervisor.done(this);
    this.#count(status);
    if (response.destroyed) return;
    const isComing = !this.request.complete;
    if (isComing && this.#unwantedBytes > unwantedBytesMax) this.hangsUp = true;
    if (services.closing || this.hangsUp) response.shouldKeepAlive = false;
    response.writeHead(status, headers);
    const pieces = body === null || body instanceof Uint8Array ? [] : body;
    if (pieces.length > 0) response.cork();
    for (const piece of pieces) response.write(piece);
    const last = body instanceof Uint8Array ? body : null;
    if (this.hangsUp && isComing) {
      if (last === null) response.flushHeaders();
      else response.write(last);
      if (pieces.length > 0) response.uncork();
      this.#linger();
    } else response.end(last);
    if (body === null) return;
    // The usual answer is in the kernel's hands by now. What is not, either waits for the client to read or for its
    // turn on the connection.
    const { socket } = response;
    if (socket !== null && socket.writableLength === 0) return;
    supervisor.unsent(this, length);
    const taken = () => supervisor.done(this);
    response.once('finish', taken);
    response.once('close', taken);
  }

  /** Ends the answer, and with it the connection, when the client has stopped sending or has had time to read it. */
  #linger(): void {
    const { request, response } = this;
    const finish = () => response.end();
    const timer = setTimeout(finish, lingerMs);
    timer.unref();
    request.once('close', () => {
      clearTimeout(timer);
      finish();
    });
    let dropped = 0;
    request.droppable = Number.POSITIVE_INFINITY;
    request.on('data', (chunk: Uint8Array) => {
      dropped += chunk.length;
      if (dropped > lingerBytesMax) request.pause();
    });
    request.resume();
  }
}
