/** Real time for tests whose subject is real time: leases, holds, windows and waits. */

/**
 * Resolves after `ms` of real time, never earlier. A single timer may fire early: it counts from the time at which the
 * event loop last looked, which lies far back when the process was kept from running since.
 */
export async function passed(ms: number): Promise<void> {
  const endMs = performance.now() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - performance.now()) {
    await new Promise((resolve) => {
      setTimeout(resolve, Math.ceil(leftMs));
    });
  }
}

/** The result of `work` and how many milliseconds it took. */
export async function timed<Result>(work: Promise<Result>): Promise<{ result: Result; tookMs: number }> {
  const startedAt = performance.now();
  const result = await work;
  return { result, tookMs: performance.now() - startedAt };
}

/** Whether `work` is still unanswered after `ms`. */
export async function isOpenAfter(work: Promise<unknown>, ms: number): Promise<boolean> {
  const open = Symbol('open');
  const first = await Promise.race([work.catch(() => undefined), passed(ms).then(() => open)]);
  return first === open;
}

/**
 * Calls `look` until it answers true, and fails with `what` after `timeoutMs`. For facts that a broker publishes
 * without an event to wait for, such as a counter of its metrics.
 */
export async function eventually(look: () => Promise<boolean>, timeoutMs: number, what: string): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await look())) {
    if (performance.now() > endMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await passed(20);
  }
}
