/** Queues and their partitions as the answers show them. */

import type { QueueOptions } from '@lanemq/protocol';
import type { ConfiguredQueue, MessageCounts, PartitionDetail, QueueDetail, QueueSummary } from '../runtime/mod.ts';
import { isoTime } from './iso-time.ts';

export function optionsJson(options: QueueOptions): object {
  const entries: [string, unknown][] = [];
  for (const entry of Object.entries(options)) {
    entries.push(entry);
    if (entry[0] === 'maxSize') entries.push(['maxQueueSize', entry[1]]);
  }
  return Object.fromEntries(entries);
}

export function countsJson(counts: MessageCounts): object {
  const { total, pending, processing, completed, deadLetter } = counts;
  return { total, pending, processing, completed, deadLetter };
}

export function timeOrNull(us: number): string | null {
  return us > 0 ? isoTime(us) : null;
}

/** The answer of configure. */
export function configuredJson(queue: ConfiguredQueue): object {
  return {
    configured: true,
    queueId: queue.id,
    partitionId: null,
    queue: queue.name,
    namespace: queue.namespace,
    task: queue.task,
    storage: 'segments',
    options: optionsJson(queue.options),
  };
}

export function summaryJson(queue: QueueSummary): object {
  return {
    id: queue.id,
    name: queue.name,
    queue: queue.name,
    namespace: queue.namespace,
    task: queue.task,
    storage: 'segments',
    partitions: queue.partitionCount,
    segments: { segments: queue.segmentCount, messages: queue.messages.total },
    messages: countsJson(queue.messages),
    retainedBytes: queue.retainedBytes,
    options: optionsJson(queue.options),
    createdAt: isoTime(queue.createdAtUs),
    paused: queue.pausedAtUs > 0,
    pausedAt: timeOrNull(queue.pausedAtUs),
  };
}

/** The cheap form of a row. */
export function laneJson(queue: QueueSummary): object {
  return {
    id: queue.id,
    name: queue.name,
    queue: queue.name,
    partitions: queue.partitionCount,
    createdAt: isoTime(queue.createdAtUs),
  };
}

function partitionJson(partition: PartitionDetail): object {
  const { counts } = partition;
  const lastWriteAt = timeOrNull(partition.lastWriteAtUs);
  return {
    id: partition.id,
    name: partition.name,
    createdAt: isoTime(partition.createdAtUs),
    messages: counts.total,
    stats: {
      total: counts.total,
      pending: counts.pending,
      processing: counts.processing,
      completed: counts.completed,
      failed: null,
      deadLetter: counts.deadLetter,
    },
    cursor: { totalConsumed: partition.totalConsumed, batchesConsumed: partition.batchesConsumed },
    lastActivity: lastWriteAt,
    oldestMessage: timeOrNull(partition.firstWriteAtUs),
    newestMessage: lastWriteAt,
    retainedBytes: partition.retainedBytes,
    paused: partition.pausedAtUs > 0,
    pausedAt: timeOrNull(partition.pausedAtUs),
  };
}

/** `partitionsAfter` of the next page. */
export function nextJson(pid: number | null): string | null {
  return pid === null ? null : String(pid);
}

/** The answer of one queue's detail. */
export function queueDetailJson(queue: QueueDetail): object {
  return {
    ...summaryJson(queue),
    partitions: queue.partitions.map(partitionJson),
    partitionsTruncated: queue.partitions.length < queue.partitionCount,
    partitionsNext: nextJson(queue.partitionsNext),
    totals: countsJson(queue.messages),
  };
}
