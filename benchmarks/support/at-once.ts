/** Pushes and consumes at the same time, with a bounded number of messages on their way: how a broker is used. */
import { Latency } from './latency.ts';
import { type ConsumeLoad, consumeLoop } from './load.ts';
import type { PopAnswer } from './pop-answer.ts';
import { Window } from './window.ts';

interface Done {
  readonly messages: number;
  readonly requests: number;
}

export interface AtOnceLoad {
  readonly consume: Omit<ConsumeLoad, 'onMessages' | 'mayContinue'>;
  /** Pushes until it is told to stop. */
  readonly push: (mayContinue: () => Promise<boolean>) => Promise<Done>;
  readonly itemsPerPush: number;
  /** Messages between their push and their pop, at most. */
  readonly windowMessages: number;
  /** Time for which is pushed. */
  readonly seconds: number;
  readonly onMessages: (answer: PopAnswer) => void;
}

/** Ends when all that was pushed is consumed. The latency runs from the push to the reading of the pop's answer. */
export async function atOnce(load: AtOnceLoad): Promise<Done & { readonly latency: Latency }> {
  const latency = new Latency();
  const window = new Window(load.windowMessages);
  const pushEndsAtMs = performance.now() + load.seconds * 1000;
  let isPushing = true;
  const consuming = consumeLoop({
    ...load.consume,
    onMessages: (answer, receivedAtUs) => {
      load.onMessages(answer);
      for (let i = 0; i < answer.count; i++) latency.record(receivedAtUs - answer.timesUs[i]);
      window.leave(answer.count);
    },
    mayContinue: () => isPushing || window.inFlight > 0,
  });
  const pushing = await load.push(async () => {
    if (performance.now() >= pushEndsAtMs) return false;
    await window.enter(load.itemsPerPush);
    return true;
  });
  isPushing = false;
  const consumed = await consuming;
  return { messages: consumed.messages, requests: pushing.requests + consumed.requests, latency };
}
