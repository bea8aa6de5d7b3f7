/** /queue/v1 */
import type { ServerResponse } from 'node:http';
import { asciiBytes, type ByteWriter, seqText } from '../codec/mod.ts';
import {
  type EdgeTableRecord,
  type EnqueueOutcome,
  edgeQueueLimits,
  edgeRow,
  type QueueDepth,
  type Refusal,
  type Seq,
} from '../core/mod.ts';
import type { PolledPage, Reply } from '../runtime/mod.ts';
import {
  EdgeBodyExchange,
  type EdgeExchange,
  EdgeWriteExchange,
  HeldReply,
  int32,
  jsonReply,
  limitOf,
  readingQuery,
  seqOf,
  wordOf,
} from './edge-exchange.ts';
import type { BrokerRequest } from './exchange.ts';
import { BadParameter, type QueryParameters } from './query-parameters.ts';
import type { Services } from './services.ts';
import { readUlid, writeUlid } from './ulid.ts';

type Names = readonly string[];

const createdIs = asciiBytes('","status":"CREATED"}');
const duplicateIs = asciiBytes('","status":"DUPLICATE"}');
const acceptedIs = asciiBytes('{"accepted":');
const resultsAre = asciiBytes(',"results":[');
const partitionIs = asciiBytes('{"partition":');
const idIs = asciiBytes(',"id":"');
const messagesAre = asciiBytes('{"messages":[');
const seqIs = asciiBytes('","seq":');
const valueIs = asciiBytes(',"value":');
const nullText = asciiBytes('null');
const offsetIs = asciiBytes('],"offset":');
const lastIdIs = asciiBytes(',"lastId":"');
const hasNextIs = asciiBytes(',"hasNext":');
const watermarkIs = asciiBytes(',"watermark":"');
const comma = 44;
const quote = 34;
const closeBracket = 93;
const closeBrace = 125;

function queueJson(record: EdgeTableRecord): object {
  const { database: namespace, name: queue, queue: settings, storage } = record;
  return { namespace, queue, partitions: settings?.partitions, storage };
}

/** POST …/queues */
export function createQueue(
  services: Services,
  request: BrokerRequest,
  response: ServerResponse,
  [database]: Names,
): EdgeBodyExchange {
  return new EdgeBodyExchange(services, request, response, (exchange, body) => {
    const { partitionsDefault, dedupMsDefault } = edgeQueueLimits;
    const { queue, storage, partitions = partitionsDefault, dedupWindowMs = dedupMsDefault } = body;
    if (typeof queue !== 'string') exchange.fail('bad_request', 'queue must be a string');
    else if (typeof storage !== 'string') exchange.fail('bad_request', 'storage must be a string');
    else if (typeof partitions !== 'number' || !Number.isInteger(partitions)) {
      exchange.fail('bad_request', 'partitions must be a whole number');
    } else if (typeof dedupWindowMs !== 'number' || !Number.isInteger(dedupWindowMs)) {
      exchange.fail('bad_request', 'dedupWindowMs must be a whole number');
    } else {
      const command = { database, queue, storage, partitions, dedupMs: dedupWindowMs };
      services.engine.edgeQueues.create(command, jsonReply(exchange, queueJson));
    }
  });
}

/** GET …/queues/{queue} */
export function getQueue(exchange: EdgeExchange, [database, queue]: Names): void {
  exchange.services.engine.edgeQueues.get(database, queue, jsonReply(exchange, queueJson));
}

/** GET …/queues/{queue}/partitions */
export function getPartitions(exchange: EdgeExchange, [database, queue]: Names): void {
  const toJson = (record: EdgeTableRecord) => ({
    namespace: record.database,
    queue: record.name,
    partitions: record.queue?.partitions,
  });
  exchange.services.engine.edgeQueues.get(database, queue, jsonReply(exchange, toJson));
}

/** PUT …/queues/{queue}/enable and …/disable */
export function setActive(exchange: EdgeExchange, [database, queue]: Names, active: boolean): void {
  exchange.services.engine.edgeQueues.setActive(database, queue, active, jsonReply(exchange, queueJson));
}

/** DELETE …/queues/{queue} */
export function deleteEdgeQueue(exchange: EdgeExchange, [database, queue]: Names): void {
  exchange.services.supervisor.handedOver(exchange);
  exchange.services.engine.edgeQueues.delete(database, queue, {
    encode: () => undefined,
    send: (failure) => {
      if (failure === null) exchange.answerEmpty();
      else exchange.refuse(failure);
    },
  });
}

/** DELETE …/queues/{queue}/messages */
export function purgeQueue(exchange: EdgeExchange, [namespace, queue]: Names): void {
  const toJson = ({ purged }: { readonly purged: number }) => ({ namespace, queue, purged });
  exchange.services.engine.edgeQueues.purge(namespace, queue, jsonReply(exchange, toJson));
}

/** GET …/queues */
export function listEdgeQueues(exchange: EdgeExchange, [database]: Names): void {
  const toJson = (queues: readonly QueueDepth[]) => ({
    count: queues.length,
    queues: queues.map(({ record, depth, lagMs }) => ({
      ...queueJson(record),
      active: record.active,
      depth,
      lagMs,
    })),
  });
  exchange.services.engine.edgeQueues.list(database, jsonReply(exchange, toJson));
}

/** GET …/queues/{queue}/depth */
export function getDepth(exchange: EdgeExchange, [database, queue]: Names, query: string): void {
  readingQuery(exchange, query, (parameters) => {
    const writeSeqs = seqWriter(parameters);
    const reply = new HeldReply<QueueDepth>(exchange, (writer, found) => writeDepth(writer, found, writeSeqs));
    exchange.services.supervisor.handedOver(exchange);
    exchange.services.engine.edgeQueues.depth(database, queue, reply);
  });
}

function writeDepth(writer: ByteWriter, found: QueueDepth, writeSeqs: SeqWriter): void {
  const { record, depth, lagMs, partitions } = found;
  const head = JSON.stringify({ ...queueJson(record), depth, lagMs });
  writer.raw(Buffer.from(`${head.slice(0, -1)},"byPartition":[`));
  partitions.forEach((each, i) => {
    if (i > 0) writer.byte(comma);
    writer.raw(partitionIs);
    writer.integer(each.partition);
    writer.raw(asciiBytes(`,"depth":${each.depth},"lagMs":${each.lagMs},"firstSeq":`));
    writeSeqs(writer, ...each.firstSeq);
    writer.raw(asciiBytes(',"lastSeq":'));
    writeSeqs(writer, ...each.lastSeq);
    writer.byte(closeBrace);
  });
  writer.byte(closeBracket);
  writer.byte(closeBrace);
}

type SeqWriter = (writer: ByteWriter, high: number, low: number) => void;

function writeBareSeq(writer: ByteWriter, high: number, low: number): void {
  // Below 2^53 and not negative: no bigint.
  if (high >= 0x8000_0000 && high < 0x8020_0000) writer.integer((high - 0x8000_0000) * 0x1_0000_0000 + low);
  else writer.raw(asciiBytes(seqText(high, low)));
}

function writeQuotedSeq(writer: ByteWriter, high: number, low: number): void {
  writer.byte(quote);
  writeBareSeq(writer, high, low);
  writer.byte(quote);
}

/** `longs=string`: numbers of 64 bits are strings, for clients whose numbers are doubles. */
function seqWriter(parameters: QueryParameters): SeqWriter {
  return wordOf(parameters, 'longs', ['string']) === null ? writeBareSeq : writeQuotedSeq;
}

/** POST …/queues/{queue}/messages */
export class EnqueueExchange extends EdgeWriteExchange implements Reply<EnqueueOutcome> {
  readonly #names: Names;
  readonly #query: string;
  #answer: Uint8Array | null = null;

  constructor(services: Services, request: BrokerRequest, response: ServerResponse, names: Names, query: string) {
    super(services, request, response);
    this.#names = names;
    this.#query = query;
  }

  protected override bodyBytesMax(): number {
    return Math.min(edgeQueueLimits.bodyBytesMax, this.services.options.maxBodyBytes);
  }

  protected take(body: Uint8Array): void {
    readingQuery(this, this.#query, (parameters) => {
      const { edgeQueues } = this.services.engine;
      const scanned = edgeQueues.scan(body, wordOf(parameters, 'longs', ['string']) !== null);
      if (!scanned.ok) {
        this.refuseBody(scanned.isTooLarge ? 'body_too_large' : 'bad_request', scanned.message);
        return;
      }
      this.services.supervisor.handedOver(this);
      edgeQueues.enqueue(this.#names[0], this.#names[1], scanned.items, this);
    });
    if (this.answered) this.releaseBody();
  }

  encode({ count, created, sources, targets, duplicates }: EnqueueOutcome): void {
    if (this.answered) return;
    const { writer } = this.services;
    writer.reset();
    writer.raw(acceptedIs);
    writer.integer(created);
    writer.raw(resultsAre);
    for (let i = 0; i < count; i++) {
      if (i > 0) writer.byte(comma);
      writer.raw(partitionIs);
      writer.integer(sources[i]);
      writer.raw(idIs);
      writeUlid(writer, targets, i * 4);
      writer.raw(duplicates?.[i] === 1 ? duplicateIs : createdIs);
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

function optionalSeq(parameters: QueryParameters, name: string): Seq | null {
  const text = parameters.name(name);
  return text === null ? null : seqOf(text, name);
}

function ulidOf(text: string, name: string): Uint32Array {
  const target = readUlid(text);
  if (target === null) throw new BadParameter(`${name} must be the id of a message`);
  return target;
}

/** `after=<seq>,<id>`; null when it was not sent. */
function compoundOf(parameters: QueryParameters): { readonly seq: Seq; readonly target: Uint32Array } | null {
  const text = parameters.name('after');
  if (text === null) return null;
  if (parameters.name('offset') !== null) throw new BadParameter('after and offset exclude each other');
  const comma = text.indexOf(',');
  const [seq, id] = comma < 0 ? [text, ''] : [text.slice(0, comma), text.slice(comma + 1)];
  return { seq: seqOf(seq, 'the seq of after'), target: ulidOf(id, 'the id of after') };
}

function waitOf(parameters: QueryParameters): number {
  const text = parameters.name('waitMs');
  const waitMs = text === null ? 0 : int32(text, 'waitMs');
  const { pollWaitMsMax } = edgeQueueLimits;
  if (waitMs >= 0 && waitMs <= pollWaitMsMax) return waitMs;
  throw new BadParameter(`waitMs must be in 0..${pollWaitMsMax}, got ${waitMs}`);
}

/** How a page is shown. */
interface PageForm {
  readonly partition: number;
  /** What an empty page says. */
  readonly offset: Seq | null;
  /** The same, of a poll that goes on behind a message; null of any other. */
  readonly lastId: Uint32Array | null;
  readonly writeSeqs: SeqWriter;
}

/** GET …/partitions/{partition}/poll */
export function pollQueue(exchange: EdgeExchange, names: Names, query: string): void {
  readingQuery(exchange, query, (parameters) => {
    const { engine, supervisor } = exchange.services;
    const limit = limitOf(parameters, edgeQueueLimits.pollMax, edgeQueueLimits.pollDefault);
    const compound = compoundOf(parameters);
    const offset = optionalSeq(parameters, 'offset');
    const until = parameters.name('until') === 'now' ? 'now' : optionalSeq(parameters, 'until');
    const waitMs = waitOf(parameters);
    const writeSeqs = seqWriter(parameters);
    const [database, queue, partitionText] = names;
    const partition = int32(partitionText, 'partition');
    if (!supervisor.hasRoomForAnswer()) {
      exchange.failWithoutRoom();
      return;
    }
    // One that waits has its own time.
    if (waitMs === 0) supervisor.handedOver(exchange);
    const after = compound?.seq ?? offset;
    const afterTarget = compound?.target ?? null;
    const form = { partition, offset: after, lastId: afterTarget, writeSeqs };
    const cancel = engine.edgeQueues.poll(
      { database, queue, partition, limit, after, afterTarget, until },
      waitMs,
      new HeldReply<PolledPage>(exchange, (writer, page) => writePage(writer, page, form)),
    );
    if (waitMs > 0) exchange.response.once('close', cancel);
  });
}

function writePage(writer: ByteWriter, outcome: PolledPage, form: PageForm): void {
  const { page, values, ends } = outcome;
  const { words, count } = page;
  writer.raw(messagesAre);
  for (let i = 0; i < count; i++) {
    const w = i * edgeRow.words;
    if (i > 0) writer.byte(comma);
    writer.raw(partitionIs);
    writer.integer(form.partition);
    writer.raw(idIs);
    writeUlid(writer, words, w + edgeRow.targetAt);
    writer.raw(seqIs);
    form.writeSeqs(writer, words[w], words[w + 1]);
    writer.raw(valueIs);
    const length = words[w + edgeRow.lengthAt];
    if (length === 0) writer.raw(nullText);
    else writer.copy(values, ends[i] - length, ends[i]);
    writer.byte(closeBrace);
  }
  writer.raw(offsetIs);
  const last = (count - 1) * edgeRow.words;
  if (count > 0) form.writeSeqs(writer, words[last], words[last + 1]);
  else if (form.offset !== null) form.writeSeqs(writer, ...form.offset);
  else writer.raw(nullText);
  if (form.lastId !== null) {
    writer.raw(lastIdIs);
    if (count === 0) writeUlid(writer, form.lastId, 0);
    else writeUlid(writer, words, last + edgeRow.targetAt);
    writer.byte(quote);
  }
  writer.raw(hasNextIs);
  writer.raw(asciiBytes(String(page.hasNext)));
  writer.raw(watermarkIs);
  writer.integer(outcome.watermark);
  writer.byte(quote);
  writer.byte(closeBrace);
}

/** DELETE …/partitions/{partition}/messages */
export function commitQueue(exchange: EdgeExchange, names: Names, query: string): void {
  readingQuery(exchange, query, (parameters) => {
    const [database, queue, partitionText] = names;
    const partition = int32(partitionText, 'partition');
    const offset = optionalSeq(parameters, 'offset');
    if (offset === null) throw new BadParameter('offset is required');
    const mark = parameters.name('watermark');
    if (mark !== null && !/^\d{1,15}$/.test(mark)) throw new BadParameter('watermark is none that a poll gave');
    const watermark = mark === null ? Number.POSITIVE_INFINITY : Number(mark);
    const id = parameters.name('id');
    const target = id === null ? null : ulidOf(id, 'id');
    exchange.services.engine.edgeQueues.commit(
      { database, queue, partition, offset, target, watermark },
      jsonReply(exchange, ({ committed }) => ({ namespace: database, queue, partition, committed })),
    );
  });
}
