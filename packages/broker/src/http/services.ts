/** What all exchanges of one server share. */

import { ByteWriter, keptBytesMax } from '../codec/mod.ts';
import type { Engine } from '../runtime/mod.ts';
import { Admission } from './admission.ts';
import { AnswerPieces } from './answer-pieces.ts';
import type { HttpOptions } from './options.ts';
import { PopAnswerWriter } from './pop-answer.ts';
import { Supervisor } from './supervisor.ts';

/** Counters since the start of the process. */
export interface HttpCounters {
  pushRequests: number;
  popRequests: number;
  ackRequests: number;
  otherRequests: number;
  /** Requests that never became one: not HTTP, too slow, headers too large. */
  malformedRequests: number;
  /** Pops whose client went away before its answer. */
  popsAbandoned: number;
}

export class Services {
  readonly engine: Engine;
  readonly options: HttpOptions;
  readonly supervisor: Supervisor;
  /** Room for the bodies of pushes. */
  readonly pushAdmission: Admission;
  /** Room for the other bodies, which must not wait behind pushes. */
  readonly bodyAdmission: Admission;
  /** Answers are built here, one at a time, and taken out. */
  readonly writer = new ByteWriter(16 * 1024);
  readonly pieces = new AnswerPieces();
  readonly popAnswers: PopAnswerWriter;
  readonly counters: HttpCounters = {
    pushRequests: 0,
    popRequests: 0,
    ackRequests: 0,
    otherRequests: 0,
    malformedRequests: 0,
    popsAbandoned: 0,
  };
  /** Answers by status. */
  readonly answers = new Map<number, number>();
  openConnections = 0;
  /** Lists, walks and searches that the engine works on. */
  readsRunning = 0;
  /** From now on every answer ends its connection. */
  closing = false;

  constructor(engine: Engine, options: HttpOptions) {
    this.engine = engine;
    this.options = options;
    this.popAnswers = new PopAnswerWriter(this.writer, engine.identity, options.decrypt);
    this.supervisor = new Supervisor(options);
    this.pushAdmission = new Admission({ bytesMax: options.admissionBytes, waitMs: options.admissionWaitMs });
    this.bodyAdmission = new Admission({ bytesMax: options.admissionBytes, waitMs: options.admissionWaitMs });
  }

  /** What was written to the writer, as bytes that are the caller's own; the writer is empty afterwards. */
  takeAnswer(): Uint8Array {
    const { writer } = this;
    const { length } = writer;
    // Larger ones take the writer's memory with them.
    if (length > keptBytesMax) return writer.take();
    // Small answers share blocks of memory, and nothing is zeroed before it is overwritten.
    const answer = Buffer.allocUnsafe(length);
    answer.set(new Uint8Array(writer.bytes.buffer, writer.bytes.byteOffset, length));
    writer.reset();
    return answer;
  }
}
