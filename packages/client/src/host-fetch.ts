/**
 * fetch with a Host header of the caller's, by node's own HTTP client: fetch itself does not let it be set. Connections
 * go to the address of the URL. As far as this client uses fetch: text bodies, whole answers, an abort.
 */
import { badArgument } from './answers.ts';

interface NodeResponse {
  readonly statusCode?: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

interface NodeRequest {
  on(event: 'error', listener: (error: Error) => void): unknown;
  destroy(error?: Error): unknown;
  end(body?: string): unknown;
}

interface NodeHttp {
  request(
    url: string,
    options: { readonly method: string; readonly headers: Readonly<Record<string, string>> },
    onResponse: (response: NodeResponse) => void,
  ): NodeRequest;
}

/** What this client passes to fetch. */
export interface FetchInit {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

type BuiltinModules = { readonly getBuiltinModule?: (name: string) => unknown };

/** @throws LaneError `bad_argument` where there is no such HTTP client: in browsers, and in Node before 20.16. */
export function hostFetch(): (url: string, init: FetchInit) => Promise<Response> {
  const getModule = (globalThis as { readonly process?: BuiltinModules }).process?.getBuiltinModule;
  if (getModule === undefined) throw badArgument('hostHeader needs Node 20.16 or newer');
  return (url, init) => send(getModule(url.startsWith('https:') ? 'node:https' : 'node:http') as NodeHttp, url, init);
}

function send(http: NodeHttp, url: string, { method, headers, body, signal }: FetchInit): Promise<Response> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(new TextEncoder().encode(body).length) };
    const request = http.request(url, { method, headers: { ...headers, ...length } }, (response) => {
      const status = response.statusCode ?? 0;
      resolve(new Response(status === 204 ? null : bodyOf(response), { status, headers: headersOf(response) }));
    });
    signal.addEventListener('abort', () => request.destroy(new Error('aborted')), { once: true });
    // As fetch does it: what is known about the failure stands in the cause.
    request.on('error', (error) => reject(new TypeError('fetch failed', { cause: error })));
    request.end(body);
  });
}

function bodyOf(response: NodeResponse): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      response.on('data', (chunk) => controller.enqueue(chunk));
      response.on('end', () => controller.close());
      response.on('error', (error) => controller.error(error));
    },
  });
}

function headersOf(response: NodeResponse): [string, string][] {
  return Object.entries(response.headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
}
