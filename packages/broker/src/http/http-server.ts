/**
 * The HTTP side of the broker: Fastify on node:http.
 *
 * Requests under the prefixes of the contract take the short way from node's parser to their exchange (routes.ts):
 * Fastify's router would decode paths by rules of its own, and what else it does costs more than the whole of ours on a
 * request of one message. Everything else (pages, plugins) is Fastify's.
 *
 * Guarantees: a malformed request never stops the process and always gets a status or a closed connection; a client
 * that is slow to send, slow to read or silent holds a connection and a bounded amount of memory, for a bounded time.
 */

import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import type { Engine } from '../runtime/mod.ts';
import { BrokerRequest, dropBody, errorBody, unwantedBytesMax } from './exchange.ts';
import type { HttpOptions } from './options.ts';
import { dispatch, noSuchRoute } from './routes.ts';
import { Services } from './services.ts';

/** How often node looks for connections that are over their time. */
const connectionsCheckMs = 5000;

const acceptErrorsLogEveryMs = 1000;

/** Answers to what is not a request, by node's error code; anything else is a plain 400. */
const malformedStatus: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

export interface HttpServer {
  /** For what is not part of the contract, such as pages. Register before `listen`. */
  readonly app: FastifyInstance;
  /** Starts to accept. Resolves with the address that clients can use. Rejects with node's error, such as EADDRINUSE. */
  listen(): Promise<{ readonly url: string; readonly port: number }>;
  /**
   * Stops to accept at once and ends each connection with its current answer. Requests in flight are answered by the
   * engine as it stops; what is still open after the grace time is cut. Resolves when all connections are closed.
   */
  close(): Promise<void>;
}

/** The response that node is writing on a connection, which node itself asks for before it answers a bad request. */
function owesAnswer(socket: Socket & { _httpMessage?: unknown }): boolean {
  return socket._httpMessage !== undefined && socket._httpMessage !== null;
}

function answerMalformed(services: Services, error: Error & { code?: string }, socket: Socket): void {
  if (error.code !== 'ECONNRESET') services.counters.malformedRequests++;
  // With an answer outstanding, a second one would be taken for it.
  if (error.code === 'ECONNRESET' || !socket.writable || owesAnswer(socket)) {
    socket.destroy();
    return;
  }
  const status = malformedStatus[error.code ?? ''] ?? '400 Bad Request';
  const body = errorBody('bad_request', status.slice(4));
  socket.end(
    `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
}

function handle(services: Services, request: BrokerRequest, response: ServerResponse): boolean {
  try {
    return dispatch(services, request, response);
  } catch (error) {
    // A fault of ours. The engine lets its own end the process; what is left concerns this request alone.
    services.options.log({ level: 'error', text: `${request.method} ${request.url}: ${(error as Error).stack}` });
    if (response.headersSent) response.destroy();
    else request.exchange?.fail('internal', 'a fault of the broker; the outcome is unknown');
    return true;
  }
}

type Pages = (request: IncomingMessage, response: ServerResponse) => void;

/** Fastify reads bodies within its own limit; what it leaves, node would read without any. */
function showPage(pages: Pages, request: BrokerRequest, response: ServerResponse<BrokerRequest>): void {
  response.prependOnceListener('finish', () => {
    if (!request.complete) dropBody(request, unwantedBytesMax);
  });
  pages(request, response);
}

function createNodeServer(services: Services, pages: Pages): Server {
  const { options } = services;
  const server = createServer({
    IncomingMessage: BrokerRequest,
    ServerResponse,
    maxHeaderSize: options.maxHeaderBytes,
    requestTimeout: options.receiveTimeoutMs,
    headersTimeout: options.receiveTimeoutMs / 4,
    keepAliveTimeout: options.keepAliveMs,
    connectionsCheckingInterval: Math.min(connectionsCheckMs, options.receiveTimeoutMs / 4),
    noDelay: true,
    insecureHTTPParser: false,
  });
  server.maxConnections = options.maxConnections;
  server.timeout = 0;
  server.on('request', (request: BrokerRequest, response: ServerResponse<BrokerRequest>) => {
    if (!handle(services, request, response)) showPage(pages, request, response);
  });
  // Without a listener node would ask for every body, also for one that is refused because of its length.
  server.on('checkContinue', (request: BrokerRequest, response: ServerResponse<BrokerRequest>) => {
    request.awaitsContinue = true;
    if (handle(services, request, response)) return;
    response.writeContinue();
    showPage(pages, request, response);
  });
  server.on('connection', (socket) => {
    services.openConnections++;
    socket.once('close', () => {
      services.openConnections--;
    });
  });
  return server;
}

/** Out of file descriptors, for example: connections wait until some are closed. One line per second at most. */
function logAcceptErrors(options: HttpOptions): (error: Error) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  return (error) => {
    const nowMs = performance.now();
    if (nowMs - loggedAtMs < acceptErrorsLogEveryMs) return;
    loggedAtMs = nowMs;
    options.log({ level: 'error', text: `a connection could not be accepted: ${error.message}` });
  };
}

/** Builds the server; nothing is opened before `listen`. */
export function buildHttpServer(engine: Engine, options: HttpOptions): HttpServer {
  const services = new Services(engine, options);
  const app = fastify({
    logger: false,
    serverFactory: (pages) => createNodeServer(services, pages),
    clientErrorHandler: (error, socket) => answerMalformed(services, error, socket),
    bodyLimit: unwantedBytesMax,
    forceCloseConnections: false,
    return503OnClosing: false,
    requestTimeout: options.receiveTimeoutMs,
    keepAliveTimeout: options.keepAliveMs,
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0];
    return reply.code(404).type('application/json').send(noSuchRoute(path));
  });
  const { server } = app;

  return {
    app,

    async listen() {
      await app.listen({ port: options.port, host: options.host });
      server.on('error', logAcceptErrors(options));
      const { port, address, family } = server.address() as AddressInfo;
      return { url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`, port };
    },

    async close() {
      services.closing = true;
      const grace = setTimeout(() => server.closeAllConnections(), options.stopGraceMs);
      await app.close();
      clearTimeout(grace);
      services.supervisor.close();
    },
  };
}
