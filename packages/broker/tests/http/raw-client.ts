/** A client that says exactly what a test tells it to, and shows exactly what came back. */
import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export class RawClient {
  readonly socket: Socket;
  #received = Buffer.alloc(0);
  #ended = false;
  #isHead = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    // A reset is one of the ways in which a server hangs up.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#ended = true;
      this.#wake();
    });
  }

  static async open(port: number): Promise<RawClient> {
    const socket = connect(port, '127.0.0.1');
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new RawClient(socket);
  }

  write(...pieces: (string | Uint8Array)[]): void {
    this.#isHead = typeof pieces[0] === 'string' && pieces[0].startsWith('HEAD ');
    for (const piece of pieces) this.socket.write(piece);
  }

  /** The next whole answer; undefined when the server hangs up before there is one. Only answers with a length, or 204. */
  async answer(): Promise<RawAnswer | undefined> {
    for (;;) {
      const answer = this.#parse();
      if (answer !== undefined || this.#ended) return answer;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async closed(): Promise<void> {
    while (!this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  #parse(): RawAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const [statusLine, ...lines] = this.#received.toString('latin1', 0, end).split('\r\n');
    const headers = new Map<string, string>();
    for (const line of lines) {
      const colon = line.indexOf(':');
      headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
    }
    const bodyAt = end + 4;
    const bodyEnd = bodyAt + (this.#isHead ? 0 : Number(headers.get('content-length') ?? 0));
    if (this.#received.length < bodyEnd) return undefined;
    const body = this.#received.toString('utf8', bodyAt, bodyEnd);
    this.#received = this.#received.subarray(bodyEnd);
    return { status: Number(statusLine.split(' ')[1]), headers, body };
  }
}

/** One request on a connection of its own. */
export async function ask(
  port: number,
  method: string,
  target: string,
  body: string | Uint8Array = '',
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> {
  const client = await RawClient.open(port);
  const lines = Object.entries({ Host: 'test', Connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const length = Buffer.byteLength(body);
  if (length > 0) lines.push(`Content-Length: ${length}`);
  client.write(`${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, body);
  const answer = await client.answer();
  client.destroy();
  if (answer === undefined) throw new Error(`the server hung up on ${method} ${target}`);
  return answer;
}
