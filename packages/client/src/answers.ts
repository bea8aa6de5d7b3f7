/** Reading of answers and writing of paths, for all calls. */
import { LaneError } from './errors.ts';
import type { Answer } from './transport.ts';

/** A list of an answer. @throws LaneError `bad_answer` when it is none, or of another length. */
export function arrayIn<Row>(answer: Answer, value: unknown, length?: number): Row[] {
  if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
  const expected = length === undefined ? 'a list' : `a list of ${length}`;
  const message = `the answer does not hold ${expected} where the contract has one`;
  throw new LaneError({ code: 'bad_answer', status: answer.status, message });
}

/** An answer that is an object. @throws LaneError `bad_answer` when it is not. */
export function objectIn<Shape>(answer: Answer): Shape {
  if (typeof answer.body === 'object' && answer.body !== null) return answer.body as Shape;
  throw new LaneError({ code: 'bad_answer', status: answer.status, message: 'the answer is not a JSON object' });
}

/**
 * Percent-encodes a name for a path. The names `.` and `..` cannot be sent by fetch, which takes them out of the
 * path in every spelling, and would then call another route.
 *
 * @throws LaneError `bad_argument` for these, for an empty name, and for half of a surrogate pair.
 */
export function pathSegment(name: string): string {
  try {
    if (name !== '' && name !== '.' && name !== '..') return encodeURIComponent(name);
  } catch {
    // Half of a surrogate pair: there is no UTF-8 for it.
  }
  throw badArgument(`the name ${JSON.stringify(name)} cannot stand in a path`);
}

/** `?a=1&b=2` of what is given; an empty text when nothing is. */
export function queryOf(parameters: Readonly<Record<string, string | number | boolean | null | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return query.size === 0 ? '' : `?${query}`;
}

export function badArgument(message: string): LaneError {
  return new LaneError({ code: 'bad_argument', message });
}
