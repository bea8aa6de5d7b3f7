/** `@lanemq/client`: push, pop, consume and settle messages of a LaneMQ broker, from Node 20 and from browsers. */
export type {
  AckContext,
  AckOutcome,
  ConfigureSettings,
  DeadLetterFilter,
  DueFilter,
  DueTime,
  FetchEntry,
  FetchOptions,
  PopOptions,
  PushItem,
  QueueOptionChanges,
  RedriveOptions,
  ReplayTarget,
  SeekTarget,
} from './calls.ts';
export { LaneClient } from './client.ts';
export type { BatchHandler, ConsumeOptions, MessageHandler } from './consumer.ts';
export {
  type ClientErrorCode,
  clientErrorTable,
  LaneError,
  type LaneErrorCode,
  type LaneErrorFacts,
} from './errors.ts';
export { LaneQueue } from './queue.ts';
export { newTransactionId } from './transaction-id.ts';
export type { LaneClientOptions, Retry429Options } from './transport.ts';
export type {
  AckResult,
  AckStatus,
  ChangedPartition,
  DeadLetter,
  DeadLetterPage,
  DueChange,
  DueMessage,
  DuePage,
  ExtendResult,
  FetchedPartition,
  FetchedRecord,
  FoundOffset,
  GroupDeletion,
  GroupStart,
  Message,
  PauseResult,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  QueueRow,
  Redrive,
  ReplayResult,
  SeekResult,
} from './wire.ts';
