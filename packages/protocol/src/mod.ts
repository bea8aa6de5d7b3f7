export { type ErrorCode, type ErrorFacts, errorTable } from './errors.ts';
export { limits } from './limits.ts';
export { type QueueOptionName, type QueueOptions, queueOptionTable } from './queue-options.ts';
