/** One option of a queue: its type, default and bounds as the contract gives them. */
export interface QueueOptionFacts {
  readonly type: 'integer' | 'boolean' | 'text';
  readonly default: number | boolean | string;
  readonly min?: number;
  readonly max?: number;
  readonly meaning: string;
}

const secondsMax = 10 * 365 * 24 * 3600;

/** In the order in which answers list them. `maxQueueSize` is a second name of `maxSize`. */
export const queueOptionTable = {
  priority: {
    type: 'integer',
    default: 0,
    min: -1_000_000,
    max: 1_000_000,
    meaning: 'Order between the ready queues of a discover pop, highest first.',
  },
  leaseTime: {
    type: 'integer',
    default: 300,
    min: 0,
    max: 7 * 24 * 3600,
    meaning: 'Seconds of a lease when the pop names none; at least 1 is given. 60 for a queue that was not configured.',
  },
  retryLimit: {
    type: 'integer',
    default: 3,
    min: 0,
    max: 1_000_000,
    meaning: 'Failed acks charged before a message is dead-lettered or dropped.',
  },
  retryDelay: {
    type: 'integer',
    default: 1000,
    min: 0,
    max: secondsMax * 1000,
    meaning:
      'Milliseconds a failed message and its partition wait. In force only when set to something other than the default.',
  },
  maxSize: {
    type: 'integer',
    default: 0,
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    meaning: 'Unfinished messages the queue may hold; 0 = no limit. A push over it is refused with queue_full.',
  },
  ttl: {
    type: 'integer',
    default: 3600,
    min: 0,
    max: secondsMax,
    meaning:
      'Seconds after which an undelivered append is skipped; 0 = never. In force only when set to something other than the default.',
  },
  deadLetterQueue: { type: 'boolean', default: true, meaning: 'File a message whose retries are used up.' },
  dlqAfterMaxRetries: { type: 'boolean', default: true, meaning: 'The same; either being true is enough.' },
  delayedProcessing: {
    type: 'integer',
    default: 0,
    min: 0,
    max: secondsMax,
    meaning: 'Seconds each append is held before it can be delivered.',
  },
  windowBuffer: {
    type: 'integer',
    default: 0,
    min: 0,
    max: secondsMax,
    meaning: 'Seconds a partition must be quiet before it is delivered.',
  },
  retentionSeconds: {
    type: 'integer',
    default: 0,
    min: 0,
    max: secondsMax,
    meaning: 'Delete appends older than this; needs retentionEnabled; 0 = off.',
  },
  completedRetentionSeconds: {
    type: 'integer',
    default: 0,
    min: 0,
    max: secondsMax,
    meaning: 'Delete older appends that every group has consumed; needs retentionEnabled; 0 = off.',
  },
  retentionEnabled: { type: 'boolean', default: false, meaning: 'Switch of the two above.' },
  encryptionEnabled: {
    type: 'boolean',
    default: false,
    meaning: 'Encrypt payloads at rest; needs a key at the broker.',
  },
  maxWaitTimeSeconds: {
    type: 'integer',
    default: 0,
    min: 0,
    max: secondsMax,
    meaning: 'Delete appends older than this, whatever else is set; 0 = off.',
  },
  minPopWaitTime: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 60_000,
    meaning: 'Milliseconds a waiting pop collects before it answers with less than its batch.',
  },
  dedupWindowSeconds: {
    type: 'integer',
    default: 3600,
    min: 0,
    max: secondsMax,
    meaning:
      'How long a transactionId is remembered; 0 = not at all. A longer window does not bring back what was forgotten before.',
  },
  retentionSinkHold: {
    type: 'text',
    default: '',
    meaning: 'Name of a sink that holds retention back; [A-Za-z0-9._-], at most 64.',
  },
  retentionSinkHoldMaxSeconds: {
    type: 'integer',
    default: 604_800,
    min: 0,
    max: 31_536_000,
    meaning: 'How long it may; 60 or more, or 0.',
  },
  maxLeaseSeconds: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 7 * 24 * 3600,
    meaning:
      'Seconds after its delivery at which a lease ends, whatever it was asked for or extended by; 0 = no bound.',
  },
  maxDeliveries: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000,
    meaning:
      'Deliveries of a message that stays unsettled, ended leases included, after which it is dead-lettered or dropped; a repeated one is delivered alone, so 2 or more spares its neighbours; 0 = no bound.',
  },
  maxLeasedPartitions: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000_000,
    meaning: 'Partitions that a group may have under lease at a time; 0 = no bound.',
  },
  maxPerSecond: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000_000,
    meaning: 'Messages a group is delivered per second, a tenth of that at once; 0 = no bound.',
  },
} as const satisfies Record<string, QueueOptionFacts>;

export type QueueOptionName = keyof typeof queueOptionTable;

export type QueueOptions = {
  -readonly [K in QueueOptionName]: (typeof queueOptionTable)[K]['type'] extends 'integer'
    ? number
    : (typeof queueOptionTable)[K]['type'] extends 'boolean'
      ? boolean
      : string;
};

const sinkNamePattern = /^[A-Za-z0-9._-]{0,64}$/;
/** Smallest retentionSinkHoldMaxSeconds that is not 0. */
const sinkHoldSecondsMin = 60;

export type ReadQueueOption =
  | { readonly ok: true; readonly value: number | boolean | string }
  /** Begins with the option's name. */
  | { readonly ok: false; readonly message: string };

/** The value an option gets from what a client sent for it: checked against the table, and clamped where the contract clamps. */
export function readQueueOption(name: QueueOptionName, value: unknown): ReadQueueOption {
  const refuse = (what: string): ReadQueueOption => ({ ok: false, message: `${name} ${what}` });
  const facts = queueOptionTable[name];
  switch (facts.type) {
    case 'boolean':
      return typeof value === 'boolean' ? { ok: true, value } : refuse('must be a boolean');
    case 'text':
      if (typeof value !== 'string') return refuse('must be a string');
      return sinkNamePattern.test(value) ? { ok: true, value } : refuse('must be at most 64 of A-Z a-z 0-9 . _ -');
    case 'integer': {
      if (typeof value !== 'number' || !Number.isInteger(value)) return refuse('must be an integer');
      const { min, max } = facts;
      if (name === 'minPopWaitTime') return { ok: true, value: Math.min(Math.max(value, min), max) };
      if (value < min || value > max) return refuse(`must be from ${min} to ${max}, got ${value}`);
      if (name === 'retentionSinkHoldMaxSeconds' && value > 0 && value < sinkHoldSecondsMin) {
        return refuse(`must be 0 or at least ${sinkHoldSecondsMin}, got ${value}`);
      }
      return { ok: true, value };
    }
  }
}
