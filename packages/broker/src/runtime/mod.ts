export { EdgeQueues, type PolledPage } from './edge-queues.ts';
export type {
  ConfigureRequest,
  DeleteQueueOutcome,
  Engine,
  HealthReport,
  PopRequest,
  Reply,
} from './engine.ts';
export { queueId } from './queue-views.ts';
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
