import type { Hasher } from '../codec/mod.ts';
import type { DecisionContext, Queue, Refusal } from '../core/mod.ts';
import { nameRefusal } from '../core/mod.ts';
import type { Operation } from './operations.ts';
import type { StoreAccess } from './store-access.ts';
import { utf8, utf8Length } from './text.ts';
import type { TurnHost } from './turn-budget.ts';
import type { Waiters } from './waiters.ts';

/** What operations on groups need from the shard they run in. */
export interface GroupHost extends TurnHost {
  readonly context: DecisionContext;
  readonly waiters: Waiters;
  readonly hasher: Hasher;
  readonly access: StoreAccess;
  submit(operation: Operation): void;
}

/** The lane of a partition by name, or −1. */
export function laneOfName(host: GroupHost, queue: Queue, partition: string): number {
  const bytes = utf8(partition);
  host.hasher.hash(bytes, 0, bytes.length);
  return host.context.state.partitions.find(queue.number, host.hasher.low, bytes, 0, bytes.length);
}

export function groupNameRefusal(queue: string, group: string): Refusal | null {
  return nameRefusal(utf8Length(queue), utf8Length(group), 'consumerGroup');
}
