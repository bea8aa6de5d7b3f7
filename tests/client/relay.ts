/** A way to a broker that stays the same when the broker is started again, and that can be cut. */
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Passes bytes on to the broker, wherever it listens now, and cuts connections when it is told to. */
export class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  static async start(portOf: () => number): Promise<Relay> {
    const relay = new Relay(portOf);
    await new Promise<void>((resolve) => relay.#server.listen(0, '127.0.0.1', resolve));
    return relay;
  }

  private constructor(portOf: () => number) {
    this.#server = createServer((socket) => {
      const upstream = connect(portOf(), '127.0.0.1');
      for (const [from, to] of [
        [socket, upstream],
        [upstream, socket],
      ]) {
        this.#sockets.add(from);
        from.pipe(to);
        from.on('error', () => to.destroy());
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }
}
