/**
 * HTTP/1.1 over one kept-alive TCP connection, one request at a time, as cheap as it can be made in Node: the load
 * shares a small machine with the broker, and every microsecond it burns is missing there.
 *
 * Requests are bytes that the caller has made; the bytes must stay untouched until the answer is there. Understands
 * answers with a Content-Length or with none and no body (204); anything else ends the benchmark with an error.
 */
import { createConnection, type Socket } from 'node:net';

export interface RawAnswer {
  status: number;
  /** Holds the answer's body from `bodyStart` to `bodyEnd`, until the next request on the same connection. */
  bytes: Buffer;
  bodyStart: number;
  bodyEnd: number;
}

const headEnd = Buffer.from('\r\n\r\n');
const readBufferBytes = 256 * 1024;

export class RawConnection {
  readonly #socket: Socket;
  readonly #answer: RawAnswer = { status: 0, bytes: Buffer.alloc(readBufferBytes), bodyStart: 0, bodyEnd: 0 };
  #length = 0;
  /** Where the awaited answer ends; −1 until its head is complete. */
  #answerEnd = -1;
  #resolve: ((answer: RawAnswer) => void) | null = null;
  #reject: ((error: Error) => void) | null = null;
  #closed = false;

  static open(port: number): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const connection = new RawConnection(port, () => resolve(connection));
      connection.#reject = reject;
    });
  }

  private constructor(port: number, onConnect: () => void) {
    this.#socket = createConnection({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: Buffer.alloc(readBufferBytes),
        callback: (length, buffer) => {
          this.#receive(buffer as Buffer, length);
          return true;
        },
      },
    });
    this.#socket.on('connect', onConnect);
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the broker closed the connection')));
  }

  /** Sends one request. The answer is valid until the next call. */
  request(bytes: Uint8Array): Promise<RawAnswer> {
    if (this.#closed) return Promise.reject(new Error('the connection is closed'));
    this.#length = 0;
    this.#answerEnd = -1;
    this.#socket.write(bytes);
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  close(): void {
    this.#closed = true;
    this.#socket.destroy();
  }

  #receive(chunk: Buffer, length: number): void {
    if (this.#resolve === null) {
      this.#fail(new Error('bytes came that nobody asked for'));
      return;
    }
    this.#makeRoom(length);
    chunk.copy(this.#answer.bytes, this.#length, 0, length);
    this.#length += length;
    if (this.#answerEnd < 0) this.#readHead();
    if (this.#answerEnd >= 0 && this.#length >= this.#answerEnd) {
      const resolve = this.#resolve;
      this.#resolve = null;
      resolve(this.#answer);
    }
  }

  #makeRoom(length: number): void {
    const { bytes } = this.#answer;
    if (this.#length + length <= bytes.length) return;
    const larger = Buffer.alloc(Math.max(bytes.length * 2, this.#length + length));
    bytes.copy(larger, 0, 0, this.#length);
    this.#answer.bytes = larger;
  }

  #readHead(): void {
    const { bytes } = this.#answer;
    const at = bytes.subarray(0, this.#length).indexOf(headEnd);
    if (at < 0) return;
    const head = bytes.toString('latin1', 0, at).toLowerCase();
    if (head.includes('\r\ntransfer-encoding:')) {
      this.#fail(new Error('the raw client does not read chunked answers'));
      return;
    }
    const lengthAt = head.indexOf('\r\ncontent-length:');
    this.#answer.status = Number(head.slice(9, 12));
    this.#answer.bodyStart = at + headEnd.length;
    this.#answer.bodyEnd = this.#answer.bodyStart + (lengthAt < 0 ? 0 : Number.parseInt(head.slice(lengthAt + 17), 10));
    this.#answerEnd = this.#answer.bodyEnd;
  }

  #fail(error: Error): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.destroy();
    this.#resolve = null;
    this.#reject?.(error);
  }
}

/** Opens `count` connections to a broker on this machine. */
export function openConnections(port: number, count: number): Promise<RawConnection[]> {
  return Promise.all(Array.from({ length: count }, () => RawConnection.open(port)));
}

/** A request without a body, ready to send. */
export function bodilessRequest(method: string, path: string): Buffer {
  return Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
}

/** The head of a request whose body has `length` bytes. */
export function requestHead(method: string, path: string, length: number): string {
  return `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
}

/** Throws, with the body's beginning, unless the answer has the expected status. */
export function expectStatus(answer: RawAnswer, status: number): void {
  if (answer.status === status) return;
  const text = answer.bytes.toString('utf8', answer.bodyStart, Math.min(answer.bodyEnd, answer.bodyStart + 500));
  throw new Error(`expected status ${status}, got ${answer.status}: ${text}`);
}
