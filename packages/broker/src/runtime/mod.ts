export type {
  ConsumptionMode,
  DueFacts,
  MessageDetail,
  MessageFilter,
  MessagePage,
  MessageStatus,
  MessageView,
  MinuteSample,
  PageOf,
  PeekRequest,
  PeekView,
  RecordView,
  StatusView,
  TraceNamePage,
  TracePage,
  TraceView,
  Views,
} from './browse-views.ts';
export type { DeadLetterAddress, DeadLetterChanges } from './dead-letter-changes.ts';
export type {
  ChangedDue,
  DueChangeRequest,
  DueEngine,
  DueFilter,
  DueMessage,
  DuePage,
  DuePlace,
} from './due-engine.ts';
export { EdgeQueues } from './edge-queues.ts';
export type { ReadReply } from './edge-read.ts';
export { EdgeTables, type ScannedPage } from './edge-tables.ts';
export type {
  ConfigureRequest,
  DeleteQueueOutcome,
  Engine,
  HealthReport,
  PopRequest,
  Reply,
} from './engine.ts';
export type {
  DeleteGroupOutcome,
  GroupEngine,
  GroupPartitionRow,
  GroupPosition,
  GroupQueue,
  GroupRow,
  PauseOutcome,
  PauseRequest,
  RowsReply,
  SeekOutcome,
} from './group-engine.ts';
export type { HousekeepingOptions } from './housekeeping.ts';
export { type PartitionRef, readPartitionRef } from './partition-ref.ts';
export type { PolledPage } from './poll-operation.ts';
export { queueId } from './queue-views.ts';
export type {
  ChangedEntry,
  ChangedPartition,
  ChangedReply,
  EntryError,
  FetchEntry,
  FetchReply,
  FetchRequest,
  FoundOffset,
  OffsetReader,
  OffsetsEntry,
  PartitionBounds,
} from './read-requests.ts';
export type { RedriveRequest, RedriveState, RedriveView } from './redrive.ts';
export type { ReplayOutcome, ReplayTarget } from './replay.ts';
export { Shard, type ShardHost, type ShardOptions } from './shard.ts';
export type { Store } from './store.ts';
export { StoreDamage } from './store-access.ts';
export { traceIdText } from './trace-views.ts';
export type {
  ConfiguredQueue,
  DeadLetterPage,
  DeadLetterView,
  LabelTotals,
  MessageCounts,
  OverviewView,
  PartitionDetail,
  PartitionPage,
  QueueDepth,
  QueueDetail,
  QueueList,
  QueueSizes,
  QueueSummary,
} from './views.ts';
