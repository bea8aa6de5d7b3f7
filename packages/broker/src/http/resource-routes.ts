/** Figures about queues: depth, sizes, overview, labels, and the status pages that consoles draw. */

import { limits } from '@lanemq/protocol';
import type {
  LabelTotals,
  MinuteSample,
  OverviewView,
  QueueDepth,
  QueueDetail,
  QueueList,
  QueueSizes,
  StatusView,
} from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { isoTime, parseIsoTime } from './iso-time.ts';
import { BadParameter, type QueryParameters } from './query-parameters.ts';
import { countsJson, nextJson, optionsJson, queueDetailJson } from './queue-json.ts';
import {
  beginRead,
  jsonAnswer,
  queueNotFound,
  readPage,
  readParameters,
  readPartitionPage,
  replyWith,
} from './read-route.ts';

/** The group of requests that name none. */
const queueMode = '__QUEUE_MODE__';

/** GET /api/v1/resources/queues/{queue}/depth?group= */
export function queueDepth(exchange: Exchange, queue: string, query: string): void {
  const read = readParameters(exchange, query, (parameters) => ({
    group: parameters.name('group') ?? parameters.name('consumerGroup') ?? queueMode,
    page: readPartitionPage(parameters),
  }));
  if (read === null || !beginRead(exchange)) return;
  const reply = replyWith<QueueDepth | null>(exchange, (depth) => {
    if (depth === null) return queueNotFound;
    const { partitions, partitionsNext, ...sums } = depth;
    return jsonAnswer(200, {
      ...sums,
      // A conflating group gets one message of each partition, however many there are.
      effectivePending: depth.conflation ? depth.partitionsPending : depth.pending,
      effectiveReady: depth.conflation ? depth.partitionsReady : depth.ready,
      partitions: partitions.map(({ pid, ...facts }) => ({ ...facts, partitionId: String(pid) })),
      partitionsNext: nextJson(partitionsNext),
    });
  });
  exchange.services.engine.views.queueDepth(queue, read.group, read.page, reply);
}

/** GET /api/v1/resources/queues/{queue}/sizes */
export function queueSizes(exchange: Exchange, queue: string, query: string): void {
  const page = readParameters(exchange, query, readPartitionPage);
  if (page === null || !beginRead(exchange)) return;
  const reply = replyWith<QueueSizes | null>(exchange, (sizes) => {
    if (sizes === null) return queueNotFound;
    // By hand: an object would put names that look like numbers first.
    const members = sizes.partitions.map(({ name, bytes }) => `${JSON.stringify(name)}:${bytes}`);
    const end = { retainedBytes: sizes.retainedBytes, partitionsNext: nextJson(sizes.partitionsNext) };
    const text = `{"queue":${JSON.stringify(sizes.queue)},"partitions":{${members.join(',')}},${JSON.stringify(end).slice(1)}`;
    return { status: 200, body: Buffer.from(text) };
  });
  exchange.services.engine.views.queueSizes(queue, page, reply);
}

function readOverview(exchange: Exchange, toJson: (sums: OverviewView) => object): void {
  if (!beginRead(exchange)) return;
  exchange.services.engine.views.overview(replyWith(exchange, (sums: OverviewView) => jsonAnswer(200, toJson(sums))));
}

/** GET /api/v1/resources/overview. How old the oldest pending message is would have to be read from disk: null. */
export function resourceOverview(exchange: Exchange): void {
  readOverview(exchange, (sums) => ({
    queues: sums.queues,
    partitions: sums.partitions,
    namespaces: sums.namespaces.length,
    tasks: sums.tasks.length,
    messages: { ...countsJson(sums.messages), failed: 0 },
    lag: { time: { avg: null, median: null, min: null, max: null }, offset: sums.offsetLag },
    timestamp: isoTime(sums.nowUs),
    statsAge: 0,
  }));
}

function labelsJson(
  name: 'namespace' | 'task',
  labels: readonly LabelTotals[],
  { limit, offset }: { limit: number; offset: number },
): object[] {
  return labels.slice(offset, offset + limit).map(({ label, queues, partitions, total, pending }) => ({
    [name]: label,
    queues,
    partitions,
    messages: { total, pending },
  }));
}

/** GET /api/v1/resources/namespaces and …/tasks */
export function resourceLabels(exchange: Exchange, name: 'namespace' | 'task', query: string): void {
  const page = readParameters(exchange, query, (parameters) =>
    readPage(parameters, limits.labelsPageDefault, limits.labelsPageMax),
  );
  if (page === null) return;
  readOverview(exchange, (sums) => {
    const labels = name === 'namespace' ? sums.namespaces : sums.tasks;
    return { [`${name}s`]: labelsJson(name, labels, page), total: labels.length };
  });
}

/** GET /api/v1/status/queues */
export function statusQueues(exchange: Exchange, query: string): void {
  const page = readParameters(exchange, query, (parameters) =>
    readPage(parameters, limits.labelsPageDefault, limits.labelsPageMax),
  );
  if (page === null || !beginRead(exchange)) return;
  const rows: object[] = [];
  const reply = replyWith<QueueList>(exchange, ({ total }) =>
    jsonAnswer(200, { queues: rows, pagination: { ...page, total } }),
  );
  exchange.services.engine.views.listQueues(
    { ...page, counted: true },
    {
      ...reply,
      rows: (queues) => {
        const made = queues.map((queue) => ({
          id: queue.id,
          name: queue.name,
          namespace: queue.namespace,
          task: queue.task,
          createdAt: isoTime(queue.createdAtUs),
          partitions: queue.partitionCount,
          messages: countsJson(queue.messages),
        }));
        rows.push(...made);
      },
    },
  );
}

/** GET /api/v1/status/queues/{queue} */
export function statusQueue(exchange: Exchange, queue: string, query: string): void {
  const page = readParameters(exchange, query, readPartitionPage);
  if (page === null || !beginRead(exchange)) return;
  const reply = replyWith<QueueDetail | null>(exchange, (detail) =>
    detail === null
      ? queueNotFound
      : jsonAnswer(200, { ...queueDetailJson(detail), config: optionsJson(detail.options) }),
  );
  exchange.services.engine.queueDetail(queue, reply, page);
}

const usPerMinute = 60_000_000;
const usPerHour = 60 * usPerMinute;

interface Range {
  readonly fromUs: number;
  readonly toUs: number;
  /** A whole window is cut into buckets of this many minutes. */
  readonly bucketMinutes: number;
}

/** A time parameter; null when it was not sent. */
export function timeOf(parameters: QueryParameters, name: string): number | null {
  const text = parameters.name(name);
  if (text === null) return null;
  const us = parseIsoTime(text);
  if (us === undefined)
    throw new BadParameter(`${name} must be an ISO-8601 time, got ${JSON.stringify(text.slice(0, 64))}`);
  return us;
}

function bucketMinutesOf(minutes: number): number {
  if (minutes <= 60) return 1;
  if (minutes <= 6 * 60) return 5;
  if (minutes <= 24 * 60) return 15;
  return minutes <= 7 * 24 * 60 ? 60 : 360;
}

function readRange(parameters: QueryParameters): Range {
  const toUs = timeOf(parameters, 'to') ?? Date.now() * 1000;
  const fromUs = timeOf(parameters, 'from') ?? toUs - usPerHour;
  if (fromUs >= toUs) throw new BadParameter('from must be before to');
  return { fromUs, toUs, bucketMinutes: bucketMinutesOf((toUs - fromUs) / usPerMinute) };
}

interface Bucket {
  readonly atUs: number;
  pushed: number;
  delivered: number;
  acked: number;
  deadLettered: number;
}

/** Newest first. Buckets in which nothing happened are left out. */
function bucketsOf(samples: readonly MinuteSample[], bucketMinutes: number): Bucket[] {
  const buckets = new Map<number, Bucket>();
  const bucketUs = bucketMinutes * usPerMinute;
  for (const sample of samples) {
    const atUs = Math.floor(sample.atUs / bucketUs) * bucketUs;
    let bucket = buckets.get(atUs);
    if (bucket === undefined) {
      bucket = { atUs, pushed: 0, delivered: 0, acked: 0, deadLettered: 0 };
      buckets.set(atUs, bucket);
    }
    bucket.pushed += sample.pushed;
    bucket.delivered += sample.delivered;
    bucket.acked += sample.acked;
    bucket.deadLettered += sample.deadLettered;
  }
  return [...buckets.values()];
}

function perSecond(count: number, bucketMinutes: number): number {
  return Math.round((count / (bucketMinutes * 60)) * 100) / 100;
}

/** What this broker does not measure is null: a zero would be a figure. */
function bucketJson(bucket: Bucket, minutes: number): object {
  return {
    timestamp: isoTime(bucket.atUs),
    ingested: bucket.pushed,
    processed: bucket.acked,
    popMessages: bucket.delivered,
    ingestedPerSecond: perSecond(bucket.pushed, minutes),
    processedPerSecond: perSecond(bucket.acked, minutes),
    popPerSecond: perSecond(bucket.delivered, minutes),
    avgLagMs: null,
    maxLagMs: null,
    avgEventLoopLagMs: null,
    maxEventLoopLagMs: null,
    minFreeSlots: null,
    dbErrors: 0,
    ackFailed: null,
    dlqCount: bucket.deadLettered,
    queenCpuUserPct: null,
    queenCpuSysPct: null,
    queenRssMb: null,
    dbPoolActive: null,
    dbPoolIdle: null,
    dbPoolSize: null,
  };
}

function sumOf(buckets: readonly Bucket[], name: 'pushed' | 'delivered' | 'acked' | 'deadLettered'): number {
  return buckets.reduce((sum, bucket) => sum + bucket[name], 0);
}

function statusJson(exchange: Exchange, status: StatusView, range: Range): object {
  const { counters } = exchange.services;
  const buckets = bucketsOf(status.samples, range.bucketMinutes);
  const per = (messages: number, requests: number): number =>
    requests === 0 ? 0 : Math.round((messages / requests) * 100) / 100;
  const figures = exchange.services.engine.metrics();
  return {
    engine: 'raft',
    timeRange: { from: isoTime(range.fromUs), to: isoTime(range.toUs) },
    bucketMinutes: range.bucketMinutes,
    pointCount: buckets.length,
    throughput: buckets.map((bucket) => bucketJson(bucket, range.bucketMinutes)),
    queues: status.queues.map((queue) => ({
      id: queue.id,
      name: queue.name,
      namespace: queue.namespace,
      task: queue.task,
      partitions: queue.partitionCount,
      totalConsumed: Math.max(0, queue.messages.total - queue.messages.pending - queue.messages.deadLetter),
    })),
    messages: {
      ...countsJson(status.overview.messages),
      failed: 0,
      requests: { push: counters.pushRequests, pop: counters.popRequests, ack: counters.ackRequests },
      batchEfficiency: {
        push: per(figures['pushedRecords'] ?? 0, counters.pushRequests),
        pop: per(figures['deliveredRecords'] ?? 0, counters.popRequests),
        ack: per(figures['ackedItems'] ?? 0, counters.ackRequests),
      },
    },
    leases: {
      active: status.leasedPartitions,
      partitionsWithLeases: status.leasedPartitions,
      totalBatchSize: status.leasedRecords,
      totalAcked: 0,
    },
    deadLetterQueue: {
      totalMessages: status.overview.messages.deadLetter,
      currentMessages: status.overview.messages.deadLetter,
      affectedPartitions: status.deadLetterPartitions,
      topErrors: status.topErrors,
    },
    workers: [],
    errors: { dbErrors: 0, ackFailed: 0, dlqMessages: sumOf(buckets, 'deadLettered') },
    countedSince: status.sinceUs > 0 ? isoTime(status.sinceUs) : null,
    statsAge: 0,
  };
}

function analyticsJson(status: StatusView, range: Range): object {
  const buckets = bucketsOf(status.samples, range.bucketMinutes);
  return {
    timeRange: { from: isoTime(range.fromUs), to: isoTime(range.toUs) },
    bucketMinutes: range.bucketMinutes,
    pointCount: buckets.length,
    data: buckets.map((bucket) => bucketJson(bucket, range.bucketMinutes)),
    totals: {
      ingested: sumOf(buckets, 'pushed'),
      processed: sumOf(buckets, 'acked'),
      popMessages: sumOf(buckets, 'delivered'),
      dlqCount: sumOf(buckets, 'deadLettered'),
    },
    countedSince: status.sinceUs > 0 ? isoTime(status.sinceUs) : null,
  };
}

/** GET /api/v1/status and /api/v1/status/analytics. The series are those of this process, and end with it. */
export function statusPage(exchange: Exchange, page: 'status' | 'analytics', query: string): void {
  const range = readParameters(exchange, query, readRange);
  if (range === null || !beginRead(exchange)) return;
  const reply = replyWith<StatusView>(exchange, (status) =>
    jsonAnswer(200, page === 'status' ? statusJson(exchange, status, range) : analyticsJson(status, range)),
  );
  exchange.services.engine.views.status(range.fromUs, range.toUs, reply);
}

/** POST /api/v1/stats/refresh: every answer is made of the figures as they are, so there is nothing to refresh. */
export function refreshStats(exchange: Exchange): void {
  exchange.answerValue(200, { success: true, refreshed: false, engine: 'raft' });
}
