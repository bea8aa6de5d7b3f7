/** The parameters of a pop, with the defaults and bounds of the contract. */

import { limits } from '@lanemq/protocol';
import { defaultGroup } from '../core/mod.ts';
import type { PopRequest } from '../runtime/mod.ts';
import { parseIsoTime } from './iso-time.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';

const newModes: readonly string[] = ['new', 'new-only', 'new_only', 'newonly'];

function clamped(value: number | null, min: number, max: number): number | null {
  return value === null ? null : Math.min(Math.max(value, min), max);
}

function subscriptionMode(text: string | null, byDefault: 'new' | 'all'): 'new' | 'all' {
  if (text === null) return byDefault;
  return newModes.includes(text.toLowerCase()) ? 'new' : 'all';
}

/** A time that cannot be read counts as none. */
function subscriptionFrom(text: string | null): number | 'now' | null {
  if (text === null) return null;
  if (text === 'now') return 'now';
  // A client that does not encode its query means the sign of a zone by `+`, which reads as a space.
  const us = parseIsoTime(text.replace(/ (\d\d:\d\d)$/, '+$1'));
  return us === undefined ? null : Math.max(us, 0);
}

/**
 * Reads the query of a pop. Throws BadParameter for what the contract refuses.
 *
 * @param target null for a discover pop, whose target is in the query
 */
export function readPopRequest(
  target: PopRequest['target'] | null,
  query: string,
  defaultSubscriptionMode: 'new' | 'all',
): PopRequest {
  const parameters = new QueryParameters(query);
  const batch = parameters.integer('batch');
  const partitions = parameters.integer('partitions');
  const wait = parameters.flag('wait');
  const timeoutMs = parameters.integer('timeout') ?? limits.popTimeoutMsDefault;
  const leaseSeconds = parameters.integer('leaseSeconds');
  const autoAck = parameters.flag('autoAck');
  const commitOnDelivery = parameters.flag('commitOnDelivery') || autoAck;
  const conflation = parameters.flag('conflation');
  const autopilot = parameters.flag('autopilot');
  const group = parameters.name('consumerGroup') ?? defaultGroup;
  if (timeoutMs < 0) throw new BadParameter(`timeout must not be negative, got ${timeoutMs}`);
  if (conflation && group === defaultGroup) throw new BadParameter('conflation needs a consumerGroup');
  if (conflation && commitOnDelivery) {
    throw new BadParameter('conflation does not go together with commitOnDelivery (or autoAck)');
  }
  return {
    target: target ?? discoverTarget(parameters),
    group,
    batch: clamped(batch, 1, limits.popBatchMax),
    partitions: clamped(partitions, 1, limits.popPartitionsMax),
    wait: wait && target !== null,
    timeoutMs: Math.min(timeoutMs, limits.popTimeoutMsMax),
    leaseSeconds: leaseSeconds === null || leaseSeconds <= 0 ? null : Math.min(leaseSeconds, limits.leaseSecondsMax),
    subscriptionMode: subscriptionMode(parameters.text('subscriptionMode'), defaultSubscriptionMode),
    subscriptionFrom: subscriptionFrom(parameters.text('subscriptionFrom')),
    commitOnDelivery,
    conflation,
    autopilot: autopilot && target?.kind === 'queue' && !conflation,
  };
}

function discoverTarget(parameters: QueryParameters): PopRequest['target'] {
  const namespace = parameters.name('namespace');
  const task = parameters.name('task');
  if (namespace === null && task === null) throw new BadParameter('namespace or task is required');
  return { kind: 'discover', namespace, task };
}
