/** A bare TCP connection to the broker, for what an HTTP client would refuse to send or could not leave half done. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** The head and the body of one answer read from a bare connection. */
export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

const answerTimeoutMs = 20_000;

export class RawConnection {
  readonly socket: Socket;
  #received = Buffer.alloc(0);
  #closed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    // A reset is one of the ways in which a broker ends a connection; `closed` tells it.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#closed = true;
    });
  }

  static async open(port: number): Promise<RawConnection> {
    const socket = connect({ host: '127.0.0.1', port });
    const connection = new RawConnection(socket);
    await once(socket, 'connect');
    return connection;
  }

  get closed(): boolean {
    return this.#closed;
  }

  write(bytes: string | Uint8Array): void {
    if (!this.#closed) this.socket.write(bytes);
  }

  /** Writes and resolves when the kernel took the bytes or the connection is gone. */
  async writeDrained(bytes: Uint8Array): Promise<void> {
    if (this.#closed || this.socket.write(bytes)) return;
    await Promise.race([once(this.socket, 'drain'), once(this.socket, 'close')]).catch(() => undefined);
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Everything received until the other side closed the connection. */
  async untilClosed(): Promise<string> {
    while (!this.#closed) await this.#next();
    return this.#received.toString('latin1');
  }

  /** The next whole answer; one without a Content-Length ends with its head. Null when the connection ended first. */
  async nextAnswer(): Promise<RawAnswer | null> {
    for (;;) {
      const headEnd = this.#received.indexOf('\r\n\r\n');
      if (headEnd !== -1) {
        const head = this.#received.subarray(0, headEnd).toString('latin1');
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0);
        const end = headEnd + 4 + length;
        if (this.#received.length >= end) {
          const body = this.#received.subarray(headEnd + 4, end).toString('utf8');
          this.#received = this.#received.subarray(end);
          return { status: Number(head.slice(9, 12)), head, body };
        }
      }
      if (this.#closed) return null;
      await this.#next();
    }
  }

  async #next(): Promise<void> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), answerTimeoutMs);
    try {
      await Promise.race([
        once(this.socket, 'data', { signal: stop.signal }),
        once(this.socket, 'close', { signal: stop.signal }),
      ]);
    } catch (error) {
      if (stop.signal.aborted) throw new Error(`nothing came within ${answerTimeoutMs} ms`, { cause: error });
      // An 'error' event rejects `once`; the 'close' that follows it is what callers see.
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }
}

/** The text of a POST of JSON with a Content-Length that fits. */
export function postText(path: string, body: string, extraHeaders = ''): string {
  const length = Buffer.byteLength(body);
  return `POST ${path} HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n${extraHeaders}\r\n${body}`;
}
