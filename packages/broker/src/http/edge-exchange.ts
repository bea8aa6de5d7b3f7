/** What the routes of queue/v1 and of edge tables share: their error body, their parameters and small bodies. */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { type ErrorCode, errorTable, limits } from '@lanemq/protocol';
import { type ByteWriter, checkJson, readSeq } from '../codec/mod.ts';
import { type JsonNode, type Refusal, readJsonNode, type Seq } from '../core/mod.ts';
import type { ReadReply, Reply } from '../runtime/mod.ts';
import type { Admission } from './admission.ts';
import { BodyExchange } from './body-exchange.ts';
import { type BrokerRequest, Exchange, retryAfter, withoutRoom } from './exchange.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';
import { replyWith } from './read-route.ts';
import type { Services } from './services.ts';
import { isObject, type JsonObject, parseJson, SmallBodyExchange } from './small-body.ts';

/** The error body of these routes, for all statuses. */
function edgeErrorText(status: number, message: string): string {
  return JSON.stringify({ timestamp: Date.now(), status, error: STATUS_CODES[status] ?? '', message });
}

function failEdge(exchange: Exchange, code: ErrorCode, message: string, retryAfterSeconds?: number): void {
  const { status } = errorTable[code];
  exchange.failWith(status, Buffer.from(edgeErrorText(status, message)), retryAfter(code, retryAfterSeconds));
}

function tooLarge(bytesMax: number): string {
  return `body over the limit of ${bytesMax} bytes`;
}

/** A request without a body. */
export class EdgeExchange extends Exchange {
  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }

  override refuseTooLarge(bytesMax: number): void {
    this.hangsUp = true;
    this.fail('body_too_large', tooLarge(bytesMax));
  }
}

/** Sends what `toJson` makes of an outcome. */
export function jsonReply<Outcome>(exchange: Exchange, toJson: (outcome: Outcome) => object): Reply<Outcome> {
  exchange.services.supervisor.handedOver(exchange);
  return replyWith<Outcome>(exchange, (outcome) => ({
    status: 200,
    body: Buffer.from(JSON.stringify(toJson(outcome))),
  }));
}

/** A reply whose answer may be large: it counts as held for the client from the reading of its values until it leaves. */
export class HeldReply<Outcome> implements ReadReply<Outcome> {
  readonly #exchange: Exchange;
  readonly #write: (writer: ByteWriter, outcome: Outcome) => void;
  #answer: Uint8Array | null = null;
  #heldBytes = 0;

  constructor(exchange: Exchange, write: (writer: ByteWriter, outcome: Outcome) => void) {
    this.#exchange = exchange;
    this.#write = write;
  }

  reserve(bytes: number): Refusal | null {
    this.#hold(0);
    if (bytes > 0 && !this.#exchange.services.supervisor.hasRoomForAnswer()) return withoutRoom;
    this.#hold(bytes);
    return null;
  }

  #hold(bytes: number): void {
    this.#exchange.services.supervisor.heldBytes += bytes - this.#heldBytes;
    this.#heldBytes = bytes;
  }

  encode(outcome: Outcome): void {
    const { services, answered, list } = this.#exchange;
    if (answered) return;
    // One that waited was nobody's business until now.
    if (list === null) services.supervisor.handedOver(this.#exchange);
    services.writer.reset();
    this.#write(services.writer, outcome);
    this.#answer = services.takeAnswer();
    this.#hold(this.#answer.length);
  }

  send(failure: Refusal | null): void {
    const answer = this.#answer;
    this.#answer = null;
    this.#hold(0);
    if (failure !== null) this.#exchange.refuse(failure);
    else if (answer !== null) this.#exchange.answerJson(200, answer);
  }
}

export function isJsonType(request: IncomingMessage): boolean {
  const type = request.headers['content-type'];
  return type === undefined || /^application\/([a-z.+-]+\+)?json\s*(;|$)/i.test(type);
}

export const wrongType = 'Content-Type must be application/json';

/** A request whose body is a small JSON object. */
export class EdgeBodyExchange extends SmallBodyExchange {
  protected readonly bodyName = 'bad body';
  readonly #take: (exchange: EdgeBodyExchange, body: JsonObject) => void;

  constructor(
    services: Services,
    request: BrokerRequest,
    response: ServerResponse,
    take: (exchange: EdgeBodyExchange, body: JsonObject) => void,
  ) {
    super(services, request, response);
    this.#take = take;
  }

  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }

  override refuseTooLarge(bytesMax: number): void {
    this.hangsUp = true;
    this.fail('body_too_large', tooLarge(bytesMax));
  }

  protected received(body: Uint8Array): void {
    const value = parseJson(body);
    if (!isJsonType(this.request)) this.fail('unsupported_media_type', wrongType);
    else if (!isObject(value)) this.fail('bad_request', 'the body must be a JSON object');
    else this.#take(this, value);
  }
}

/** A request that stores something: its body may be large, and counts against the budget of pushes. */
export abstract class EdgeWriteExchange extends BodyExchange {
  protected readonly bodyName = 'bad body';
  protected readonly badBodyCode = 'bad_request';

  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }

  override refuseTooLarge(bytesMax: number): void {
    this.hangsUp = true;
    this.fail('body_too_large', tooLarge(bytesMax));
  }

  protected admissionFor(): Admission {
    return this.services.pushAdmission;
  }

  protected received(body: Uint8Array): void {
    if (isJsonType(this.request)) this.take(body);
    else this.refuseBody('unsupported_media_type', wrongType);
  }

  protected refuseBody(code: ErrorCode, message: string): void {
    this.releaseBody();
    this.fail(code, message);
  }

  protected abstract take(body: Uint8Array): void;
}

/** The JSON value of a body, its numbers digit for digit; null when it is none. */
export function bodyNode(body: Uint8Array): JsonNode | null {
  if (checkJson(body, limits.jsonDepthMax) !== undefined) return null;
  return readJsonNode(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8'));
}

/** Runs a handler that reads parameters; what they lack is a 400. */
export function readingQuery(exchange: Exchange, query: string, run: (parameters: QueryParameters) => void): void {
  try {
    run(new QueryParameters(query));
  } catch (error) {
    if (!(error instanceof BadParameter)) throw error;
    exchange.fail('bad_request', error.message);
  }
}

export function int32(text: string, name: string): number {
  if (!/^-?\d{1,19}$/.test(text) || Number(text) !== (Number(text) | 0)) {
    throw new BadParameter(`${name} must be an integer of 32 bits`);
  }
  return Number(text);
}

/** A limit in 1..max; `whenAbsent` null = it is required. */
export function limitOf(parameters: QueryParameters, max: number, whenAbsent: number | null): number {
  const text = parameters.name('limit');
  if (text === null && whenAbsent === null) throw new BadParameter('limit is required');
  const limit = text === null ? (whenAbsent ?? 0) : int32(text, 'limit');
  if (limit < 1 || limit > max) throw new BadParameter(`limit must be in 1..${max}, got ${limit}`);
  return limit;
}

/** Halves of a 64-bit number; `name`: what it is. */
export function seqOf(text: string, name: string): Seq {
  const halves = new Uint32Array(2);
  const bytes = Buffer.from(text);
  if (!readSeq(bytes, 0, bytes.length, halves, 0)) throw new BadParameter(`${name} must be an integer of 64 bits`);
  return [halves[0], halves[1]];
}

/** One of some words; null when it was not sent. */
export function wordOf<Word extends string>(
  parameters: QueryParameters,
  name: string,
  words: readonly Word[],
): Word | null {
  const text = parameters.name(name);
  if (text === null) return null;
  const word = words.find((each) => each === text);
  if (word === undefined) throw new BadParameter(`${name} must be ${words.join(' or ')}`);
  return word;
}
