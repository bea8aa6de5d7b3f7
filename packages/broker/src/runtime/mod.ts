export type {
  ConsumptionMode,
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
  RowsReply,
  StatusView,
  TraceNamePage,
  TracePage,
  TraceView,
  Views,
} from './browse-views.ts';
export type {
  ConfigureRequest,
  DeleteQueueOutcome,
  Engine,
  HealthReport,
  PopRequest,
  Reply,
} from './engine.ts';
export { type PartitionRef, readPartitionRef } from './partition-ref.ts';
export { queueId } from './queue-views.ts';
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
