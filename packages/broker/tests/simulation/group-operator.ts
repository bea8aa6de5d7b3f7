/** An operator of groups: seeks, deletes, moves and pauses while the others work. */
import type { PauseRequest } from '../../src/runtime/mod.ts';
import type { ExpectedQueue } from './expected-state.ts';
import type { SoughtTarget } from './group-audit.ts';
import { Client, type ClientHost, groupName } from './workload.ts';

/** Seeks, deletes, moves and pauses at random. What it paused it resumes some time; in the end everything is. */
export class GroupOperator extends Client {
  constructor(host: ClientHost) {
    super(host);
  }

  static isNeeded({ options: { features } }: ClientHost): boolean {
    return features.seeks || features.groupDeletes || features.groupMoves || features.pauses;
  }

  protected act(): void {
    const { engine, options } = this.host;
    const { features } = options;
    const done = (): void => this.next(options.thinkMs * 5);
    const group = groupName(this.host.random.integer(options.groups));
    const queue = this.queue();
    const drawn = this.integer(0, 9);
    if (drawn < 3 && features.seeks) {
      const partition = this.chance(0.5) ? null : this.partition();
      engine.groups.seek({ group, queue, partition, target: this.#target() }, done);
    } else if (drawn === 3 && features.groupDeletes) {
      const onOne = this.chance(0.7) ? queue : null;
      engine.groups.delete({ group, queue: onOne, keepRegistration: this.chance(0.5) }, done);
    } else if (drawn === 4 && features.groupMoves) {
      engine.groups.startFrom(group, this.host.wallUs() + this.integer(-5000, 1000) * 1000, done);
    } else if (drawn < 8 && features.pauses) {
      const what = this.one('queue', 'group', 'partition');
      const paused = this.chance(0.4);
      const request = {
        queue,
        partition: what === 'partition' ? this.partition() : null,
        group: what === 'group' ? group : null,
        paused,
      };
      engine.groups.pause(request, done);
    } else if (features.reads) engine.groups.list(done);
    else done();
  }

  #target(): SoughtTarget {
    const nowUs = this.host.wallUs();
    return this.one<SoughtTarget>(
      { kind: 'end' },
      { kind: 'beginning' },
      { kind: 'offset', offset: this.integer(0, 30) },
      { kind: 'time', stampUs: Math.max(0, nowUs + this.integer(-8000, 500) * 1000) },
    );
  }
}

/** What has to be resumed before everything can be drained. */
export function resumptions(queues: Iterable<ExpectedQueue>): PauseRequest[] {
  const requests: PauseRequest[] = [];
  for (const queue of queues) {
    const none = { queue: queue.name, partition: null, group: null, paused: false };
    if (queue.isPaused) requests.push(none);
    for (const [group, { isPaused }] of queue.subscriptions) if (isPaused === true) requests.push({ ...none, group });
    for (const [partition, { isPaused }] of queue.partitions) if (isPaused) requests.push({ ...none, partition });
  }
  return requests;
}
