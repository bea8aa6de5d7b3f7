/**
 * The messages on their way between push and ack, held below a limit. Without it a closed loop of pushes runs ahead
 * of the consumers, and the latency measured is only the length of the backlog.
 */
export class Window {
  readonly #size: number;
  #pushed = 0;
  #acked = 0;
  #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  get inFlight(): number {
    return this.#pushed - this.#acked;
  }

  /** Counts `messages` as pushed, once there is room for them. */
  async enter(messages: number): Promise<void> {
    while (this.#pushed - this.#acked + messages > this.#size) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#pushed += messages;
  }

  leave(messages: number): void {
    this.#acked += messages;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) resume();
  }
}
