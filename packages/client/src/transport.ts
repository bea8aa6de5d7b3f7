/**
 * One request, repeated as the contract allows: 5xx and broken connections a few times with a doubling pause and, when
 * there are several addresses, at the next one at once; 429 at the same address after the time the broker names; every
 * other 4xx never.
 *
 * A call may therefore reach the broker more than once. Pushes carry transactionIds, acks and leases are remembered by
 * the broker, reads and most changes are idempotent. What is not says so (`repeatable: false`), and is then sent again
 * only while it is certain that nothing was done.
 */
import type { ErrorCode } from '@lanemq/protocol';
import type { ClientSettings } from './client-options.ts';
import { type Endpoint, Endpoints } from './endpoints.ts';
import { LaneError, type LaneErrorCode } from './errors.ts';
import { type FetchInit, hostFetch } from './host-fetch.ts';
import { errorText, type Log } from './log.ts';

/** One call of a route. */
export interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path and query, beginning with a slash. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** The same as text, for numbers that `JSON.stringify` cannot write. */
  readonly bodyText?: string;
  /** Ends the call. Once the head of the answer has arrived it is read to its end, so that a claim is not lost. */
  readonly signal?: AbortSignal | undefined;
  /** Instead of the client's own limit. */
  readonly timeoutMillis?: number;
  /** A long poll: 429 is ridden out. */
  readonly waiting?: boolean;
  /** What the call is about, for the choice of an address. */
  readonly affinityKey?: string;
  /** False: doing it twice is not the same as doing it once. Default true. */
  readonly repeatable?: boolean;
}

/** A 2xx answer. */
export interface Answer {
  readonly status: number;
  /** The parsed JSON; null when there was no body. */
  readonly body: unknown;
}

const retryDelayMillisMax = 30_000;
const probeTimeoutMillis = 2000;

export class Transport {
  readonly #settings: ClientSettings;
  readonly #endpoints: Endpoints;
  readonly #jsonHeaders: Readonly<Record<string, string>>;
  readonly #log: Log;
  readonly #fetch: (url: string, init: FetchInit) => Promise<Response>;
  /** Requests and pauses under way, each with its own controller: a shared signal would have as many listeners. */
  readonly #active = new Set<AbortController>();
  #isClosed = false;

  constructor(settings: ClientSettings, log: Log) {
    this.#settings = settings;
    this.#log = log;
    this.#fetch = settings.setsHost ? hostFetch() : (url, init) => fetch(url, init);
    this.#jsonHeaders = { ...settings.headers, 'content-type': 'application/json' };
    this.#endpoints = new Endpoints(settings.urls, {
      strategy: settings.strategy,
      hashRing: settings.hashRing,
      healthRetryAfterMillis: settings.healthRetryAfterMillis,
      probe: (url) => this.#isHealthy(url),
    });
  }

  /** Ends what is under way; everything later is refused with the code `closed`. */
  close(): void {
    this.#isClosed = true;
    for (const controller of this.#active) controller.abort();
  }

  /** Resolves with a 2xx answer; rejects with a {@link LaneError} once no further try is allowed. */
  async send(call: Call): Promise<Answer> {
    const { retryAttempts, enableFailover } = this.#settings;
    let failedRounds = 0;
    let refusals = 0;
    let candidates = this.#endpoints.order(call.affinityKey ?? '');
    for (let at = 0; ; ) {
      const endpoint = candidates[at];
      try {
        const answer = await this.#sendOnce(call, endpoint);
        if (endpoint.isDown) this.#endpoints.markUp(endpoint);
        return answer;
      } catch (error) {
        if (!(error instanceof LaneError) || !error.retriable) throw error;
        if (error.status === 429) {
          refusals += 1;
          if (refusals >= this.#refusalsMax(call)) throw error;
          await this.#pause(this.#refusalPauseMillis(refusals, error.retryAfterSeconds), call.signal);
          continue;
        }
        if (enableFailover) this.#markDown(endpoint, error);
        if (call.repeatable === false && error.outcomeUnknown) throw error;
        at += 1;
        if (enableFailover && at < candidates.length) continue;
        failedRounds += 1;
        if (failedRounds >= retryAttempts) throw error;
        await this.#pause(this.#failurePauseMillis(failedRounds, error.retryAfterSeconds), call.signal);
        candidates = this.#endpoints.order(call.affinityKey ?? '');
        at = 0;
      }
    }
  }

  #markDown(endpoint: Endpoint, error: LaneError): void {
    if (this.#endpoints.count === 1) return;
    this.#endpoints.markDown(endpoint);
    this.#log.warn('address.down', { url: endpoint.url, error: error.message });
  }

  #failurePauseMillis(failures: number, retryAfterSeconds: number | null): number {
    const pauseMillis = Math.min(retryDelayMillisMax, this.#settings.retryDelayMillis * 2 ** (failures - 1));
    return Math.max(pauseMillis, (retryAfterSeconds ?? 0) * 1000);
  }

  #refusalsMax(call: Call): number {
    return this.#settings.retry429.maxAttempts ?? (call.waiting === true ? Number.POSITIVE_INFINITY : 10);
  }

  #refusalPauseMillis(refusals: number, retryAfterSeconds: number | null): number {
    if (retryAfterSeconds !== null) return retryAfterSeconds * 1000;
    const { baseMs = 500, capMs = 30_000 } = this.#settings.retry429;
    // Spread by a fifth either way, so that refused clients do not all return at one moment.
    return Math.min(capMs, baseMs * 2 ** Math.min(refusals - 1, 20)) * (0.8 + Math.random() * 0.4);
  }

  async #pause(millis: number, signal: AbortSignal | undefined): Promise<void> {
    const stop = new AbortController();
    const onAbort = () => stop.abort();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#active.add(stop);
    try {
      if (!this.#isClosed && !signal?.aborted) await pause(millis, stop.signal).catch(() => {});
    } finally {
      this.#active.delete(stop);
      signal?.removeEventListener('abort', onAbort);
    }
    this.#throwIfEnded(signal);
  }

  #throwIfEnded(signal: AbortSignal | undefined): void {
    if (this.#isClosed) throw closedError();
    if (signal?.aborted) throw abortedError();
  }

  async #sendOnce(call: Call, endpoint: Endpoint): Promise<Answer> {
    this.#throwIfEnded(call.signal);
    const timeoutMillis = call.timeoutMillis ?? this.#settings.timeoutMillis;
    const stop = new AbortController();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      stop.abort();
    }, timeoutMillis);
    const onAbort = () => stop.abort();
    call.signal?.addEventListener('abort', onAbort, { once: true });
    this.#active.add(stop);
    try {
      const response = await this.#fetch(endpoint.url + call.path, this.#requestOf(call, stop.signal));
      call.signal?.removeEventListener('abort', onAbort);
      return await readAnswer(response);
    } catch (error) {
      if (error instanceof LaneError) throw error;
      if (late) {
        const message = `no complete answer to ${call.method} ${call.path} within ${timeoutMillis} ms`;
        throw new LaneError({ code: 'deadline', message, cause: error });
      }
      this.#throwIfEnded(call.signal);
      throw new LaneError({ code: 'network', message: networkText(call, error), cause: error });
    } finally {
      clearTimeout(timer);
      this.#active.delete(stop);
      call.signal?.removeEventListener('abort', onAbort);
    }
  }

  #requestOf(call: Call, signal: AbortSignal): FetchInit {
    const body = call.body === undefined ? call.bodyText : JSON.stringify(call.body);
    if (body === undefined) return { method: call.method, headers: this.#settings.headers, signal };
    return { method: call.method, headers: this.#jsonHeaders, body, signal };
  }

  async #isHealthy(url: string): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(probeTimeoutMillis);
      const response = await this.#fetch(`${url}/health`, { method: 'GET', headers: this.#settings.headers, signal });
      await response.text();
      return response.ok;
    } catch {
      return false;
    }
  }
}

/** Resolves after `millis`; rejects with the code `aborted` as soon as the signal fires. */
export function pause(millis: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      if (signal.aborted) reject(abortedError());
      else resolve();
    };
    const timer = setTimeout(end, millis);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}

export function abortedError(): LaneError {
  return new LaneError({ code: 'aborted', message: 'the call was aborted by its signal' });
}

export function closedError(): LaneError {
  return new LaneError({ code: 'closed', message: 'the client is closed' });
}

async function readAnswer(response: Response): Promise<Answer> {
  const text = response.status === 204 ? '' : await response.text();
  if (!response.ok) throw refusalOf(response, text);
  if (text === '') return { status: response.status, body: null };
  const body = parsedOrUndefined(text);
  if (body === undefined) {
    const message = `the answer with status ${response.status} is not JSON`;
    throw new LaneError({ code: 'bad_answer', status: response.status, message });
  }
  return { status: response.status, body };
}

/** The broker's own code and text when the body carries them; a body over the limit is answered in plain text. */
function refusalOf(response: Response, text: string): LaneError {
  const { status } = response;
  const body = parsedOrUndefined(text) as ErrorBody | null | undefined;
  const isEdge = typeof body?.message === 'string' && body.status === status;
  const said = isEdge ? body.message : body?.error;
  const message = typeof said === 'string' ? said : text.slice(0, 500) || `HTTP status ${status}`;
  const code = typeof body?.code === 'string' ? body.code : codeOf(status, isEdge);
  return new LaneError({ code, message, status, retryAfterSeconds: retryAfterOf(response) });
}

interface ErrorBody {
  readonly error?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly status?: unknown;
}

/** Bodies of queue/v1 have no code. A 503 of it may be any of three: the one that promises nothing is assumed. */
const edgeCodes: Readonly<Record<number, ErrorCode>> = {
  400: 'bad_request',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  415: 'unsupported_media_type',
  429: 'overloaded',
  500: 'internal',
  503: 'outcome_unknown',
  507: 'storage_full',
};

function codeOf(status: number, isEdge: boolean): LaneErrorCode {
  if (status === 413) return 'body_too_large';
  return (isEdge ? edgeCodes[status] : undefined) ?? 'http_error';
}

/** Seconds, or a date, as HTTP has it; null when there is none. */
function retryAfterOf(response: Response): number | null {
  const text = response.headers.get('retry-after') ?? '';
  const seconds = /^[\d.]+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function networkText(call: Call, error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return `no answer to ${call.method} ${call.path}: ${errorText(cause instanceof Error ? cause : error)}`;
}
