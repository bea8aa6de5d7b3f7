/** Numbers of 64 bits: bigints in programs, digits on the wire. */
import { badArgument } from './answers.ts';
import { LaneError } from './errors.ts';
import type { Answer } from './transport.ts';

/** Its digits. @throws LaneError `bad_argument` when it is over 64 bits, or a number that is not exact. */
export function longText(name: string, value: bigint | number): string {
  const isExact = typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value);
  if (isExact) return String(value);
  throw badArgument(`${name} must be a bigint of 64 bits or a safe integer, got ${value}`);
}

/** A number of an answer that was asked for with `longs=string`. @throws LaneError `bad_answer`. */
export function longIn(answer: Answer, value: unknown): bigint {
  if (typeof value === 'string' && /^-?\d+$/.test(value)) return BigInt(value);
  // A server that does not know the parameter sends numbers, which are exact below 2^53.
  if (Number.isSafeInteger(value)) return BigInt(value as number);
  const message = 'the answer does not hold an exact integer where the contract has one';
  throw new LaneError({ code: 'bad_answer', status: answer.status, message });
}
