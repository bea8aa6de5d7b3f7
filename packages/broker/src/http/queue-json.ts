/** Queues and their partitions as the answers show them. */

import type { QueueOptions } from '@lanemq/protocol';
import type { MessageCounts, PartitionDetail, QueueDetail, QueueSummary } from '../runtime/mod.ts';
import { isoTime } from './iso-time.ts';

function optionsJson(options: QueueOptions): object {
  const entries: [string, unknown][] = [];
  for (const entry of Object.entries(options)) {
    entries.push(entry);
    if (entry[0] === 'maxSize') entries.push(['maxQueueSize', entry[1]]);
  }
  return Object.fromEntries(entries);
}

function countsJson(counts: MessageCounts): object {
  const { total, pending, processing, completed, deadLetter } = counts;
  return { total, pending, processing, completed, deadLetter };
}

function timeOrNull(us: number): string | null {
  return us > 0 ? isoTime(us) : null;
}

/** The answer of configure. */
export function configuredJson(queue: QueueDetail): object {
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

function summaryJson(queue: QueueSummary): object {
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

function laneJson(queue: QueueSummary): object {
  return {
    id: queue.id,
    name: queue.name,
    queue: queue.name,
    partitions: queue.partitionCount,
    createdAt: isoTime(queue.createdAtUs),
  };
}

function newestFirst(queues: readonly QueueSummary[]): QueueSummary[] {
  return [...queues].sort((a, b) => b.createdAtUs - a.createdAtUs);
}

/** The answer of the queue list. The rows of surfaces that this broker does not have are 0. */
export function queueListJson(queues: readonly QueueSummary[]): object {
  return { queues: newestFirst(queues).map(summaryJson), kvRows: 0, kvBytes: 0, timerRows: 0, timerBytes: 0 };
}

/** The cheap form of the list. */
export function laneListJson(queues: readonly QueueSummary[]): object {
  return { queues: newestFirst(queues).map(laneJson), stats: 'lanes' };
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

/** The answer of one queue's detail. */
export function queueDetailJson(queue: QueueDetail): object {
  return {
    ...summaryJson(queue),
    partitions: queue.partitions.map(partitionJson),
    partitionsTruncated: queue.partitions.length < queue.partitionCount,
    totals: countsJson(queue.messages),
  };
}
