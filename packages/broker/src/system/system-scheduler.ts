import type { Scheduler } from '../ports/mod.ts';

/** The longest delay that a timer of the host takes; longer ones are made of several. */
const timerMsMax = 0x7fff_ffff;

/** Deferred work on the event loop of this process. What a task throws ends the process, as any uncaught error does. */
export class SystemScheduler implements Scheduler {
  soon(task: () => void): void {
    setImmediate(task);
  }

  after(delayMs: number, task: () => void): () => void {
    let timer: NodeJS.Timeout;
    const wait = (leftMs: number): void => {
      const stepMs = Math.min(leftMs, timerMsMax);
      timer = setTimeout(() => (leftMs > stepMs ? wait(leftMs - stepMs) : task()), stepMs);
      timer.unref();
    };
    wait(Math.max(0, delayMs));
    return () => clearTimeout(timer);
  }
}
