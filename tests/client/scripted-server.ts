/**
 * A server that answers what a test tells it to: for answers that a healthy broker does not give on demand (503, 429,
 * broken connections, shapes out of contract), and for seeing what the client really sent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  readonly atMs: number;
}

export type Script = (seen: SeenRequest, response: ServerResponse, number: number) => void;

export class ScriptedServer {
  readonly seen: SeenRequest[] = [];
  readonly url: string;
  readonly #close: () => Promise<void>;

  /** `script` is called for each request with its number, from 1. */
  static start(script: Script): Promise<ScriptedServer> {
    return new Promise((resolve) => {
      let server: ScriptedServer | null = null;
      const http = createServer((request, response) => {
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        request.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const seen = {
            method: request.method ?? '',
            path: request.url ?? '',
            headers: request.headers,
            body: text === '' ? undefined : JSON.parse(text),
            atMs: performance.now(),
          };
          server?.seen.push(seen);
          script(seen, response, server?.seen.length ?? 0);
        });
      });
      http.listen(0, '127.0.0.1', () => {
        const { port } = http.address() as AddressInfo;
        const close = () =>
          new Promise<void>((done) => {
            http.close(() => done());
            http.closeAllConnections();
          });
        server = new ScriptedServer(`http://127.0.0.1:${port}`, close);
        resolve(server);
      });
    });
  }

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

export function answer(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
