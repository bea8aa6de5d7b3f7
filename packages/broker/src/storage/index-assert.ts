/** A broken promise inside the storage: the process must stop, because it cannot explain its own state. */
export function assertStorage(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${what}`);
}
