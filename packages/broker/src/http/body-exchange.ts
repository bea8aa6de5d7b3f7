/**
 * An exchange whose request has a body. Reads it within the limits and hands it over whole:
 *
 *   announced length over the limit        413 at once, before a byte of it is read
 *   no length (chunked) and grown over it  413 as soon as it is
 *   compressed                             unpacked while it arrives; the limit is on either size
 *   unknown coding                         415
 *   not UTF-8                              400
 *   cut off by the client                  nothing happens
 *
 * What is left of a body that was refused is read and dropped within the same limit, so that the connection can go on.
 *
 * Memory for bodies is under a budget (admission.ts): of what the headers announce, or of what has arrived when they
 * announce nothing or less.
 */

import { isUtf8 } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { ErrorCode } from '@lanemq/protocol';
import type { Admission, Admitted } from './admission.ts';
import { type BrokerRequest, dropBody, Exchange } from './exchange.ts';
import type { Services } from './services.ts';

/** What a body is charged on entry when its length is not announced; it grows from there. */
const unannouncedBytes = 64 * 1024;

const emptyBody: Uint8Array = new Uint8Array(0);

/** Names of codings and how each is unpacked. */
const decoders: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
]);

// One function per event serves all requests, so that a request costs no closures.
function onData(this: BrokerRequest, chunk: Buffer): void {
  (this.exchange as BodyExchange).arrived(chunk);
}

function onPacked(this: BrokerRequest, chunk: Buffer): void {
  (this.exchange as BodyExchange).packedArrived(chunk);
}

function onEnd(this: BrokerRequest): void {
  (this.exchange as BodyExchange).ended();
}

function onClose(this: BrokerRequest): void {
  (this.exchange as BodyExchange).closed();
}

export abstract class BodyExchange extends Exchange implements Admitted {
  /** From the headers; −1 = not announced. */
  #announced = -1;
  #coding = '';
  #decoder: Transform | null = null;
  /** Bytes of the unpacked body that have arrived. */
  #received = 0;
  /** … of the packed one. */
  #packed = 0;
  /** The only chunk so far, or the whole body being filled when its length is announced. */
  #body: Uint8Array = emptyBody;
  /** Chunks of a body whose length is not known. */
  #chunks: Uint8Array[] | null = null;
  #admission: Admission | null = null;
  #charged = 0;
  /** The body was handed over, or never will be. */
  #closed = false;

  constructor(services: Services, request: BrokerRequest, response: ServerResponse) {
    super(services, request, response);
    const headers = request.rawHeaders;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i];
      if (name.length === 14 && name.toLowerCase() === 'content-length') this.#announced = Number(headers[i + 1]);
      else if (name.length === 16 && name.toLowerCase() === 'content-encoding') this.#addCoding(headers[i + 1]);
      else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') this.#chunks = [];
    }
  }

  /** What makes a refusal about the body, such as "bad push body". */
  protected abstract readonly bodyName: string;
  protected abstract readonly badBodyCode: ErrorCode;

  /** The whole body. It is the receiver's own. */
  protected abstract received(body: Uint8Array): void;

  /** True for a body that is no text; its receiver judges what is in it. */
  protected isBinary(_body: Uint8Array): boolean {
    return false;
  }

  /** The budget under which a body of so many bytes comes; null = none. */
  protected abstract admissionFor(bytes: number): Admission | null;

  /** The headers do not tell how large the unpacked body is. */
  protected get lengthUnknown(): boolean {
    return this.#announced < 0 || decoders.has(this.#coding);
  }

  /** Largest body, unpacked. */
  protected bodyBytesMax(): number {
    return this.services.options.maxBodyBytes;
  }

  /** Reads the body and calls `received`, or answers with a refusal. */
  start(): void {
    const announced = this.#announced;
    if (announced > this.bodyBytesMax()) {
      this.#tooLarge();
      return;
    }
    if (this.#coding !== '' && this.#coding !== 'identity' && !decoders.has(this.#coding)) {
      this.#dropRest();
      this.fail('unsupported_encoding', `Content-Encoding ${this.#coding} is not supported; gzip, deflate and br are`);
      return;
    }
    if (announced <= 0 && this.#chunks === null) {
      this.#closed = true;
      this.received(emptyBody);
      return;
    }
    this.request.on('close', onClose);
    this.#admission = this.admissionFor(this.#entryBytes());
    if (this.#admission === null) this.#read();
    else this.#admission.enter(this, this.#entryBytes());
  }

  admitted(): void {
    this.#charged = this.#entryBytes();
    this.#read();
  }

  refused(): void {
    this.#closed = true;
    this.#noRoom();
  }

  /** Gives back the room of the body. Called when nothing refers to it any more. */
  protected releaseBody(): void {
    if (this.#charged === 0) return;
    const bytes = this.#charged;
    this.#charged = 0;
    this.#admission?.leave(bytes);
  }

  /** A piece of the unpacked body. */
  arrived(chunk: Uint8Array): void {
    if (this.#closed) return;
    const at = this.#received;
    this.#received += chunk.length;
    if (this.#received > this.bodyBytesMax()) {
      this.#tooLarge();
      return;
    }
    if (this.#charged > 0 && this.#received > this.#charged && !this.#grow()) return;
    if (this.#chunks !== null) {
      this.#chunks.push(chunk);
    } else if (at === 0 && chunk.length === this.#announced) {
      this.#body = chunk;
    } else {
      if (at === 0) this.#body = Buffer.allocUnsafe(this.#announced);
      this.#body.set(chunk, at);
    }
  }

  /** A piece of the packed body, which may be large and hold nothing. */
  packedArrived(chunk: Uint8Array): void {
    this.#packed += chunk.length;
    if (!this.#closed && this.#packed > this.bodyBytesMax()) this.#tooLarge();
  }

  ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    // Some codings end before the body does.
    if (!this.request.complete) this.#dropRest();
    if (this.#chunks !== null) {
      this.#body = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
      this.#chunks = null;
    }
    const body = this.#body;
    this.#body = emptyBody;
    if (this.isBinary(body) || isUtf8(body)) this.received(body);
    else this.badBody('not UTF-8');
  }

  /** The request is over: read to its end, or cut off. */
  closed(): void {
    if (this.request.complete) return;
    this.#decoder?.destroy();
    if (this.#closed) return;
    this.#drop();
    this.#admission?.giveUp(this);
    this.answered = true;
  }

  protected badBody(reason: string): void {
    this.releaseBody();
    this.fail(this.badBodyCode, `${this.bodyName}: ${reason}`);
  }

  #addCoding(text: string): void {
    const coding = text.trim().toLowerCase();
    this.#coding = this.#coding === '' ? coding : `${this.#coding}, ${coding}`;
  }

  #entryBytes(): number {
    return this.#announced < 0 ? unannouncedBytes : this.#announced;
  }

  #read(): void {
    if (this.request.awaitsContinue) this.response.writeContinue();
    const decoder = decoders.get(this.#coding);
    if (decoder === undefined) {
      this.request.on('data', onData);
      this.request.on('end', onEnd);
      return;
    }
    // The length that is announced is that of the packed body; the unpacked one is not known.
    this.#chunks = [];
    this.#decoder = decoder();
    this.#decoder.on('data', (chunk: Buffer) => this.arrived(chunk));
    this.#decoder.on('end', () => this.ended());
    this.#decoder.on('error', () => {
      if (this.#closed) return;
      this.#drop();
      this.#dropRest();
      this.badBody(`not valid ${this.#coding}`);
    });
    this.request.on('data', onPacked);
    this.request.pipe(this.#decoder);
  }

  /** Charges what has arrived beyond the charge, in steps, so that a trickle does not pay for each chunk. */
  #grow(): boolean {
    const step = Math.max(this.#received - this.#charged, unannouncedBytes);
    if (this.#admission?.grow(this.#charged, step)) {
      this.#charged += step;
      return true;
    }
    this.#drop();
    // Nobody knows how much more of it would have to be read to get to the next request.
    this.hangsUp = true;
    this.#noRoom();
    return false;
  }

  #noRoom(): void {
    this.#dropRest();
    if (this.#admission === this.services.pushAdmission) {
      this.fail('overloaded', 'no room for more request bytes in flight; try again later');
    } else {
      this.fail('retry', 'no room for more request bytes in flight; nothing was done');
    }
  }

  #tooLarge(): void {
    this.#drop();
    this.#dropRest();
    this.refuseTooLarge(this.bodyBytesMax());
  }

  /** Stops reading and forgets what was read. */
  #drop(): void {
    this.#closed = true;
    this.#body = emptyBody;
    this.#chunks = null;
    this.releaseBody();
  }

  /** What is still on its way goes nowhere. */
  #dropRest(): void {
    this.request.unpipe();
    this.#decoder?.destroy();
    dropBody(this.request, this.bodyBytesMax());
  }
}
