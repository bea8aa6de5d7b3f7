/** The language of scans: `field:op:value[;field:op:value…]`, as ranges of keys and as filters of edges. */
import {
  castEdgeValue,
  compareBytes,
  type EdgeType,
  edgeKeyAfter,
  edgeKeyBytes,
  joinBytes,
  type SortOrder,
} from './edge-keys.ts';
import { type EdgeIndex, type EdgeSchema, fieldType } from './edge-schema.ts';
import type { JsonNode } from './json-node.ts';
import type { KeyRange } from './keyed-rows.ts';

/** What a scan asks for cannot be understood; the message says why. */
export class BadScan extends Error {
  override readonly name = 'BadScan';
}

const comparisons = ['eq', 'gt', 'gte', 'lt', 'lte', 'bt'] as const;
type Comparison = (typeof comparisons)[number];

interface Predicate {
  readonly field: string;
  readonly operator: Comparison | 'in';
  /** One value, two of `bt`, any number of `in`. */
  readonly values: readonly string[];
}

function predicates(text: string, isFilter: boolean): Predicate[] {
  return text.split(';').map((part) => {
    const [field, operator, ...rest] = part.split(':');
    const known = operator === 'in' && isFilter ? 'in' : comparisons.find((each) => each === operator);
    if (field === '' || known === undefined || rest.length === 0) {
      const operators = isFilter ? `${comparisons.join(', ')}, in` : comparisons.join(', ');
      throw new BadScan(`\`${part}\` is not field:op:value with one of the ops ${operators}`);
    }
    const value = rest.join(':');
    const values = known === 'bt' || known === 'in' ? value.split(',') : [value];
    if (known === 'bt' && values.length !== 2) throw new BadScan(`\`${part}\` must give bt two values: from,to`);
    return { field, operator: known, values };
  });
}

function keyOf(type: EdgeType, text: string, order: SortOrder, field: string): Uint8Array {
  const stored = castEdgeValue(type, { kind: 'string', text });
  if (stored === null) throw new BadScan(`\`${text}\` is no ${type}, which ${field} is`);
  return edgeKeyBytes(type, stored, order);
}

/** Key of the end of an edge that rows are found by. */
export function startKey(schema: EdgeSchema, text: string): Uint8Array {
  const isOut = schema.direction === 'OUT';
  return keyOf(isOut ? schema.source.type : schema.target.type, text, 'ASC', 'start');
}

/** The keys of all rows of a start that are in `ranges`; null = all of them. */
export function scanRange(schema: EdgeSchema, index: EdgeIndex, start: Uint8Array, ranges: string | null): KeyRange {
  const given = ranges === null ? [] : predicates(ranges, false);
  const fields = index.fields.slice(0, given.length);
  if (fields.map(({ field }) => field).join() !== given.map(({ field }) => field).join()) {
    const valid = index.fields.map(({ field }) => field).join(', ');
    const input = given.map(({ field }) => field).join(', ');
    throw new BadScan(`valid \`ranges\` order for the index \`${index.index}\` is [${valid}]. input was: [${input}].`);
  }
  let prefix = start;
  let range: KeyRange = { from: prefix, to: edgeKeyAfter(prefix) };
  given.forEach(({ field, operator, values }, i) => {
    if (i > 0 && given[i - 1].operator !== 'eq') {
      throw new BadScan(`\`${given[i - 1].field}\` must be given with eq, because \`${field}\` follows it`);
    }
    const { order } = fields[i];
    const type = fieldType(schema, field) as EdgeType;
    const keys = values.map((text) => joinBytes([prefix, keyOf(type, text, order, field)]));
    range = narrowed(range, operator as Comparison, order === 'ASC' ? keys : keys.reverse(), order);
    prefix = keys[0];
  });
  return range;
}

/** `keys` in the order of the rows. */
function narrowed(range: KeyRange, operator: Comparison, keys: readonly Uint8Array[], order: SortOrder): KeyRange {
  const first = keys[0];
  const last = keys[keys.length - 1];
  const isLower = order === 'ASC' ? operator === 'gt' || operator === 'gte' : operator === 'lt' || operator === 'lte';
  if (operator === 'eq' || operator === 'bt') return { from: first, to: edgeKeyAfter(last) };
  const isOpen = operator === 'gt' || operator === 'lt';
  if (isLower) return { from: isOpen ? edgeKeyAfter(first) : first, to: range.to };
  return { from: range.from, to: isOpen ? first : edgeKeyAfter(first) };
}

/** An edge as filters see it. */
export type EdgeFields = (field: string) => JsonNode | undefined;

/** A test of edges; throws BadScan when the text names what the table does not have. */
export function edgeFilter(schema: EdgeSchema, text: string): (fields: EdgeFields) => boolean {
  const tests = predicates(text, true).map(({ field, operator, values }) => {
    const type = fieldType(schema, field);
    if (type === undefined) throw new BadScan(`\`filters\` names \`${field}\`, which the table does not have`);
    const keys = values.map((value) => keyOf(type, value, 'ASC', field));
    return { field, type, operator, keys };
  });
  return (fields) =>
    tests.every(({ field, type, operator, keys }) => {
      const node = fields(field);
      const stored = node === undefined ? null : castEdgeValue(type, node);
      return stored !== null && holds(operator, edgeKeyBytes(type, stored, 'ASC'), keys);
    });
}

function holds(operator: Predicate['operator'], key: Uint8Array, keys: readonly Uint8Array[]): boolean {
  const compared = compareBytes(key, keys[0]);
  switch (operator) {
    case 'eq':
      return compared === 0;
    case 'gt':
      return compared > 0;
    case 'gte':
      return compared >= 0;
    case 'lt':
      return compared < 0;
    case 'lte':
      return compared <= 0;
    case 'bt':
      return compared >= 0 && compareBytes(key, keys[1]) <= 0;
    case 'in':
      return keys.some((each) => compareBytes(key, each) === 0);
  }
}
