export type {
  ChangedDue,
  DueChangeRequest,
  DueEngine,
  DueFilter,
  DueMessage,
  DuePage,
  DuePlace,
} from './due-engine.ts';
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
export { Shard, type ShardHost, type ShardOptions } from './shard.ts';
export type { Store } from './store.ts';
export { StoreDamage } from './store-access.ts';
export type {
  DeadLetterPage,
  DeadLetterView,
  MessageCounts,
  PartitionDetail,
  QueueDetail,
  QueueSummary,
} from './views.ts';
