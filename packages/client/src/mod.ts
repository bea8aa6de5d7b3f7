/** `@lanemq/client`: push, pop, consume and settle messages of a LaneMQ broker, from Node 20 and from browsers. */
export type { Ackable, AckContext, AckOutcome, RenewOutcome, SingleAckOutcome } from './ack.ts';
export { Admin, type Figures, type Health, type ListParameters } from './admin.ts';
export type { BufferOptions, BufferStats } from './buffer.ts';
export { LaneClient, LaneClient as Queen } from './client.ts';
export type { LaneClientConfig, LaneClientOptions, Retry429Options } from './client-options.ts';
export type { BatchHandler, ConsumeOptions, HandlerContext, MessageHandler } from './consumer.ts';
export { DeadLetterQueue, type RedriveOptions, type ReplayTarget } from './dead-letters.ts';
export { BUFFER_DEFAULTS, CLIENT_DEFAULTS, CONSUME_DEFAULTS, POP_DEFAULTS, QUEUE_DEFAULTS } from './defaults.ts';
export type { DueFilter, DueTime } from './due.ts';
export type { LoadBalancingStrategy } from './endpoints.ts';
export {
  type ClientErrorCode,
  CONFLATION_UNSUPPORTED,
  clientErrorTable,
  LaneError,
  type LaneErrorCode,
  type LaneErrorFacts,
} from './errors.ts';
export type { SeekTarget } from './groups.ts';
export type { Logger } from './log.ts';
export { Message, type TraceNote } from './message.ts';
export { CallbackOperation, ConsumeOperation } from './operations.ts';
export type { AutopilotChoice } from './pop.ts';
export { type PushedItem, type PushItem, PushOperation, type SentItem } from './push.ts';
export {
  type BufferedPush,
  type CallOptions,
  type ConfigureSettings,
  type PopResult,
  QueueBuilder,
  type QueueOptionChanges,
} from './queue-builder.ts';
export {
  type CommitPosition,
  NamespaceV1,
  type PageV1,
  type PartitionDepthV1,
  type PollOptions,
  QueueV1,
  type QueueV1Depth,
  type QueueV1Description,
  type QueueV1Row,
  type QueueV1Settings,
} from './queue-v1.ts';
export type { ConsumeV1Options, MessageV1, MessageV1Handler } from './queue-v1-consumer.ts';
export type { EnqueueItem, EnqueueResult } from './queue-v1-enqueue.ts';
export type { ChangedPartitions, FetchedPartition, FetchOptions } from './reads.ts';
export type { SchemaIssue, StandardSchema } from './schema.ts';
export type { TracingApi, TracingSpan } from './tracing.ts';
export { newTransactionId } from './transaction-id.ts';
export type {
  AckResult,
  AckStatus,
  ChangedPartition,
  DeadLetter,
  DeadLetterPage,
  DueChange,
  DueMessage,
  DuePage,
  FetchedRecord,
  FoundOffset,
  GroupDeletion,
  GroupRow,
  GroupStart,
  LaggingPartition,
  MessageHeaders,
  MessageList,
  MessageRow,
  PauseResult,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  QueueDepth,
  QueueRow,
  Redrive,
  ReplayResult,
  SeekResult,
  TraceList,
  WireMessage,
} from './wire.ts';
