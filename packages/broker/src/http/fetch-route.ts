/**
 * Reads by offset: POST /api/v1/fetch, /api/v1/fetch/offsets and /api/v1/partitions/changed.
 *
 * The answers of the first and the last may be large. They are written while they are read, each by a writer of its own,
 * and count as held for clients from the first byte on.
 */

import { asciiBytes, type BlockReader, ByteWriter } from '../codec/mod.ts';
import { partitionIdIndex, type Refusal } from '../core/mod.ts';
import type {
  ChangedEntry,
  ChangedPartition,
  ChangedReply,
  EntryError,
  FetchReply,
  FetchRequest,
  FoundOffset,
  OffsetsEntry,
  PartitionBounds,
} from '../runtime/mod.ts';
import { pieceBytes, pieceCapacity } from './answer-pieces.ts';
import { BadField, cursorText, readChangedBody, readFetchBody, readOffsetsBody } from './fetch-body.ts';
import { writeUuid } from './pop-answer.ts';
import { parseJson, SmallBodyExchange } from './small-body.ts';

const entriesAre = asciiBytes('{"entries":[');
const queueIs = asciiBytes('{"queue":');
const partitionIs = asciiBytes(',"partition":');
const recordsAre = asciiBytes(',"records":[');
const highWatermarkIs = asciiBytes('],"highWatermark":');
const nextHighWatermarkIs = asciiBytes(',"highWatermark":');
const logStartOffsetIs = asciiBytes(',"logStartOffset":');
const errorIs = asciiBytes(',"error":"');
const offsetIs = asciiBytes('{"offset":');
const nextOffsetIs = asciiBytes(',"offset":');
const nullText = asciiBytes('null');
const transactionIdIs = asciiBytes(',"transactionId":');
const payloadIs = asciiBytes(',"payload":');
const tsIs = asciiBytes(',"ts":"');
const dueAtIs = asciiBytes('","dueAt":"');
const cancelledCloseBrace = asciiBytes('","cancelled":true}');
const nextTsIs = asciiBytes(',"ts":');
const quoteCloseBrace = asciiBytes('"}');
const endOfEntries = asciiBytes(']}');
const safeTimeIs = asciiBytes('{"safeTime":"');
const quoteDegradedIs = asciiBytes('","safeTimeDegraded":false,"entries":[');
const partitionsAre = asciiBytes(',"partitions":[');
const nameIs = asciiBytes('{"name":');
const idIs = asciiBytes(',"id":"');
const quoteLastOffsetIs = asciiBytes('","lastOffset":');
const logStartIs = asciiBytes(',"logStart":');
const lastWriteAtIs = asciiBytes(',"lastWriteAt":"');
const nextIs = asciiBytes('],"next":');
const minusOne = asciiBytes('-1');
const comma = 44;
const quote = 34;
const closeBrace = 125;

/** What an answer begins with; most are small. */
const answerBytesAtFirst = 4096;

/** A read whose answer is written piece by piece. */
abstract class ReadExchange<Request> extends SmallBodyExchange {
  protected writer = new ByteWriter(answerBytesAtFirst);
  /** What was written before the writer's first byte. */
  #pieces: Uint8Array[] = [];
  #piecesBytes = 0;
  #held = 0;
  #cancel: (() => void) | null = null;

  protected abstract read(body: unknown): Request;
  /** Hands the request over; the result cancels it. */
  protected abstract ask(request: Request): (() => void) | null;

  get bytes(): number {
    return this.#piecesBytes + this.writer.length;
  }

  protected received(body: Uint8Array): void {
    let request: Request;
    try {
      request = this.read(parseJson(body));
    } catch (error) {
      if (!(error instanceof BadField)) throw error;
      this.fail('bad_request', error.message);
      return;
    }
    const cancel = this.ask(request);
    if (this.answered) return;
    this.#cancel = cancel;
    this.response.once('close', () => this.#gone());
  }

  /** Forgets what was written. A refusal when there is no memory for an answer. */
  protected beginAnswer(): Refusal | null {
    this.#forget();
    const { supervisor } = this.services;
    if (!supervisor.hasRoomForAnswer()) return noRoom;
    if (this.list === null && !this.answered) supervisor.handedOver(this);
    return null;
  }

  /** Counts what was written as memory that waits for the client. */
  protected hold(): void {
    const { supervisor } = this.services;
    supervisor.heldBytes += this.bytes - this.#held;
    this.#held = this.bytes;
  }

  /** Begins the next piece when this one is full; call it between two rows. */
  protected endPiece(): void {
    const { writer } = this;
    if (writer.length < pieceBytes) return;
    this.#piecesBytes += writer.length;
    this.#pieces.push(writer.bytes.subarray(0, writer.length));
    this.writer = new ByteWriter(pieceCapacity, this.services.pieces.take());
  }

  send(failure: Refusal | null): void {
    this.#cancel = null;
    const { writer } = this;
    const pieces = this.#pieces;
    const isWanted = failure === null && !this.answered;
    if (isWanted && pieces.length > 0) pieces.push(writer.bytes.subarray(0, writer.length));
    const whole = isWanted && pieces.length === 0 ? writer.take() : null;
    this.#drop();
    if (failure !== null) this.refuse(failure);
    else if (whole !== null) this.answerJson(200, whole);
    else if (isWanted) this.answerJsonPieces(200, pieces, () => this.services.pieces.keep(pieces));
  }

  override overdue(): void {
    super.overdue();
    this.#gone();
  }

  #gone(): void {
    const cancel = this.#cancel;
    if (cancel === null) return;
    this.#cancel = null;
    this.answered = true;
    this.services.supervisor.done(this);
    cancel();
    this.#drop();
  }

  #drop(): void {
    this.#forget();
    this.writer = noWriter;
  }

  #forget(): void {
    this.writer.reset();
    this.#pieces = [];
    this.#piecesBytes = 0;
    this.hold();
  }
}

/** In the place of a writer that is not needed any more. */
const noWriter = new ByteWriter(0);

const noRoom: Refusal = {
  ok: false,
  code: 'retry',
  message: 'too many answer bytes that clients have not read yet',
  retryAfterSeconds: 1,
};

function writeError(writer: ByteWriter, error: EntryError): void {
  writer.raw(errorIs);
  writer.raw(Buffer.from(error));
  writer.byte(quote);
}

function writeBounds(writer: ByteWriter, bounds: PartitionBounds): void {
  writer.integer(bounds.highWatermark);
  writer.raw(logStartOffsetIs);
  writer.integer(bounds.logStart);
  if (bounds.error !== null) writeError(writer, bounds.error);
  writer.byte(closeBrace);
}

/** POST /api/v1/fetch */
export class FetchExchange extends ReadExchange<FetchRequest> implements FetchReply {
  protected readonly bodyName = 'bad fetch body';
  #request: FetchRequest | null = null;
  #hasRecords = false;

  protected read(body: unknown): FetchRequest {
    return readFetchBody(body);
  }

  protected ask(request: FetchRequest): () => void {
    const { engine, supervisor } = this.services;
    this.#request = request;
    // One that waits has its own time until it reads.
    if (request.maxWaitMs === 0) supervisor.handedOver(this);
    return engine.reads.fetch(request, this);
  }

  begin(): Refusal | null {
    const refusal = this.beginAnswer();
    this.writer.raw(entriesAre);
    if (this.#request?.entries.length === 0) this.writer.raw(endOfEntries);
    return refusal;
  }

  openEntry(index: number): void {
    const { writer } = this;
    const { queue, partition } = this.#entry(index);
    if (index > 0) writer.byte(comma);
    writer.raw(queueIs);
    writer.jsonText(queue);
    writer.raw(partitionIs);
    writer.jsonText(partition);
    writer.raw(recordsAre);
    this.#hasRecords = false;
  }

  record(block: BlockReader, index: number, bytes: Uint8Array, start: number, end: number, dueUs: number): void {
    const { writer } = this;
    if (this.#hasRecords) writer.byte(comma);
    this.#hasRecords = true;
    writer.raw(offsetIs);
    writer.integer(block.firstOffset + index);
    writer.raw(transactionIdIs);
    if (block.idStart >= 0) {
      writer.jsonBytes(block.bytes, block.idStart, block.idEnd);
    } else {
      writer.byte(quote);
      if (block.messageIdStart >= 0) writeUuid(writer, block.bytes, block.messageIdStart);
      else writer.id(this.services.engine.identity, block.stampUs, block.pid, index);
      writer.byte(quote);
    }
    writer.raw(payloadIs);
    writer.copy(bytes, start, end);
    writer.raw(tsIs);
    writer.timestamp(block.stampUs);
    if (dueUs > 0) {
      writer.raw(dueAtIs);
      writer.timestamp(dueUs);
    }
    writer.raw(dueUs < 0 ? cancelledCloseBrace : quoteCloseBrace);
    this.endPiece();
  }

  closeEntry(index: number, bounds: PartitionBounds): void {
    this.writer.raw(highWatermarkIs);
    writeBounds(this.writer, bounds);
    if (this.#request !== null && index === this.#request.entries.length - 1) this.writer.raw(endOfEntries);
    this.hold();
  }

  hasRoom(): boolean {
    // Looked at for each record, and worth a look only now and then.
    if (this.bytes - this.#roomSeenAt < roomStepBytes && this.bytes >= this.#roomSeenAt) return true;
    this.#roomSeenAt = this.bytes;
    this.hold();
    return this.services.supervisor.hasRoomForAnswer();
  }

  #roomSeenAt = 0;

  #entry(index: number) {
    return (this.#request as FetchRequest).entries[index];
  }
}

/** Answer bytes after which a fetch looks again whether there is memory for more. */
const roomStepBytes = 64 * 1024;

/** POST /api/v1/fetch/offsets */
export class FetchOffsetsExchange extends ReadExchange<readonly OffsetsEntry[]> {
  protected readonly bodyName = 'bad fetch body';
  #entries: readonly OffsetsEntry[] = [];

  protected read(body: unknown): readonly OffsetsEntry[] {
    return readOffsetsBody(body);
  }

  protected ask(entries: readonly OffsetsEntry[]): null {
    this.#entries = entries;
    this.services.supervisor.handedOver(this);
    this.services.engine.reads.fetchOffsets(entries, this);
    return null;
  }

  encode(found: readonly FoundOffset[]): void {
    const { writer } = this;
    writer.raw(entriesAre);
    for (let i = 0; i < found.length; i++) {
      const place = found[i];
      if (i > 0) writer.byte(comma);
      writer.raw(queueIs);
      writer.jsonText(this.#entries[i].queue);
      writer.raw(partitionIs);
      writer.jsonText(this.#entries[i].partition);
      writer.raw(nextOffsetIs);
      if (place.offset < 0) writer.raw(nullText);
      else writer.integer(place.offset);
      writer.raw(nextTsIs);
      if (place.offset < 0) {
        writer.raw(nullText);
      } else {
        writer.byte(quote);
        writer.timestamp(place.stampUs);
        writer.byte(quote);
      }
      writer.raw(nextHighWatermarkIs);
      writeBounds(writer, place);
    }
    writer.raw(endOfEntries);
    this.hold();
  }
}

/** POST /api/v1/partitions/changed */
export class ChangedExchange extends ReadExchange<readonly ChangedEntry[]> implements ChangedReply {
  protected readonly bodyName = 'bad changed body';
  #entries: readonly ChangedEntry[] = [];
  #entriesWritten = 0;
  #hasRows = false;

  protected read(body: unknown): readonly ChangedEntry[] {
    return readChangedBody(body);
  }

  protected ask(entries: readonly ChangedEntry[]): (() => void) | null {
    this.#entries = entries;
    const refusal = this.beginAnswer();
    if (refusal === null) return this.services.engine.reads.changed(entries, this);
    this.refuse(refusal);
    return null;
  }

  begin(safeTimeUs: number): void {
    this.writer.raw(safeTimeIs);
    this.writer.timestamp(safeTimeUs);
    this.writer.raw(quoteDegradedIs);
    if (this.#entries.length === 0) this.writer.raw(endOfEntries);
  }

  openEntry(index: number): void {
    this.#beginEntry(index);
    this.writer.raw(partitionsAre);
    this.#hasRows = false;
  }

  partition(row: ChangedPartition): void {
    const { writer } = this;
    if (this.#hasRows) writer.byte(comma);
    this.#hasRows = true;
    writer.raw(nameIs);
    writer.jsonBytes(row.name, 0, row.name.length);
    writer.raw(idIs);
    writer.id(this.services.engine.identity, row.createdAtUs, row.pid, partitionIdIndex);
    writer.raw(quoteLastOffsetIs);
    if (row.nextOffset === 0) writer.raw(minusOne);
    else writer.integer(row.nextOffset - 1);
    writer.raw(logStartIs);
    writer.integer(row.logStart);
    writer.raw(lastWriteAtIs);
    writer.timestamp(row.lastStampUs);
    writer.raw(quoteCloseBrace);
    this.endPiece();
  }

  closeEntry(next: number): void {
    const { writer } = this;
    writer.raw(nextIs);
    if (next < 0) writer.raw(nullText);
    else writer.jsonText(cursorText(next));
    this.#endEntry();
  }

  failEntry(index: number, error: EntryError): void {
    this.#beginEntry(index);
    writeError(this.writer, error);
    this.#endEntry();
  }

  #beginEntry(index: number): void {
    if (index > 0) this.writer.byte(comma);
    this.writer.raw(queueIs);
    this.writer.jsonText(this.#entries[index].queue);
  }

  #endEntry(): void {
    this.writer.byte(closeBrace);
    this.#entriesWritten++;
    if (this.#entriesWritten === this.#entries.length) this.writer.raw(endOfEntries);
    this.hold();
  }
}
