/** /queue/v1, and the databases its namespaces are. */
import type { ServerResponse } from 'node:http';
import type { ErrorCode } from '@lanemq/protocol';
import { asciiBytes, type ByteWriter, readSeq, seqText } from '../codec/mod.ts';
import {
  type EdgeDatabaseRecord,
  type EdgeTableRecord,
  type EnqueueOutcome,
  edgeQueueLimits,
  edgeRow,
  type Refusal,
  type Seq,
} from '../core/mod.ts';
import type { PolledPage, Reply } from '../runtime/mod.ts';
import type { Admission } from './admission.ts';
import { BodyExchange } from './body-exchange.ts';
import { type BrokerRequest, Exchange } from './exchange.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';
import { replyWith } from './queue-routes.ts';
import { failEdge } from './queue-v1-errors.ts';
import type { Services } from './services.ts';
import { isObject, parseJson, SmallBodyExchange } from './small-body.ts';

/** Refusals in the words of this contract. */
export class EdgeExchange extends Exchange {
  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }
}

type Descriptor = { readonly [name: string]: unknown };

function queueDescriptor(record: EdgeTableRecord): Descriptor {
  return { namespace: record.database, queue: record.name, partitions: record.partitions, storage: record.storage };
}

function databaseDescriptor(record: EdgeDatabaseRecord): Descriptor {
  return {
    tenant: 'local',
    database: record.name,
    active: record.active,
    comment: record.comment,
    revision: -1,
    createdAt: Math.floor(record.createdAtUs / 1000),
    createdBy: '',
    updatedAt: -1,
    updatedBy: '',
  };
}

function jsonReply<Outcome>(exchange: Exchange, toJson: (outcome: Outcome) => object): Reply<Outcome> {
  exchange.services.supervisor.handedOver(exchange);
  return replyWith<Outcome>(exchange, (outcome) => ({
    status: 200,
    body: Buffer.from(JSON.stringify(toJson(outcome))),
  }));
}

function isJsonType(request: BrokerRequest): boolean {
  const type = request.headers['content-type'];
  return type === undefined || /^application\/([a-z.+-]+\+)?json\s*(;|$)/i.test(type);
}

abstract class EdgeBodyExchange extends SmallBodyExchange {
  protected readonly bodyName = 'bad body';
  readonly names: readonly string[];

  constructor(services: Services, request: BrokerRequest, response: ServerResponse, names: readonly string[]) {
    super(services, request, response);
    this.names = names;
  }

  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }

  protected received(body: Uint8Array): void {
    const value = parseJson(body);
    if (!isJsonType(this.request)) this.fail('unsupported_media_type', 'Content-Type must be application/json');
    else if (!isObject(value)) this.fail('bad_request', 'the body must be a JSON object');
    else this.take(value);
  }

  protected abstract take(body: Readonly<Record<string, unknown>>): void;
}

/** POST /graph/v3/databases */
export class CreateDatabaseExchange extends EdgeBodyExchange {
  protected take(body: Readonly<Record<string, unknown>>): void {
    const { database, comment = '' } = body;
    if (typeof database !== 'string' || typeof comment !== 'string') {
      this.fail('bad_request', 'database must be a string, and comment one or absent');
    } else this.services.engine.edgeQueues.createDatabase(database, comment, jsonReply(this, databaseDescriptor));
  }
}

/** GET /graph/v3/databases and …/{database} */
export function showDatabases(exchange: Exchange, name: string | undefined): void {
  exchange.services.supervisor.handedOver(exchange);
  const reply = replyWith<readonly EdgeDatabaseRecord[]>(exchange, (records) => {
    const shown = name === undefined ? records.map(databaseDescriptor) : records.filter((each) => each.name === name);
    if (name === undefined) return { status: 200, body: Buffer.from(JSON.stringify(shown)) };
    const found = records.find((each) => each.name === name);
    const missing = { timestamp: Date.now(), status: 404, error: 'Not Found', message: `no database ${name}` };
    const value = found === undefined ? missing : databaseDescriptor(found);
    return { status: found === undefined ? 404 : 200, body: Buffer.from(JSON.stringify(value)) };
  });
  exchange.services.engine.edgeQueues.databases(reply);
}

/** POST /queue/v1/namespaces/{namespace}/queues */
export class CreateQueueExchange extends EdgeBodyExchange {
  protected take(body: Readonly<Record<string, unknown>>): void {
    const { queue, storage, partitions = edgeQueueLimits.partitionsDefault } = body;
    if (typeof queue !== 'string') this.fail('bad_request', 'queue must be a string');
    else if (typeof storage !== 'string') this.fail('bad_request', 'storage must be a string');
    else if (typeof partitions !== 'number' || !Number.isInteger(partitions)) {
      this.fail('bad_request', 'partitions must be a whole number');
    } else {
      const command = { database: this.names[0], queue, storage, partitions };
      this.services.engine.edgeQueues.create(command, jsonReply(this, queueDescriptor));
    }
  }
}

export function getQueue(exchange: Exchange, names: readonly string[]): void {
  exchange.services.engine.edgeQueues.get(names[0], names[1], jsonReply(exchange, queueDescriptor));
}

export function getPartitions(exchange: Exchange, names: readonly string[]): void {
  const toJson = ({ database, name, partitions }: EdgeTableRecord) => ({
    namespace: database,
    queue: name,
    partitions,
  });
  exchange.services.engine.edgeQueues.get(names[0], names[1], jsonReply(exchange, toJson));
}

export function setActive(exchange: Exchange, names: readonly string[], active: boolean): void {
  exchange.services.engine.edgeQueues.setActive(names[0], names[1], active, jsonReply(exchange, queueDescriptor));
}

export function deleteEdgeQueue(exchange: Exchange, names: readonly string[]): void {
  exchange.services.supervisor.handedOver(exchange);
  exchange.services.engine.edgeQueues.delete(names[0], names[1], {
    encode: () => undefined,
    send: (failure) => {
      if (failure === null) exchange.answerEmpty();
      else exchange.refuse(failure);
    },
  });
}

const acceptedIs = asciiBytes('{"accepted":');
const resultsAre = asciiBytes(',"results":[');
const partitionIs = asciiBytes('{"partition":');
const idIs = asciiBytes(',"id":"');
const createdIs = asciiBytes('","status":"CREATED"}');
const messagesAre = asciiBytes('{"messages":[');
const seqIs = asciiBytes('","seq":');
const valueIs = asciiBytes(',"value":');
const nullText = asciiBytes('null');
const offsetIs = asciiBytes('],"offset":');
const hasNextIs = asciiBytes(',"hasNext":');
const watermarkIs = asciiBytes(',"watermark":"');
const comma = 44;
const quote = 34;
const closeBracket = 93;
const closeBrace = 125;

const crockford = asciiBytes('0123456789ABCDEFGHJKMNPQRSTVWXYZ');

/** The 26 characters of a ULID of 4 words. */
function writeUlid(writer: ByteWriter, words: Uint32Array, at: number): void {
  for (let bit = 125; bit >= 0; bit -= 5) {
    const word = 3 - (bit >>> 5);
    const shift = bit & 31;
    let five = words[at + word] >>> shift;
    if (shift > 27 && word > 0) five |= words[at + word - 1] << (32 - shift);
    writer.byte(crockford[five & 31]);
  }
}

function writeSeq(writer: ByteWriter, high: number, low: number): void {
  // Below 2^53 and not negative: no bigint.
  if (high >= 0x8000_0000 && high < 0x8020_0000) writer.integer((high - 0x8000_0000) * 0x1_0000_0000 + low);
  else writer.raw(asciiBytes(seqText(high, low)));
}

/** POST …/queues/{queue}/messages */
export class EnqueueExchange extends BodyExchange implements Reply<EnqueueOutcome> {
  protected readonly bodyName = 'bad body';
  protected readonly badBodyCode = 'bad_request';
  readonly names: readonly string[];
  #answer: Uint8Array | null = null;

  constructor(services: Services, request: BrokerRequest, response: ServerResponse, names: readonly string[]) {
    super(services, request, response);
    this.names = names;
  }

  override fail(code: ErrorCode, message: string, retryAfterSeconds?: number): void {
    failEdge(this, code, message, retryAfterSeconds);
  }

  protected override bodyBytesMax(): number {
    return Math.min(edgeQueueLimits.bodyBytesMax, this.services.options.maxBodyBytes);
  }

  protected admissionFor(): Admission {
    return this.services.pushAdmission;
  }

  protected received(body: Uint8Array): void {
    const { edgeQueues } = this.services.engine;
    if (!isJsonType(this.request)) {
      this.releaseBody();
      this.fail('unsupported_media_type', 'Content-Type must be application/json');
      return;
    }
    const scanned = edgeQueues.scan(body);
    if (!scanned.ok) {
      this.releaseBody();
      this.fail(scanned.isTooLarge ? 'body_too_large' : 'bad_request', scanned.message);
      return;
    }
    this.services.supervisor.handedOver(this);
    edgeQueues.enqueue(this.names[0], this.names[1], scanned.items, this);
  }

  encode(outcome: EnqueueOutcome): void {
    if (this.answered) return;
    const { writer } = this.services;
    writer.reset();
    writer.raw(acceptedIs);
    writer.integer(outcome.count);
    writer.raw(resultsAre);
    for (let i = 0; i < outcome.count; i++) {
      if (i > 0) writer.byte(comma);
      writer.raw(partitionIs);
      writer.integer(outcome.sources[i]);
      writer.raw(idIs);
      writeUlid(writer, outcome.targets, i * 4);
      writer.raw(createdIs);
    }
    writer.byte(closeBracket);
    writer.byte(closeBrace);
    this.#answer = this.services.takeAnswer();
  }

  send(failure: Refusal | null): void {
    this.releaseBody();
    if (failure !== null) this.refuse(failure);
    else if (this.#answer !== null) this.answerJson(200, this.#answer);
  }
}

function int32(text: string, name: string): number {
  if (!/^-?\d{1,10}$/.test(text) || Number(text) !== (Number(text) | 0)) {
    throw new BadParameter(`${name} must be an integer of 32 bits`);
  }
  return Number(text);
}

function seqParameter(parameters: QueryParameters, name: string): Seq | null {
  const text = parameters.name(name);
  if (text === null) return null;
  const halves = new Uint32Array(2);
  const bytes = Buffer.from(text);
  if (!readSeq(bytes, 0, bytes.length, halves, 0)) throw new BadParameter(`${name} must be an integer of 64 bits`);
  return [halves[0], halves[1]];
}

/** Runs a handler that reads parameters; what they lack is a 400. */
function reading(exchange: Exchange, run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof BadParameter)) throw error;
    exchange.fail('bad_request', error.message);
  }
}

/** GET …/partitions/{partition}/poll */
export function pollQueue(exchange: Exchange, names: readonly string[], query: string): void {
  reading(exchange, () => {
    const { engine, writer, supervisor } = exchange.services;
    const parameters = new QueryParameters(query);
    const limit = int32(parameters.name('limit') ?? String(edgeQueueLimits.pollDefault), 'limit');
    if (limit < 1 || limit > edgeQueueLimits.pollMax) {
      throw new BadParameter(`limit must be in 1..${edgeQueueLimits.pollMax}, got ${limit}`);
    }
    const after = seqParameter(parameters, 'offset');
    const until = seqParameter(parameters, 'until');
    const partition = int32(names[2], 'partition');
    if (!supervisor.hasRoomForAnswer()) {
      exchange.failWithoutRoom();
      return;
    }
    supervisor.handedOver(exchange);
    const reply = replyWith<PolledPage>(exchange, (outcome) => {
      writer.reset();
      writePage(writer, partition, after, outcome);
      return { status: 200, body: exchange.services.takeAnswer() };
    });
    engine.edgeQueues.poll({ database: names[0], queue: names[1], partition, limit, after, until }, reply);
  });
}

function writePage(writer: ByteWriter, partition: number, after: Seq | null, outcome: PolledPage): void {
  const { page, values, ends } = outcome;
  const { words, count } = page;
  writer.raw(messagesAre);
  for (let i = 0; i < count; i++) {
    const w = i * edgeRow.words;
    if (i > 0) writer.byte(comma);
    writer.raw(partitionIs);
    writer.integer(partition);
    writer.raw(idIs);
    writeUlid(writer, words, w + edgeRow.targetAt);
    writer.raw(seqIs);
    writeSeq(writer, words[w], words[w + 1]);
    writer.raw(valueIs);
    const length = words[w + edgeRow.lengthAt];
    if (length === 0) writer.raw(nullText);
    else writer.copy(values, ends[i] - length, ends[i]);
    writer.byte(closeBrace);
  }
  writer.raw(offsetIs);
  if (count > 0) writeSeq(writer, words[(count - 1) * edgeRow.words], words[(count - 1) * edgeRow.words + 1]);
  else if (after !== null) writeSeq(writer, after[0], after[1]);
  else writer.raw(nullText);
  writer.raw(hasNextIs);
  writer.raw(asciiBytes(String(page.hasNext)));
  writer.raw(watermarkIs);
  writer.integer(outcome.watermark);
  writer.byte(quote);
  writer.byte(closeBrace);
}

/** DELETE …/partitions/{partition}/messages */
export function commitQueue(exchange: Exchange, names: readonly string[], query: string): void {
  reading(exchange, () => {
    const parameters = new QueryParameters(query);
    const partition = int32(names[2], 'partition');
    const offset = seqParameter(parameters, 'offset');
    if (offset === null) throw new BadParameter('offset is required');
    const mark = parameters.name('watermark');
    if (mark !== null && !/^\d{1,15}$/.test(mark)) throw new BadParameter('watermark is none that a poll gave');
    const watermark = mark === null ? Number.POSITIVE_INFINITY : Number(mark);
    const [database, queue] = names;
    exchange.services.engine.edgeQueues.commit(
      { database, queue, partition, offset, watermark },
      jsonReply(exchange, ({ committed }) => ({ namespace: database, queue, partition, committed })),
    );
  });
}
