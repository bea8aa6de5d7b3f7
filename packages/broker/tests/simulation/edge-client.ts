/** A client of queue/v1: enqueues, polls and commits, with and without a watermark, while the others work. */
import { edgePartitions } from './audited-edges.ts';
import type { Result } from './audited-engine.ts';
import { SimulatedRandom } from './simulated-random.ts';
import { Client, type ClientHost } from './workload.ts';

const seqMax = 40;
const clients = 3;

export class EdgeClient extends Client {
  #counter = 0;

  constructor(host: ClientHost, number: number) {
    // Its own chance: what the others draw does not depend on it.
    super({ ...host, random: new SimulatedRandom(host.options.seed, 15 + number) });
  }

  /** Several: one enqueues between the poll and the commit of another. */
  static startAll(host: ClientHost): void {
    if (!host.options.features.edges) return;
    for (let number = 0; number < clients; number++) new EdgeClient(host, number).start();
  }

  protected act(): void {
    const { edges } = this.host.engine;
    const done = ({ kind, ...rest }: Result<unknown>): void => {
      if (kind === 'refused' && 'code' in rest && rest.code === 'not_found') edges.create(() => this.next());
      else this.next();
    };
    const partition = this.integer(0, edgePartitions - 1);
    const drawn = this.integer(0, 19);
    if (drawn < 10) edges.enqueue(this.#messages(), done);
    else if (drawn < 13) edges.poll(partition, this.integer(1, 20), this.chance(0.3) ? 500 : 0, done);
    else if (drawn < 17) {
      edges.poll(partition, this.integer(1, 20), 0, (result) => {
        const last = result.kind === 'answered' ? result.answer.messages.at(-1) : undefined;
        if (result.kind !== 'answered' || last === undefined) done(result);
        else {
          const watermark = this.chance(0.7) ? result.answer.watermark : Number.POSITIVE_INFINITY;
          edges.commit({ partition, through: last.seq, watermark }, done);
          // A second one that covers the same counts nothing of it again.
          if (this.chance(0.2)) edges.commit({ partition, through: last.seq, watermark }, () => undefined);
        }
      });
    } else if (drawn < 19) {
      edges.commit({ partition, through: this.integer(0, seqMax), watermark: Number.POSITIVE_INFINITY }, done);
    } else edges.purge(done);
  }

  #messages() {
    return Array.from({ length: this.integer(1, this.host.options.itemsPerPushMax) }, () => {
      const number = this.#counter++;
      const value = JSON.stringify(`${number}`.padEnd(this.integer(1, this.host.options.payloadBytesMax), '.'));
      const dedupId = this.chance(0.2) ? `id-${this.integer(0, 200)}` : null;
      return { key: `key-${this.integer(0, 9)}`, seq: this.integer(0, seqMax), value, dedupId };
    });
  }
}
