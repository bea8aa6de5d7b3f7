export { type ErrorCode, type ErrorFacts, errorTable } from './errors.ts';
export { limits } from './limits.ts';
export { type QueueOptionName, type QueueOptions, queueOptionTable, readQueueOption } from './queue-options.ts';
