/** Where the client says what nobody awaits: a refused ack, an address that is down, a handler that threw. */
import { LaneError } from './errors.ts';
import { environmentVariable } from './host.ts';

/** Takes what the client has to say. */
export interface Logger {
  /** What may be good to know. */
  info(entry: unknown): void;
  /** What went wrong and is tried again. */
  warn(entry: unknown): void;
  /** What went wrong for good. */
  error(entry: unknown): void;
  /** Default: `info`. */
  debug?(entry: unknown): void;
}

type Level = 'debug' | 'info' | 'warn' | 'error';

const silent: Logger = { info: () => {}, warn: () => {}, error: () => {} };

/** Silent, or the console when the variable `QUEEN_CLIENT_LOG` is `true`. */
function defaultLogger(): Logger {
  return environmentVariable('QUEEN_CLIENT_LOG') === 'true' ? console : silent;
}

export class Log {
  readonly #logger: Logger;
  readonly #structured: boolean;

  /** @throws LaneError `bad_argument` when the logger lacks one of its methods. */
  constructor(logger: Logger | null, structured: boolean) {
    for (const level of ['info', 'warn', 'error'] as const) {
      if (logger === null || typeof logger[level] === 'function') continue;
      throw new LaneError({ code: 'bad_argument', message: `the logger has no method ${level}` });
    }
    this.#logger = logger ?? defaultLogger();
    this.#structured = structured;
  }

  debug(event: string, facts: Readonly<Record<string, unknown>>): void {
    this.#write('debug', event, facts);
  }

  warn(event: string, facts: Readonly<Record<string, unknown>>): void {
    this.#write('warn', event, facts);
  }

  error(event: string, facts: Readonly<Record<string, unknown>>): void {
    this.#write('error', event, facts);
  }

  #write(level: Level, event: string, facts: Readonly<Record<string, unknown>>): void {
    const entry = this.#structured ? { event, ...facts } : `${event} ${JSON.stringify(facts)}`;
    if (level === 'debug') (this.#logger.debug ?? this.#logger.info).call(this.#logger, entry);
    else this.#logger[level](entry);
  }
}

/** The text of whatever was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
