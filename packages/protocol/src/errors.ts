/** One row of the error table. */
export interface ErrorFacts {
  /** HTTP status of an answer that carries the code. */
  readonly status: number;
  /** True: the same request may be sent again unchanged and may then succeed. */
  readonly retriable: boolean;
  readonly meaning: string;
}

/**
 * Every code the broker answers with. Statuses, client errors and docs/errors.md derive from this table.
 * A code keeps its meaning for ever; a retired one is never used again.
 */
export const errorTable = {
  bad_body: {
    status: 400,
    retriable: false,
    meaning: 'The body is not JSON, or not of the shape of a push or an ack.',
  },
  bad_request: { status: 400, retriable: false, meaning: 'A parameter or a field has a value that is not accepted.' },
  not_found: { status: 404, retriable: false, meaning: 'The thing named by the route does not exist.' },
  no_such_route: { status: 404, retriable: false, meaning: 'No route with this path.' },
  method_not_allowed: { status: 405, retriable: false, meaning: 'The path exists, but not with this method.' },
  name_too_long: {
    status: 413,
    retriable: false,
    meaning: 'A queue, partition or group name is over the name budget.',
  },
  body_too_large: { status: 413, retriable: false, meaning: 'The body, after decompression, is over the limit.' },
  unsupported_encoding: { status: 415, retriable: false, meaning: 'The Content-Encoding is not one the broker reads.' },
  encryption_key_missing: {
    status: 409,
    retriable: false,
    meaning: 'The queue is encrypted and the broker was started without a key: nothing was stored.',
  },
  conflict: {
    status: 409,
    retriable: false,
    meaning: 'The thing exists already, or is in a condition that does not allow this.',
  },
  unsupported_media_type: { status: 415, retriable: false, meaning: 'The Content-Type is not application/json.' },
  too_many_paused: {
    status: 409,
    retriable: false,
    meaning: 'As many partitions are paused as may be: nothing was changed.',
  },
  not_waiting: {
    status: 409,
    retriable: false,
    meaning: 'The message does not wait for a time: it is due, or never had to wait, or was cancelled.',
  },
  too_many_due: {
    status: 429,
    retriable: true,
    meaning: 'As many messages wait for their time, or are kept as cancelled, as may be: nothing was changed.',
  },
  overloaded: { status: 429, retriable: true, meaning: 'No room for more request bytes in flight.' },
  queue_full: {
    status: 429,
    retriable: true,
    meaning: 'The queue holds as many unfinished messages as its maxSize allows.',
  },
  internal: { status: 500, retriable: true, meaning: 'A fault of the broker. The outcome is unknown.' },
  retry: { status: 503, retriable: true, meaning: 'The broker cannot serve this moment; nothing was done.' },
  outcome_unknown: {
    status: 503,
    retriable: true,
    meaning: 'The broker failed while the request was being made durable: it may or may not have been done.',
  },
  stopping: { status: 503, retriable: true, meaning: 'The broker is shutting down; nothing was done.' },
  storage_full: { status: 507, retriable: true, meaning: 'The disk is over its watermark; nothing was stored.' },
} as const satisfies Record<string, ErrorFacts>;

export type ErrorCode = keyof typeof errorTable;
