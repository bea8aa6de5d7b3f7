/** The HTTP API: `buildHttpServer(engine, options)`. */
export { buildHttpServer, type HttpServer } from './http-server.ts';
export { isoTime, parseIsoTime } from './iso-time.ts';
export type { HttpOptions, LogLine } from './options.ts';
