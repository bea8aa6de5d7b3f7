/** What a client is made with, and how that is read. */
import { CLIENT_DEFAULTS } from './defaults.ts';
import type { LoadBalancingStrategy } from './endpoints.ts';
import { LaneError } from './errors.ts';
import type { Logger } from './log.ts';
import type { TracingApi } from './tracing.ts';

/** How 429 answers are repeated. */
export interface Retry429Options {
  /** Tries in all. Default 10; a waiting pop has no limit unless one is set. */
  readonly maxAttempts?: number;
  /** First pause in milliseconds when the broker names none; it doubles. Default 500. */
  readonly baseMs?: number;
  /** Longest pause in milliseconds. Default 30,000. */
  readonly capMs?: number;
}

/** Options of a {@link LaneClient}. */
export interface LaneClientOptions {
  /** Base address of the broker, such as `http://127.0.0.1:6632`. This or `urls` is required. */
  readonly url?: string;
  /** Several addresses of one broker; see `loadBalancingStrategy`. */
  readonly urls?: readonly string[];
  /** Limit of one request in milliseconds; a waiting pop gets its own waiting time plus 5,000. Default 30,000. */
  readonly timeoutMillis?: number;
  /** Tries in all on broken connections, missed deadlines and 5xx; each goes over all addresses. Default 3. */
  readonly retryAttempts?: number;
  /** Pause in milliseconds before the second try; it doubles up to 30,000. Default 1,000. */
  readonly retryDelayMillis?: number;
  /** How 429 answers are repeated. */
  readonly retry429?: Retry429Options;
  /**
   * Which address a request goes to. `affinity`: requests about one queue, partition and group go to one address;
   * `round-robin`: in turn; `session`: one address, drawn at random, as long as it works. Default `affinity`.
   */
  readonly loadBalancingStrategy?: LoadBalancingStrategy;
  /** Places of each address on the ring of the strategy `affinity`. Default 128. */
  readonly affinityHashRing?: number;
  /** Go to the next address when one does not answer or answers 5xx. Default true. */
  readonly enableFailover?: boolean;
  /** Milliseconds until an address that failed is asked for its health. Default 5,000. */
  readonly healthRetryAfterMillis?: number;
  /** Sent as `Authorization: Bearer …`. Default none. */
  readonly bearerToken?: string | null;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as `Host`, while connections go to the addresses given. Needs Node 20.16; browsers do not let it be set. Default none. */
  readonly hostHeader?: string | null;
  /** On SIGINT and SIGTERM let handlers end and send buffers before the process ends; `close` does it. Default true. */
  readonly handleSignals?: boolean;
  /** Takes what the client has to say. Default: nothing, or the console when `QUEEN_CLIENT_LOG` is `true`. */
  readonly logger?: Logger | null;
  /** Hand objects to the logger instead of text. Default false. */
  readonly structuredLogs?: boolean;
  /**
   * The module `@opentelemetry/api`, or what has the same functions: pushes and handlers become spans, and a handler's
   * span is linked with the push through the message's headers. Default: no spans, no cost.
   */
  readonly tracing?: TracingApi | null;
}

/** A base address, several, or all options. */
export type LaneClientConfig = string | readonly string[] | LaneClientOptions;

/** Options with nothing left open. */
export interface ClientSettings {
  readonly urls: readonly string[];
  readonly timeoutMillis: number;
  readonly retryAttempts: number;
  readonly retryDelayMillis: number;
  readonly retry429: Retry429Options;
  readonly strategy: LoadBalancingStrategy;
  readonly hashRing: number;
  readonly enableFailover: boolean;
  readonly healthRetryAfterMillis: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The headers name a host of their own. */
  readonly setsHost: boolean;
  readonly handleSignals: boolean;
  readonly logger: Logger | null;
  readonly structuredLogs: boolean;
  readonly tracing: TracingApi | null;
}

/** @throws LaneError `bad_argument` when an option is out of its bounds. */
export function readClientConfig(config: LaneClientConfig): ClientSettings {
  const options: LaneClientOptions =
    typeof config === 'string' ? { url: config } : isList(config) ? { urls: config } : config;
  const urls = options.urls ?? (options.url === undefined ? [] : [options.url]);
  if (urls.length === 0) throw refused('url is missing: give the base address of the broker');
  const defaults = CLIENT_DEFAULTS;
  return {
    urls: urls.map(baseAddress),
    timeoutMillis: atLeast('timeoutMillis', options.timeoutMillis ?? defaults.timeoutMillis, 1),
    retryAttempts: atLeast('retryAttempts', options.retryAttempts ?? defaults.retryAttempts, 1),
    retryDelayMillis: atLeast('retryDelayMillis', options.retryDelayMillis ?? defaults.retryDelayMillis, 0),
    retry429: options.retry429 ?? {},
    strategy: options.loadBalancingStrategy ?? 'affinity',
    hashRing: atLeast('affinityHashRing', options.affinityHashRing ?? defaults.affinityHashRing, 1),
    enableFailover: options.enableFailover ?? defaults.enableFailover,
    healthRetryAfterMillis: atLeast(
      'healthRetryAfterMillis',
      options.healthRetryAfterMillis ?? defaults.healthRetryAfterMillis,
      0,
    ),
    headers: headersOf(options),
    setsHost: options.hostHeader != null,
    handleSignals: options.handleSignals ?? defaults.handleSignals,
    logger: options.logger ?? null,
    structuredLogs: options.structuredLogs ?? false,
    tracing: options.tracing ?? null,
  };
}

/** A number of at least `min`. @throws LaneError `bad_argument`. */
export function atLeast(name: string, value: number, min: number): number {
  if (Number.isFinite(value) && value >= min) return value;
  throw refused(`${name} must be a number of at least ${min}, got ${value}`);
}

function headersOf({ headers, bearerToken, hostHeader }: LaneClientOptions): Record<string, string> {
  return {
    ...headers,
    ...(bearerToken == null ? {} : { authorization: `Bearer ${bearerToken}` }),
    ...(hostHeader == null ? {} : { host: hostHeader }),
  };
}

function baseAddress(url: string): string {
  if (/^https?:\/\//.test(url)) return url.replace(/\/+$/, '');
  throw refused(`url must begin with http:// or https://, got "${url}"`);
}

function isList(config: LaneClientConfig): config is readonly string[] {
  return Array.isArray(config);
}

function refused(message: string): LaneError {
  return new LaneError({ code: 'bad_argument', message });
}
