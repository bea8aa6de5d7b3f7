/**
 * The one error class of the client. Programs look at `code`, never at the text.
 * Codes of the broker come from the protocol's table; the client adds the few that only it can know.
 */
import { type ErrorCode, errorTable } from '@lanemq/protocol';
import type { SchemaIssue } from './schema.ts';
import type { PushResult } from './wire.ts';

/** Codes that the client makes itself, because no answer of the broker says them. */
export const clientErrorTable = {
  network: { retriable: true, meaning: 'No answer: the connection could not be made or broke.' },
  deadline: { retriable: true, meaning: 'No complete answer within the time limit of the request.' },
  aborted: { retriable: false, meaning: 'The signal of the caller fired before the answer came.' },
  closed: { retriable: false, meaning: 'The client was closed.' },
  bad_answer: { retriable: false, meaning: 'The answer is not of the shape that the contract gives.' },
  http_error: { retriable: false, meaning: 'An error status without a code of the broker; a proxy may have answered.' },
  items_refused: { retriable: false, meaning: 'A push was processed, but some of its items were not stored.' },
  ack_refused: {
    retriable: false,
    meaning: 'The broker did not take an ack: the lease is gone or the message settled.',
  },
  lease_lost: { retriable: false, meaning: 'The lease ended before its messages were settled: they come again.' },
  bad_payload: { retriable: false, meaning: 'A payload does not pass the schema of the queue.' },
  conflation_unsupported: {
    retriable: false,
    meaning: 'Conflation was asked for and the broker does not say that it is in force.',
  },
  removed: { retriable: false, meaning: 'The call has no route any more; the text names what to use.' },
  bad_argument: { retriable: false, meaning: 'The call cannot be sent as it was written; nothing was sent.' },
} as const satisfies Record<string, { retriable: boolean; meaning: string }>;

/** `error.code` when a declared conflation is not echoed by the broker. */
export const CONFLATION_UNSUPPORTED = 'conflation_unsupported';

/** A code made by the client. */
export type ClientErrorCode = keyof typeof clientErrorTable;

/** Every code a {@link LaneError} can carry; a newer broker or a gateway may send others. */
export type LaneErrorCode = ErrorCode | ClientErrorCode | (string & {});

/** What a {@link LaneError} is made of. */
export interface LaneErrorFacts {
  /** What went wrong. */
  readonly code: LaneErrorCode;
  /** What is wrong, for people. */
  readonly message: string;
  /** HTTP status; 0 (the default) when there was no answer. */
  readonly status?: number;
  /** Seconds the broker asked to wait; null (the default) when it did not. */
  readonly retryAfterSeconds?: number | null;
  /** Only with `items_refused`. */
  readonly results?: readonly PushResult[];
  /** Only with `bad_payload`. */
  readonly issues?: readonly SchemaIssue[];
  /** What was thrown first. */
  readonly cause?: unknown;
}

/**
 * Rejected with by every call of the client that did not succeed.
 *
 * @example
 * try {
 *   await client.queue('orders').push({ order: 1 });
 * } catch (error) {
 *   if (error instanceof LaneError && error.code === 'storage_full') pageSomebody(error.message);
 *   else throw error;
 * }
 */
export class LaneError extends Error {
  override readonly name = 'LaneError';
  /** What went wrong; stable over versions. */
  readonly code: LaneErrorCode;
  /** HTTP status of the answer; 0 when there was none. */
  readonly status: number;
  /** True: the same call may succeed later. The client has already repeated it as often as its options allow. */
  readonly retriable: boolean;
  /**
   * True: what was asked for may have been done all the same. Pushes, acks and everything else that is safe to repeat
   * were repeated; a call that is not was sent once.
   */
  readonly outcomeUnknown: boolean;
  /** Seconds the broker asked to wait before the next try; null when it did not. */
  readonly retryAfterSeconds: number | null;
  /** The broker's result per item, in input order; only with the code `items_refused`, otherwise empty. */
  readonly results: readonly PushResult[];
  /** What the schema found, with the code `bad_payload`; otherwise empty. */
  readonly issues: readonly SchemaIssue[];

  constructor(facts: LaneErrorFacts) {
    super(facts.message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.status = facts.status ?? 0;
    this.retriable = isRetriable(facts.code, this.status);
    this.outcomeUnknown = this.retriable && isOutcomeUnknown(facts.code, this.status, facts.cause);
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null;
    this.results = facts.results ?? [];
    this.issues = facts.issues ?? [];
  }

  /**
   * True after an abort: the same as the code `aborted`.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .popResult({ signal })
   *   .catch((error: unknown) => {
   *     if (!(error instanceof LaneError && error.aborted)) throw error;
   *   });
   */
  get aborted(): boolean {
    return this.code === 'aborted';
  }
}

/** True for a {@link LaneError} with this code. */
export function isLaneError(error: unknown, code: LaneErrorCode): error is LaneError {
  return error instanceof LaneError && error.code === code;
}

/** The contract lets a client repeat 429 and 5xx whatever their code; other statuses never. */
function isRetriable(code: string, status: number): boolean {
  if (status !== 0) return status === 429 || status >= 500;
  if (Object.hasOwn(clientErrorTable, code)) return clientErrorTable[code as ClientErrorCode].retriable;
  return Object.hasOwn(errorTable, code) && errorTable[code as ErrorCode].retriable;
}

/** Codes of 5xx answers that say that nothing was done; `no_leader` and `standby` come from clusters. */
const nothingDone: readonly string[] = ['retry', 'stopping', 'storage_full', 'no_leader', 'standby'];
/** Connections that were never made: nothing has been sent over them. */
const neverConnected: readonly unknown[] = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'];

function isOutcomeUnknown(code: string, status: number, cause: unknown): boolean {
  if (status !== 0) return status !== 429 && !nothingDone.includes(code);
  const inner = cause instanceof Error ? (cause.cause as { readonly code?: unknown } | undefined) : undefined;
  return !neverConnected.includes(inner?.code);
}
