/**
 * What the metrics pages show. Names are those of `engine.metrics()` and of this process; the Prometheus name is
 * `lanemq_` and the name in snake case, with `_total` for a counter.
 */

export interface MetricFacts {
  readonly kind: 'counter' | 'gauge';
  readonly meaning: string;
}

/** Measured by the HTTP side itself. */
export const httpMetrics = {
  uptimeSeconds: { kind: 'gauge', meaning: 'Seconds since the process started.' },
  pushRequests: { kind: 'counter', meaning: 'Push requests that arrived.' },
  popRequests: { kind: 'counter', meaning: 'Pop requests that arrived.' },
  ackRequests: { kind: 'counter', meaning: 'Ack requests that arrived.' },
  otherRequests: { kind: 'counter', meaning: 'Other requests that arrived, unknown paths included.' },
  malformedRequests: {
    kind: 'counter',
    meaning: 'Connections that sent no HTTP request: bad syntax, headers too large, too slow.',
  },
  popsAbandoned: { kind: 'counter', meaning: 'Pops whose client went away before the answer.' },
  readersCut: { kind: 'counter', meaning: 'Connections cut because the client did not read its answer.' },
  openConnections: { kind: 'gauge', meaning: 'Open client connections.' },
  workingRequests: { kind: 'gauge', meaning: 'Requests other than pops that wait for the engine.' },
  unsentAnswerBytes: { kind: 'gauge', meaning: 'Answer bytes that clients have not read yet.' },
  admittedBytes: { kind: 'gauge', meaning: 'Body bytes of pushes in flight.' },
  admissionWaiting: { kind: 'gauge', meaning: 'Pushes that wait for room for their body.' },
  residentBytes: { kind: 'gauge', meaning: 'Resident memory of the process.' },
  heapUsedBytes: { kind: 'gauge', meaning: 'JavaScript heap in use.' },
  externalBytes: { kind: 'gauge', meaning: 'Memory of byte arrays outside the JavaScript heap.' },
  cpuUserSeconds: { kind: 'counter', meaning: 'CPU time of the process in user mode.' },
  cpuSystemSeconds: { kind: 'counter', meaning: 'CPU time of the process in the kernel.' },
} as const satisfies Record<string, MetricFacts>;

export type HttpMetricName = keyof typeof httpMetrics;

/** Measured by the engine; figures that are not named here are shown as gauges. */
export const engineMetrics: Readonly<Record<string, MetricFacts>> = {
  turns: { kind: 'counter', meaning: 'Turns of the loop.' },
  entries: { kind: 'counter', meaning: 'Log entries sealed.' },
  pushedRecords: { kind: 'counter', meaning: 'Messages of accepted pushes, duplicates included.' },
  duplicates: { kind: 'counter', meaning: 'Messages that were known by their transactionId.' },
  deliveredRecords: { kind: 'counter', meaning: 'Messages delivered, every delivery counted.' },
  ackedItems: { kind: 'counter', meaning: 'Items of acks.' },
  reloads: { kind: 'counter', meaning: 'Times the data folder was opened again after a failure.' },
  snapshots: { kind: 'counter', meaning: 'Snapshots taken.' },
  queues: { kind: 'gauge', meaning: 'Queues.' },
  partitions: { kind: 'gauge', meaning: 'Partitions.' },
  cursors: { kind: 'gauge', meaning: 'Cursors: one per partition and group that has met it.' },
  subscriptions: { kind: 'gauge', meaning: 'Registered groups, one per queue and group.' },
  leases: { kind: 'gauge', meaning: 'Partitions leased.' },
  deadLetters: { kind: 'gauge', meaning: 'Dead letters.' },
  dueMessages: { kind: 'gauge', meaning: 'Messages that wait for their time.' },
  cancelledMessages: { kind: 'gauge', meaning: 'Cancelled messages that are still kept.' },
  diskFull: { kind: 'gauge', meaning: '1 while the disk is over its watermark and pushes are refused.' },
  parkedPops: { kind: 'gauge', meaning: 'Pops that wait for messages.' },
  parkedFetches: { kind: 'gauge', meaning: 'Fetches that wait for records.' },
  queuedOperations: { kind: 'gauge', meaning: 'Requests that wait for the next turn.' },
  expiredRecords: { kind: 'counter', meaning: 'Messages that retention removed, since the log was opened.' },
  missedRecords: { kind: 'gauge', meaning: 'Of these, those that a group had not settled; once per group.' },
  deletedPartitions: {
    kind: 'counter',
    meaning: 'Partitions deleted because nobody used them, since the log was opened.',
  },
  reclaimedSegments: { kind: 'counter', meaning: 'Segments given back to the disk, since the log was opened.' },
  reclaimedBytes: { kind: 'counter', meaning: 'Their bytes.' },
  relocatedBytes: {
    kind: 'counter',
    meaning: 'Bytes of messages copied out of sparse segments, since the log was opened.',
  },
  bytesSinceSnapshot: { kind: 'gauge', meaning: 'Log bytes since the newest snapshot.' },
  fsyncs: { kind: 'counter', meaning: 'Times the log was made durable.' },
  syncs: { kind: 'counter', meaning: 'Times the log was made durable.' },
  writes: { kind: 'counter', meaning: 'Writes to the log.' },
  bytesWritten: { kind: 'counter', meaning: 'Bytes written to the log.' },
  coldReads: { kind: 'counter', meaning: 'Reads of old messages from disk.' },
  coldBytesRead: { kind: 'counter', meaning: 'Bytes of old messages read from disk.' },
  tailBytesHeld: { kind: 'gauge', meaning: 'Memory that holds the newest messages.' },
  coldBytesHeld: { kind: 'gauge', meaning: 'Memory that holds old messages read from disk.' },
  segmentsInMemory: { kind: 'gauge', meaning: 'Segments whose index lies in memory.' },
  blocksInMemory: { kind: 'gauge', meaning: 'Blocks indexed in memory.' },
  idsInMemory: { kind: 'gauge', meaning: 'TransactionIds indexed in memory.' },
  blockBytes: { kind: 'gauge', meaning: 'Memory of the block index.' },
  idBytes: { kind: 'gauge', meaning: 'Memory of the transactionId index.' },
  laneBytes: { kind: 'gauge', meaning: 'Memory of the newest block of each partition.' },
  sidecars: { kind: 'gauge', meaning: 'Index files of sealed segments in use.' },
  sidecarBytes: { kind: 'gauge', meaning: 'Memory of the directories of index files.' },
  cachedBytes: { kind: 'gauge', meaning: 'Memory of pages of index files.' },
  openFiles: { kind: 'gauge', meaning: 'Index files held open.' },
  rememberedBlocks: { kind: 'gauge', meaning: 'Places of old blocks that were looked up a moment ago.' },
  logTail: { kind: 'gauge', meaning: 'Address behind the last entry of the log.' },
  logEpoch: { kind: 'gauge', meaning: 'Number of this opening of the log.' },
};
