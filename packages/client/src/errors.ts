/**
 * The one error class of the client. Programs look at `code`, never at the text.
 * Codes of the broker come from the protocol's table; the client adds the few that only it can know.
 */
import { type ErrorCode, errorTable } from '@lanemq/protocol';
import type { PushResult } from './wire.ts';

/** Codes that the client makes itself, because no answer of the broker says them. */
export const clientErrorTable = {
  network: { retriable: true, meaning: 'No answer: the connection could not be made or broke.' },
  deadline: { retriable: true, meaning: 'No complete answer within the time limit of the request.' },
  aborted: { retriable: false, meaning: 'The signal of the caller fired before the answer came.' },
  bad_answer: { retriable: false, meaning: 'The answer is not of the shape that the contract gives.' },
  http_error: { retriable: false, meaning: 'An error status without a code of the broker; a proxy may have answered.' },
  items_refused: { retriable: false, meaning: 'A push was processed, but some of its items were not stored.' },
  ack_refused: {
    retriable: false,
    meaning: 'The broker did not take an ack: the lease is gone or the message settled.',
  },
  bad_argument: { retriable: false, meaning: 'The call cannot be sent as it was written; nothing was sent.' },
} as const satisfies Record<string, { retriable: boolean; meaning: string }>;

/** A code made by the client. */
export type ClientErrorCode = keyof typeof clientErrorTable;

/** Every code a {@link LaneError} can carry; a newer broker or a gateway may send others. */
export type LaneErrorCode = ErrorCode | ClientErrorCode | (string & {});

/** What a {@link LaneError} is made of. */
export interface LaneErrorFacts {
  readonly code: LaneErrorCode;
  readonly message: string;
  /** HTTP status; 0 (the default) when there was no answer. */
  readonly status?: number;
  /** Seconds the broker asked to wait; null (the default) when it did not. */
  readonly retryAfterSeconds?: number | null;
  /** Only with `items_refused`. */
  readonly results?: readonly PushResult[];
  readonly cause?: unknown;
}

/** Thrown by every call of the client that did not succeed. */
export class LaneError extends Error {
  override readonly name = 'LaneError';
  /** What went wrong; stable over versions. */
  readonly code: LaneErrorCode;
  /** HTTP status of the answer; 0 when there was none. */
  readonly status: number;
  /** True: the same call may succeed later. The client has already repeated it as often as its options allow. */
  readonly retriable: boolean;
  /** Seconds the broker asked to wait before the next try; null when it did not. */
  readonly retryAfterSeconds: number | null;
  /** The broker's result per item, in input order; only with the code `items_refused`, otherwise empty. */
  readonly results: readonly PushResult[];

  constructor(facts: LaneErrorFacts) {
    super(facts.message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.status = facts.status ?? 0;
    this.retriable = isRetriable(facts.code, this.status);
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null;
    this.results = facts.results ?? [];
  }
}

/** The contract lets a client repeat 429 and 5xx whatever their code; other statuses never. */
function isRetriable(code: string, status: number): boolean {
  if (status !== 0) return status === 429 || status >= 500;
  if (Object.hasOwn(clientErrorTable, code)) return clientErrorTable[code as ClientErrorCode].retriable;
  return Object.hasOwn(errorTable, code) && errorTable[code as ErrorCode].retriable;
}
