/** The defaults of the client, as tables. Names that end in `Millis` are milliseconds; queue options are seconds. */

/** Defaults of {@link LaneClient} options. */
export const CLIENT_DEFAULTS = Object.freeze({
  timeoutMillis: 30_000,
  retryAttempts: 3,
  retryDelayMillis: 1000,
  loadBalancingStrategy: 'affinity',
  affinityHashRing: 128,
  enableFailover: true,
  healthRetryAfterMillis: 5000,
  bearerToken: null,
  headers: Object.freeze({}),
  hostHeader: null,
  handleSignals: true,
});

/** Queue options that `create()` sends when they are not configured. */
export const QUEUE_DEFAULTS = Object.freeze({
  leaseTime: 300,
  retryLimit: 3,
  priority: 0,
  delayedProcessing: 0,
  windowBuffer: 0,
  maxSize: 0,
  retentionSeconds: 0,
  completedRetentionSeconds: 0,
  encryptionEnabled: false,
});

/** Defaults of `consume`; `batch` and `partitions` count when autopilot is off. */
export const CONSUME_DEFAULTS = Object.freeze({
  concurrency: 1,
  batch: 1,
  partitions: 1,
  autoAck: true,
  wait: true,
  timeoutMillis: 30_000,
  limit: null,
  idleMillis: null,
  renewLease: false,
  renewLeaseIntervalMillis: null,
  subscriptionMode: null,
  subscriptionFrom: null,
  conflation: false,
});

/** Defaults of `pop`; `batch` counts when autopilot is off. */
export const POP_DEFAULTS = Object.freeze({
  batch: 1,
  wait: true,
  timeoutMillis: 30_000,
  commitOnDelivery: false,
});

/** Defaults of a buffer on the client's side. */
export const BUFFER_DEFAULTS = Object.freeze({
  messageCount: 100,
  timeMillis: 1000,
  maxSize: 400,
  retryDelayMillis: 250,
});
