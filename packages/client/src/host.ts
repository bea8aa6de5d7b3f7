/** What the client asks of its host beyond `fetch` and timers. Everything here may be missing, as in a browser. */

/** The part of node's `process` that is used. */
interface HostProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  listenerCount(event: string): number;
  kill(pid: number, signal: string): unknown;
}

const hostProcess = (globalThis as { readonly process?: Partial<HostProcess> }).process;

/** An environment variable; undefined where there is no environment. */
export function environmentVariable(name: string): string | undefined {
  return hostProcess?.env?.[name];
}

const signals = ['SIGINT', 'SIGTERM'] as const;

/** Closes what is registered when the process is told to end, and then lets the signal do what it would have done. */
class SignalHandlers {
  readonly #closers = new Set<() => Promise<void>>();
  readonly #listeners = new Map<string, () => void>();

  add(close: () => Promise<void>): void {
    this.#closers.add(close);
    if (this.#listeners.size > 0 || hostProcess?.on === undefined) return;
    for (const signal of signals) {
      const listener = () => void this.#end(signal);
      this.#listeners.set(signal, listener);
      hostProcess.on(signal, listener);
    }
  }

  remove(close: () => Promise<void>): void {
    this.#closers.delete(close);
    if (this.#closers.size === 0) this.#detach();
  }

  async #end(signal: string): Promise<void> {
    await Promise.allSettled([...this.#closers].map((close) => close()));
    this.#closers.clear();
    this.#detach();
    // A program with a handler of its own ends when it wants to; without one the signal would have ended it.
    if (hostProcess?.listenerCount?.(signal) === 0) hostProcess.kill?.(hostProcess.pid ?? 0, signal);
  }

  #detach(): void {
    for (const [signal, listener] of this.#listeners) hostProcess?.off?.(signal, listener);
    this.#listeners.clear();
  }
}

export const signalHandlers = new SignalHandlers();
