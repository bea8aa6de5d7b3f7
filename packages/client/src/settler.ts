/**
 * Acks of one batch. One request travels at a time; what is settled meanwhile goes with the next, so that quick
 * handlers do not pay a round trip per message and slow ones are acked at once.
 */
import { ackItem, sendAcks } from './ack.ts';
import { LaneError } from './errors.ts';
import type { Transport } from './transport.ts';
import type { AckItem, WireMessage } from './wire.ts';

/** Told of messages whose ack was refused or did not get through. */
export type AckTrouble = (error: LaneError, messages: readonly WireMessage[]) => void;

export class Settler {
  readonly #transport: Transport;
  readonly #group: string | null;
  readonly #onTrouble: AckTrouble;
  readonly #lostPartitions = new Set<string>();
  #waiting: { message: WireMessage; item: AckItem }[] = [];
  #sending: Promise<void> | null = null;
  #fatal: unknown = null;
  /** When the broker last said, by the pop or by an ack, that the lease was alive. */
  confirmedAtMs = performance.now();

  constructor(transport: Transport, group: string | null, onTrouble: AckTrouble) {
    this.#transport = transport;
    this.#group = group;
    this.#onTrouble = onTrouble;
  }

  /** True: this consumer no longer holds the lease of the partition, somebody else may. */
  isLost(partitionId: string): boolean {
    return this.#lostPartitions.has(partitionId);
  }

  /** The lease of all partitions is gone. */
  lose(messages: readonly WireMessage[]): void {
    for (const message of messages) this.#lostPartitions.add(message.partitionId);
  }

  complete(message: WireMessage): void {
    this.#add(message, ackItem(message, 'completed'));
  }

  fail(message: WireMessage, error: string): void {
    this.#add(message, ackItem(message, 'failed', error));
  }

  giveBack(messages: readonly WireMessage[]): void {
    for (const message of messages) this.#add(message, ackItem(message, 'retry'));
  }

  /** Resolves when everything was answered; rejects when the broker refused the request itself for good. */
  async idle(): Promise<void> {
    if (this.#sending !== null) await this.#sending;
    if (this.#fatal !== null) throw this.#fatal;
  }

  #add(message: WireMessage, item: AckItem): void {
    this.#waiting.push({ message, item });
    this.#sending ??= this.#drain();
  }

  async #drain(): Promise<void> {
    // Leaves the current turn first: what the caller settles in one go then travels in one request.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#send(batch);
    }
    this.#sending = null;
  }

  async #send(batch: readonly { message: WireMessage; item: AckItem }[]): Promise<void> {
    const messages = batch.map((entry) => entry.message);
    try {
      const items = batch.map((entry) => entry.item);
      const outcome = await sendAcks(this.#transport, this.#group, items);
      if (outcome.success) {
        this.confirmedAtMs = performance.now();
        return;
      }
      const refused = messages.filter((_, index) => !outcome.results[index].success);
      this.lose(refused);
      // What was given back and is no longer ours is where it should be.
      const isTrouble = batch.some(({ item }, index) => item.status !== 'retry' && !outcome.results[index].success);
      if (isTrouble) this.#onTrouble(new LaneError({ code: 'ack_refused', message: outcome.error ?? '' }), refused);
    } catch (error) {
      // Unknown what became of them: they come back when the lease ends, and others may get them then.
      this.lose(messages);
      if (error instanceof LaneError && error.retriable) this.#onTrouble(error, messages);
      else this.#fatal ??= error;
    }
  }
}
