/**
 * Messages into requests of queue/v1: one request of a queue is under way at a time, and calls made meanwhile travel
 * together in the next one. So calls are stored in the order in which they were made, however many there are.
 */
import { arrayIn, badArgument, objectIn } from './answers.ts';
import type { ClientContext } from './context.ts';
import { LaneError } from './errors.ts';
import { longText } from './longs.ts';

/** A message to enqueue. */
export interface EnqueueItem<T> {
  /** Decides the partition and is not stored: messages of one key are in one partition. */
  readonly key: string;
  /** The message's place in its partition, a signed integer of 64 bits; a number must be a safe integer. */
  readonly seq: bigint | number;
  /** Sent as JSON. Default null. */
  readonly value?: T;
  /**
   * 1 to 128 characters. A message whose dedupId the queue remembers is not stored again, and the call may be repeated
   * after a lost answer. A queue remembers for its `dedupWindowMillis`, at most 1,000,000 at a time. Default: none.
   */
  readonly dedupId?: string;
}

/** The broker's word on one message. */
export interface EnqueueResult {
  /** Where it is, from 0 on. */
  readonly partition: number;
  /** A ULID; with `DUPLICATE` the one of the message that was stored first. */
  readonly id: string;
  /** `CREATED`, or `DUPLICATE` when its dedupId was known. */
  readonly status: 'CREATED' | 'DUPLICATE' | (string & {});
}

interface EnqueueCall {
  /** Its messages as JSON, with commas between. */
  readonly text: string;
  readonly count: number;
  /** Every message has a dedupId. */
  readonly repeatable: boolean;
  readonly resolve: (results: EnqueueResult[]) => void;
  readonly reject: (error: unknown) => void;
}

const messagesMax = 1000;
/** A character is at most three bytes of UTF-8, and a request at most 4 MiB. */
const batchCharsMax = Math.floor((4 * 1024 * 1024) / 3) - 100;

export class Enqueuer {
  readonly #context: ClientContext;
  readonly #path: string;
  readonly #waiting: EnqueueCall[] = [];
  #isSending = false;

  constructor(context: ClientContext, path: string) {
    this.#context = context;
    this.#path = path;
  }

  /** Resolves with a result for each, in their order, once they are durable. */
  async add(items: readonly EnqueueItem<unknown>[]): Promise<EnqueueResult[]> {
    if (items.length > messagesMax) throw badArgument(`a call takes at most ${messagesMax} messages`);
    if (items.length === 0) return [];
    const text = items.map(messageText).join(',');
    const repeatable = items.every((item) => item.dedupId !== undefined);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, count: items.length, repeatable, resolve, reject });
      if (this.#isSending) return;
      this.#isSending = true;
      // A turn later: calls that are made at once travel together from the first request on.
      queueMicrotask(() => void this.#sendAll());
    });
  }

  async #sendAll(): Promise<void> {
    const untrack = this.#context.track(() => {});
    while (this.#waiting.length > 0) await this.#send(this.#nextBatch());
    this.#isSending = false;
    untrack();
  }

  /** The calls that fit into one request, at least one. One that may not be repeated makes that of all with it. */
  #nextBatch(): EnqueueCall[] {
    const { repeatable } = this.#waiting[0];
    let count = 0;
    let chars = 0;
    let end = 0;
    for (; end < this.#waiting.length; end++) {
      const call = this.#waiting[end];
      count += call.count;
      chars += call.text.length + 1;
      if (end > 0 && (count > messagesMax || chars > batchCharsMax || call.repeatable !== repeatable)) break;
    }
    return this.#waiting.splice(0, end);
  }

  async #send(calls: readonly EnqueueCall[]): Promise<void> {
    try {
      const results = await this.#post(calls);
      let at = 0;
      for (const { count, resolve } of calls) {
        resolve(results.slice(at, at + count));
        at += count;
      }
    } catch (error) {
      if (calls.length > 1 && isAboutContent(error)) {
        // Nothing was stored; each call is refused for its own messages only.
        for (const call of calls) await this.#send([call]);
      } else for (const { reject } of calls) reject(error);
    }
  }

  async #post(calls: readonly EnqueueCall[]): Promise<EnqueueResult[]> {
    const answer = await this.#context.transport.send({
      method: 'POST',
      path: `${this.#path}/messages`,
      bodyText: `{"messages":[${calls.map(({ text }) => text).join(',')}]}`,
      repeatable: calls[0].repeatable,
      affinityKey: this.#path,
    });
    const count = calls.reduce((sum, call) => sum + call.count, 0);
    return arrayIn<EnqueueResult>(answer, objectIn<{ results?: unknown }>(answer).results, count);
  }
}

function isAboutContent(error: unknown): boolean {
  return error instanceof LaneError && (error.status === 400 || error.status === 413);
}

function messageText({ key, seq, value, dedupId }: EnqueueItem<unknown>): string {
  const digits = longText('seq', seq);
  try {
    const fields = JSON.stringify({ key, value, dedupId });
    return `{"seq":${digits},${fields.slice(1)}`;
  } catch (error) {
    throw new LaneError({ code: 'bad_argument', message: 'the value of a message is not JSON', cause: error });
  }
}
