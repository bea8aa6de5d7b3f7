/** Limits of the contract. Each has an error of its own; sizes in bytes, times in milliseconds unless named otherwise. */
export const limits = {
  /** Largest request body, after decompression. */
  bodyBytesMax: 64 * 1024 * 1024,
  /** Largest set of records stored as one append. */
  appendBytesMax: 96 * 1024 * 1024,
  /** bytes(tenant) + bytes(queue) + max(bytes(partition), bytes(group)), in UTF-8. */
  nameBudgetBytes: 447,
  /** The tenant counts with this many bytes, also while tenancy is off. */
  tenantBytes: 36,
  transactionIdBytesMax: 65_535,
  popBatchDefault: 200,
  popBatchMax: 10_000,
  popPartitionsMax: 64,
  popTimeoutMsDefault: 30_000,
  popTimeoutMsMax: 60_000,
  /** Payload bytes of one pop answer; the first message is always delivered. */
  popBytesMax: 32 * 1024 * 1024,
  conflatedMessagesMax: 64,
  leaseSecondsDefault: 60,
  leaseSecondsMax: 7 * 24 * 3600,
  deadLetterPageMax: 1000,
  deadLetterPageDefault: 100,
  /** A page of dead letters ends after this many payload bytes; the next one starts at offset + rows. */
  deadLetterPageBytes: 32 * 1024 * 1024,
  /** Redrives of dead letters that run at the same time; another is refused with `retry`. */
  redrivesRunningMax: 16,
  /** Redrives that are remembered, ended ones included. */
  redrivesKept: 100,
  /** Bytes of the error text kept with a dead letter; a longer one is cut at a character. */
  errorTextBytesMax: 4096,
  /** Nesting of arrays and objects in a body. */
  jsonDepthMax: 1000,
  /** Request bytes in flight before a request has to wait, and then is refused with `overloaded`. */
  admissionBytes: 256 * 1024 * 1024,
  admissionWaitMs: 15_000,
  parkedPopsMax: 200_000,
} as const;
