/** What the HTTP side needs to know; the composition root fills it from the configuration. */

export interface LogLine {
  readonly level: 'error' | 'warn' | 'info' | 'debug';
  readonly text: string;
}

export interface HttpOptions {
  /** 0 = any free port. */
  readonly port: number;
  readonly host: string;
  /** Of the body, unpacked. */
  readonly maxBodyBytes: number;
  /** Where a named group starts that gives no hint. */
  readonly defaultSubscriptionMode: 'new' | 'all';
  /** Body bytes of pushes in flight. */
  readonly admissionBytes: number;
  /** How long a push waits for room, ± 25 %. */
  readonly admissionWaitMs: number;
  /** Answer bytes that clients have not read yet. */
  readonly answerBytes: number;
  /** Time to read an answer, plus a second per `answerBytesPerSecondMin`. */
  readonly slowReaderSeconds: number;
  /** From the hand-over to the engine to the answer; pops have their own time. */
  readonly requestTimeoutMs: number;
  /** From the first byte of a request to its last. */
  readonly receiveTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly maxConnections: number;
  readonly maxHeaderBytes: number;
  /** Time for clients to read their last answers when the server closes. */
  readonly stopGraceMs: number;
  /** Version of this broker, shown by /health. */
  readonly version: string;
  /** Turns a stored, encrypted payload bytes[start, end) back into its JSON text. Throws when the key is another one. null = there is no key. */
  readonly decrypt: ((bytes: Uint8Array, start: number, end: number) => Uint8Array) | null;
  readonly log: (line: LogLine) => void;
}
