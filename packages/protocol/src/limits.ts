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
  /** Items of a push with a binary body, which may be a few bytes each. */
  binaryPushItemsMax: 1_000_000,
  /** JSON bytes of an item's headers. */
  headersBytesMax: 16_384,
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
  deadLetterPageBytes: 8 * 1024 * 1024,
  /** Redrives of dead letters that run at the same time; another is refused with `retry`. */
  redrivesRunningMax: 16,
  /** Redrives that are remembered, ended ones included. */
  redrivesKept: 100,
  /** Bytes of the error text kept with a dead letter; a longer one is cut at a character. */
  errorTextBytesMax: 4096,
  /** Single partitions that may be paused at the same time, in all queues together. */
  pausedPartitionsMax: 10_000,
  /** Rows that one answer about groups lists, by default and at most. */
  groupPartitionsDefault: 1000,
  groupPartitionsMax: 5000,
  /** Partitions that the list of groups looks at for the oldest message, per queue. */
  groupListPartitionsMax: 100_000,
  /** Positions that one request may ask for, and one answer hold. */
  positionsMax: 65_536,
  /** Nesting of arrays and objects in a body. */
  jsonDepthMax: 1000,
  /** How far ahead the time of a due message may lie: 366 days. */
  dueDelayMsMax: 366 * 24 * 3600 * 1000,
  /** Messages that wait for their time, in all queues together. */
  dueMessagesMax: 1_000_000,
  /** Cancelled messages that are still kept, in all queues together. */
  cancelledMessagesMax: 1_000_000,
  duePageDefault: 100,
  duePageMax: 1000,
  /** Request bytes in flight before a request has to wait, and then is refused with `overloaded`. */
  admissionBytes: 256 * 1024 * 1024,
  admissionWaitMs: 15_000,
  parkedPopsMax: 200_000,
  /** Lists, walks and searches that run at the same moment; more are refused with `retry`. */
  readsAtOnceMax: 16,
  /** Entries of one fetch, fetch/offsets or partitions/changed. */
  readEntriesMax: 1024,
  fetchEntryBytesDefault: 1024 * 1024,
  fetchEntryBytesMax: 8 * 1024 * 1024,
  fetchRecordsMax: 10_000,
  fetchWaitMsMax: 30_000,
  /** A fetch or a list of changed partitions whose answer has so many bytes ends there, as if its own limit were reached. */
  fetchAnswerBytesMax: 32 * 1024 * 1024,
  /** Fetches that wait, and the entries of all of them; above it a fetch that would wait is refused with `retry`. */
  parkedFetchesMax: 16_384,
  parkedFetchEntriesMax: 262_144,
  changedPageMax: 1000,
  /** Partitions that all pages of one partitions/changed list together; each entry's page has its share. */
  changedRowsMax: 131_072,
  /** Queues of one listing. */
  queuesPageMax: 10_000,
  queuesPageDefault: 10_000,
  /** Namespaces, tasks or queues of one page of figures. */
  labelsPageMax: 1000,
  labelsPageDefault: 1000,
  /** Partitions of one page of a queue's detail, depth or sizes. */
  partitionsPageMax: 1000,
  partitionsPageDefault: 1000,
  messagesPageMax: 1000,
  messagesPageDefault: 200,
  /** How far a page of messages may lie behind the newest one; a time range reaches further. */
  messagesOffsetMax: 9000,
  /** Records, and bytes of their blocks, that are looked at for one page of messages. */
  messagesScannedMax: 10_000,
  messagesScannedBytes: 64 * 1024 * 1024,
  /** A page of messages or a peek ends after this many payload bytes. */
  messagesPageBytes: 8 * 1024 * 1024,
  peekPageMax: 1000,
  peekPageDefault: 100,
  /** Groups that a peek tells about. */
  peekGroupsMax: 100,
  /** Traces that are kept, and what they weigh in memory; the oldest go first. */
  tracesMax: 100_000,
  traceBytesMax: 64 * 1024 * 1024,
  traceKeptSeconds: 7 * 24 * 3600,
  /** JSON bytes of a trace's data. */
  traceDataBytesMax: 64 * 1024,
  /** Bytes of each text of a trace beside its data, and how many names it may have. */
  traceTextBytesMax: 511,
  traceNamesMax: 64,
  tracesPageMax: 1000,
  /** Names that are told apart when they are listed, the ones seen last. */
  traceNamesCountedMax: 10_000,
  traceNamesPageDefault: 100,
  tracesPageDefault: 200,
} as const;
