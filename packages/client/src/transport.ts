/**
 * One request, repeated as the contract allows: 5xx and broken connections a few times with a doubling pause, 429
 * after the time the broker names, every other 4xx never.
 *
 * A call may therefore reach the broker more than once. That is safe for all calls of this client: pushes carry
 * transactionIds, acks and leases are remembered by the broker, the rest is idempotent.
 */
import { LaneError } from './errors.ts';

/** How 429 answers are repeated. */
export interface Retry429Options {
  /** Tries in all. Default 10; a waiting pop has no limit unless one is set. */
  readonly maxAttempts?: number;
  /** First pause when the broker names none; it doubles. Default 500. */
  readonly baseMs?: number;
  /** Longest pause. Default 30,000. */
  readonly capMs?: number;
}

/** Options of a {@link LaneClient}. */
export interface LaneClientOptions {
  /** Base address of the broker, such as `http://127.0.0.1:6632`. */
  readonly url: string;
  /** Limit of one request; a waiting pop gets its own waiting time plus 5 s. Default 30,000. */
  readonly timeoutMs?: number;
  /** Tries in all on broken connections, missed deadlines and 5xx. Default 3. */
  readonly retryAttempts?: number;
  /** Pause before the second try; it doubles up to 30 s. Default 1,000. */
  readonly retryDelayMs?: number;
  readonly retry429?: Retry429Options;
  /** Sent as `Authorization: Bearer …`. */
  readonly bearerToken?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** One call of a route. */
export interface Call {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Path and query, beginning with a slash. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Ends the call. Once the head of the answer has arrived it is read to its end, so that a claim is not lost. */
  readonly signal?: AbortSignal | undefined;
  /** Instead of the client's own limit. */
  readonly timeoutMs?: number;
  /** A long poll: 429 is ridden out. */
  readonly waiting?: boolean;
}

/** A 2xx answer. */
export interface Answer {
  readonly status: number;
  /** The parsed JSON; null when there was no body. */
  readonly body: unknown;
}

const retryDelayMsMax = 30_000;

export class Transport {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #retryAttempts: number;
  readonly #retryDelayMs: number;
  readonly #retry429: Retry429Options;

  constructor(options: LaneClientOptions) {
    this.#base = baseAddress(options.url);
    const token = options.bearerToken;
    this.#headers =
      token === undefined ? { ...options.headers } : { ...options.headers, authorization: `Bearer ${token}` };
    this.#timeoutMs = atLeast('timeoutMs', options.timeoutMs ?? 30_000, 1);
    this.#retryAttempts = atLeast('retryAttempts', options.retryAttempts ?? 3, 1);
    this.#retryDelayMs = atLeast('retryDelayMs', options.retryDelayMs ?? 1000, 0);
    this.#retry429 = options.retry429 ?? {};
  }

  /** Resolves with a 2xx answer; rejects with a {@link LaneError} once no further try is allowed. */
  async send(call: Call): Promise<Answer> {
    let failures = 0;
    let refusals = 0;
    for (;;) {
      try {
        return await this.#sendOnce(call);
      } catch (error) {
        if (!(error instanceof LaneError) || !error.retriable) throw error;
        let pauseMs: number;
        if (error.status === 429) {
          refusals += 1;
          if (refusals >= this.#refusalsMax(call)) throw error;
          pauseMs = this.#refusalPauseMs(refusals, error.retryAfterSeconds);
        } else {
          failures += 1;
          if (failures >= this.#retryAttempts) throw error;
          pauseMs = Math.min(retryDelayMsMax, this.#retryDelayMs * 2 ** (failures - 1));
        }
        await pause(pauseMs, call.signal);
      }
    }
  }

  #refusalsMax(call: Call): number {
    return this.#retry429.maxAttempts ?? (call.waiting === true ? Number.POSITIVE_INFINITY : 10);
  }

  #refusalPauseMs(refusals: number, retryAfterSeconds: number | null): number {
    if (retryAfterSeconds !== null) return retryAfterSeconds * 1000;
    const base = this.#retry429.baseMs ?? 500;
    const cap = this.#retry429.capMs ?? 30_000;
    // Spread by a fifth either way, so that refused clients do not all return at one moment.
    return Math.min(cap, base * 2 ** Math.min(refusals - 1, 20)) * (0.8 + Math.random() * 0.4);
  }

  async #sendOnce(call: Call): Promise<Answer> {
    if (call.signal?.aborted) throw abortedError();
    const timeoutMs = call.timeoutMs ?? this.#timeoutMs;
    const stop = new AbortController();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      stop.abort();
    }, timeoutMs);
    const onAbort = () => stop.abort();
    call.signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const response = await fetch(this.#base + call.path, this.#requestOf(call, stop.signal));
      call.signal?.removeEventListener('abort', onAbort);
      return await readAnswer(response);
    } catch (error) {
      if (error instanceof LaneError) throw error;
      if (late) {
        const message = `no complete answer to ${call.method} ${call.path} within ${timeoutMs} ms`;
        throw new LaneError({ code: 'deadline', message, cause: error });
      }
      if (call.signal?.aborted) throw abortedError();
      throw new LaneError({ code: 'network', message: networkText(call, error), cause: error });
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener('abort', onAbort);
    }
  }

  #requestOf(call: Call, signal: AbortSignal): RequestInit {
    if (call.body === undefined) return { method: call.method, headers: this.#headers, signal };
    const headers = { ...this.#headers, 'content-type': 'application/json' };
    return { method: call.method, headers, body: JSON.stringify(call.body), signal };
  }
}

/** Resolves after `ms`; rejects with the code `aborted` as soon as the signal fires. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortedError());
      return;
    }
    const onAbort = () => {
      clearTimeout(timer);
      reject(abortedError());
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function baseAddress(url: string): string {
  if (!/^https?:\/\//.test(url)) {
    throw new LaneError({ code: 'bad_argument', message: `url must begin with http:// or https://, got "${url}"` });
  }
  return url.replace(/\/+$/, '');
}

function atLeast(name: string, value: number, min: number): number {
  if (Number.isFinite(value) && value >= min) return value;
  throw new LaneError({ code: 'bad_argument', message: `${name} must be a number of at least ${min}, got ${value}` });
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
  const body = parsedOrUndefined(text) as { error?: unknown; code?: unknown } | null | undefined;
  const code = typeof body?.code === 'string' ? body.code : status === 413 ? 'body_too_large' : 'http_error';
  const message = typeof body?.error === 'string' ? body.error : text.slice(0, 500) || `HTTP status ${status}`;
  const seconds = Number.parseFloat(response.headers.get('retry-after') ?? '');
  return new LaneError({ code, message, status, retryAfterSeconds: Number.isFinite(seconds) ? seconds : null });
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function abortedError(): LaneError {
  return new LaneError({ code: 'aborted', message: 'the call was aborted by its signal' });
}

function networkText(call: Call, error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
  return `no answer to ${call.method} ${call.path}: ${cause}`;
}
