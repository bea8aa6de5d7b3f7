/**
 * The answer of a pop that delivers something.
 *
 * What the messages of the answer or of a partition have in common is written once, aside, and copied into each of them;
 * the payload is copied as the client sent it.
 */

import { asciiBytes, BlockReader, ByteWriter, recordFlag } from '../codec/mod.ts';
import type { BrokerIdentity, DeliveredPiece, DeliveredRun, PopOutcome } from '../core/mod.ts';

type Decrypt = ((bytes: Uint8Array, start: number, end: number) => Uint8Array) | null;

/** A payload cannot be shown as the client sent it: there is no key, or not the right one. */
export class Undecipherable extends Error {
  override readonly name = 'Undecipherable';
}

const successQueueIs = asciiBytes('{"success":true,"queue":');
const partitionIs = asciiBytes(',"partition":');
const partitionIdIs = asciiBytes(',"partitionId":"');
const quoteLeaseIdIs = asciiBytes('","leaseId":"');
const quoteGroupIs = asciiBytes('","consumerGroup":');
const messagesAre = asciiBytes(',"messages":[');
const noPartition = asciiBytes(',"partition":"","partitionId":"');
const partitionsClaimedIs = asciiBytes('],"partitionsClaimed":');
const conflationOn = asciiBytes(',"conflation":true');
const conflationConflict = asciiBytes(',"conflationConflict":true');
const autopilotPartitionsAre = asciiBytes(',"autopilot":{"partitions":');
const batchIs = asciiBytes(',"batch":');

const idIs = asciiBytes('{"id":"');
const quoteTransactionIdIs = asciiBytes('","transactionId":');
const traceIdIs = asciiBytes(',"traceId":"');
const noTraceId = asciiBytes(',"traceId":null,"data":');
const quoteDataIs = asciiBytes('","data":');
const headersAre = asciiBytes(',"headers":');
const producerSubIs = asciiBytes(',"producerSub":');
const noProducerSub = asciiBytes(',"producerSub":null');
const createdAtIs = asciiBytes(',"createdAt":"');
const quotePartitionIdIs = asciiBytes('","partitionId":"');
const quotePartitionIs = asciiBytes('","partition":');
const leaseIdIs = asciiBytes(',"leaseId":"');
const deliveryAttemptIs = asciiBytes(',"deliveryAttempt":');
const offsetIs = asciiBytes(',"offset":');

const comma = 44;
const quote = 34;
const closeBrace = 125;
const dash = 45;
const hex = asciiBytes('0123456789abcdef');

/** The text form of 16 stored bytes. */
export function writeUuid(writer: ByteWriter, bytes: Uint8Array, at: number): void {
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) writer.byte(dash);
    const value = bytes[at + i];
    writer.byte(hex[value >>> 4]);
    writer.byte(hex[value & 15]);
  }
}

export class PopAnswerWriter {
  readonly #writer: ByteWriter;
  readonly #identity: BrokerIdentity;
  readonly #decrypt: Decrypt;
  readonly #reader = new BlockReader();
  /** From `","partitionId` to the number of a message's offset: the same for all messages of a run. */
  readonly #runTail = new ByteWriter(1024);
  /** From `,"leaseId` to the number of the delivery: the same for all messages of an answer. */
  readonly #answerTail = new ByteWriter(1024);

  /** @param decrypt payload bytes[start, end) of an encrypted record into its JSON text */
  constructor(writer: ByteWriter, identity: BrokerIdentity, decrypt: Decrypt) {
    this.#writer = writer;
    this.#identity = identity;
    this.#decrypt = decrypt;
  }

  /** Writes the whole answer. Throws Undecipherable, and has then written part of it. Also one without messages, which reports a conflation. */
  write(outcome: PopOutcome): void {
    const writer = this.#writer;
    const { runs } = outcome;
    writer.raw(successQueueIs);
    writer.jsonText(outcome.queue);
    if (runs.length === 0) {
      writer.raw(noPartition);
    } else {
      writer.raw(partitionIs);
      writer.jsonBytes(runs[0].names, runs[0].nameStart, runs[0].nameEnd);
      writer.raw(partitionIdIs);
      writer.integer(runs[0].pid);
    }
    writer.raw(quoteLeaseIdIs);
    this.#leaseId(writer, outcome.leaseStamp);
    writer.raw(quoteGroupIs);
    writer.jsonText(outcome.group);
    writer.raw(messagesAre);
    const tail = this.#answerTail;
    tail.reset();
    tail.raw(leaseIdIs);
    this.#leaseId(tail, outcome.leaseStamp);
    tail.raw(quoteGroupIs);
    tail.jsonText(outcome.group);
    tail.raw(deliveryAttemptIs);
    const firstMessageAt = writer.length;
    for (const run of runs) this.#run(run, firstMessageAt);
    writer.raw(partitionsClaimedIs);
    writer.integer(runs.length);
    if (outcome.conflation) writer.raw(conflationOn);
    if (outcome.conflationConflict) writer.raw(conflationConflict);
    if (outcome.autopilot !== null) {
      writer.raw(autopilotPartitionsAre);
      writer.integer(outcome.autopilot.partitions);
      writer.raw(batchIs);
      writer.integer(outcome.autopilot.batch);
      writer.byte(closeBrace);
    }
    writer.byte(closeBrace);
  }

  #leaseId(writer: ByteWriter, leaseStamp: number): void {
    if (leaseStamp > 0) writer.id(this.#identity, leaseStamp, 0, 0);
  }

  #run(run: DeliveredRun, firstMessageAt: number): void {
    const tail = this.#runTail;
    tail.reset();
    tail.raw(quotePartitionIdIs);
    tail.integer(run.pid);
    tail.raw(quotePartitionIs);
    tail.jsonBytes(run.names, run.nameStart, run.nameEnd);
    tail.copy(this.#answerTail.bytes, 0, this.#answerTail.length);
    tail.integer(run.attempt);
    tail.raw(offsetIs);
    for (const piece of run.pieces) this.#piece(piece, firstMessageAt);
  }

  #piece(piece: DeliveredPiece, firstMessageAt: number): void {
    const writer = this.#writer;
    const reader = this.#reader.open(piece.bytes, piece.view, piece.at);
    const runTail = this.#runTail;
    for (let i = piece.fromIndex; i < piece.toIndex; i++) {
      reader.select(i);
      if (writer.length > firstMessageAt) writer.byte(comma);
      writer.raw(idIs);
      this.#messageId(i);
      writer.raw(quoteTransactionIdIs);
      if (reader.idStart >= 0) {
        writer.jsonBytes(reader.bytes, reader.idStart, reader.idEnd);
      } else {
        writer.byte(quote);
        this.#messageId(i);
        writer.byte(quote);
      }
      if (reader.traceStart < 0) {
        writer.raw(noTraceId);
      } else {
        writer.raw(traceIdIs);
        writeUuid(writer, reader.bytes, reader.traceStart);
        writer.raw(quoteDataIs);
      }
      if ((reader.flags & recordFlag.encrypted) === 0) {
        writer.copy(reader.bytes, reader.payloadStart, reader.payloadEnd);
      } else {
        writer.raw(this.#decrypted());
      }
      if (reader.subjectStart < 0) {
        writer.raw(noProducerSub);
      } else {
        writer.raw(producerSubIs);
        writer.jsonBytes(reader.bytes, reader.subjectStart, reader.subjectEnd);
      }
      if (reader.headersStart >= 0) {
        writer.raw(headersAre);
        writer.copy(reader.bytes, reader.headersStart, reader.headersEnd);
      }
      writer.raw(createdAtIs);
      writer.timestamp(reader.stampUs);
      writer.copy(runTail.bytes, 0, runTail.length);
      writer.integer(reader.firstOffset + i);
      writer.byte(closeBrace);
    }
  }

  #decrypted(): Uint8Array {
    const { bytes, payloadStart, payloadEnd } = this.#reader;
    if (this.#decrypt === null) throw new Undecipherable('the payload is encrypted, and the broker has no key');
    try {
      return this.#decrypt(bytes, payloadStart, payloadEnd);
    } catch (error) {
      throw new Undecipherable('the payload is encrypted, and not with the key of the broker', { cause: error });
    }
  }

  /** The id of the selected record: stored with it when the record has been moved, else made of where it lies. */
  #messageId(index: number): void {
    const reader = this.#reader;
    if (reader.messageIdStart >= 0) writeUuid(this.#writer, reader.bytes, reader.messageIdStart);
    else this.#writer.id(this.#identity, reader.stampUs, reader.pid, index);
  }
}
