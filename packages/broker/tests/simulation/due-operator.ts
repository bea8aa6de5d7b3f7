/** An operator of due messages: moves and cancels them while the others work. */
import { Client, type ClientHost } from './workload.ts';

export class DueOperator extends Client {
  static isNeeded({ options }: ClientHost): boolean {
    return options.features.dueMessages;
  }

  protected act(): void {
    const { due } = this.host.engine;
    const done = (): void => this.next(this.host.options.thinkMs * 2);
    if (due.known.length === 0) {
      done();
      return;
    }
    if (this.chance(0.1)) {
      due.list(done);
      return;
    }
    const message = this.one(...due.known);
    const byName = message.id !== null && this.chance(0.5);
    const partition = byName ? { queue: message.queue, partition: message.partition } : null;
    const name = byName ? (message.id as string) : message.messageId;
    const when = this.one(
      null,
      null,
      -1,
      -1 - this.integer(0, 9000) * 1000,
      this.host.wallUs() + this.integer(-500, 9000) * 1000,
    );
    due.change({ partition, name, due: when }, done);
    // Two at the same time: the later one sees what the earlier did.
    if (this.chance(0.1)) due.change({ partition, name, due: null }, () => undefined);
  }
}
