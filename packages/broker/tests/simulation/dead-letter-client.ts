/** A simulated operator that replays, deletes and purges dead letters, and configures what bounds delivery. */
import type { ConfigureRequest, DeadLetterView } from '../../src/runtime/mod.ts';
import type { AuditedEngine } from './audited-engine.ts';
import type { SimulatedRandom } from './simulated-random.ts';
import type { Features } from './world-options.ts';

/** One action on the dead letters of a queue; `done` when its answer came, or is lost. */
export function changeDeadLetters(
  engine: AuditedEngine,
  random: SimulatedRandom,
  queue: string,
  destinations: { readonly queues: readonly string[]; readonly partitions: readonly string[] },
  done: () => void,
): void {
  const one = <Value>(values: readonly Value[]): Value => values[random.integer(values.length)];
  if (random.chance(0.1)) {
    engine.purge(queue, done);
    return;
  }
  engine.deadLetters({ queue, group: null, limit: 50, offset: 0 }, false, (result) => {
    if (result.kind !== 'answered' || result.answer.rows.length === 0) {
      done();
      return;
    }
    const row: DeadLetterView = one(result.answer.rows);
    if (random.chance(0.2)) engine.deleteAddress(row, done);
    else {
      const target = {
        queue: random.chance(0.2) ? one(destinations.queues) : null,
        partition: random.chance(0.2) ? one(destinations.partitions) : null,
      };
      // Twice at the same time: only one of them finds it.
      if (random.chance(0.2)) engine.replay(row, target, () => undefined);
      engine.replay(row, target, done);
    }
  });
}

/** Options that bound what a group gets. */
export function limitOptions(features: Features, random: SimulatedRandom): ConfigureRequest['options'] {
  const options: { -readonly [K in keyof ConfigureRequest['options']]: ConfigureRequest['options'][K] } = {};
  const one = (...values: number[]): number => values[random.integer(values.length)];
  if (features.deliveryLimits) {
    options.maxDeliveries = one(0, 1, 2, 4);
    // What is dropped without a dead letter leaves no trace that could be audited.
    options.deadLetterQueue = true;
  }
  if (features.leaseCeilings) options.maxLeaseSeconds = one(0, 1, 2);
  if (features.groupLimits) {
    options.maxLeasedPartitions = one(0, 1, 3);
    options.maxPerSecond = one(0, 20, 500);
  }
  return options;
}
