/**
 * A failed assertion is an error of ours: the process must stop rather than guess. Assertions stay on in production.
 */
export class InvariantBroken extends Error {
  override readonly name = 'InvariantBroken';
}

export function assert(condition: boolean, promise: string): asserts condition {
  if (!condition) throw new InvariantBroken(`broken invariant: ${promise}`);
}
