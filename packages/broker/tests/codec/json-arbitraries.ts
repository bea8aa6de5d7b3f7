/** Arbitrary JSON as text: spacing, escapes, odd numbers and repeated names included, which JSON.stringify never writes. */
import fc from 'fast-check';

export const spacing = fc.constantFrom('', '', '', '', ' ', '\n', '\t', '\r\n', '  ');

function unicodeEscapes(text: string, upperCase: boolean): string {
  let escaped = '';
  for (let i = 0; i < text.length; i++) {
    const digits = text.charCodeAt(i).toString(16).padStart(4, '0');
    escaped += `\\u${upperCase ? digits.toUpperCase() : digits}`;
  }
  return escaped;
}

const character = fc.oneof(
  { weight: 6, arbitrary: fc.string({ minLength: 1, maxLength: 1, unit: 'grapheme-ascii' }) },
  { weight: 2, arbitrary: fc.string({ minLength: 1, maxLength: 1, unit: 'binary' }) },
  { weight: 1, arbitrary: fc.constantFrom('"', '\\', '/', '\b', '\f', '\n', '\r', '\t', '\u0000', '\u001f', '\u007f') },
  { weight: 1, arbitrary: fc.constantFrom('\u2028', '\ufeff', '\uffff', '\u{1f600}', '\u{10ffff}', 'é', '€') },
);

/** A string literal of exactly this text, each character either as it is or escaped in one of the ways there are. */
export function literalOf(text: string): fc.Arbitrary<string> {
  const characters = Array.from(text);
  return fc
    .array(fc.integer({ min: 0, max: 9 }), { minLength: characters.length, maxLength: characters.length })
    .map((ways) => {
      const pieces = characters.map((one, i) => {
        if (ways[i] === 0) return unicodeEscapes(one, false);
        if (ways[i] === 1) return unicodeEscapes(one, true);
        if (ways[i] === 2 && one === '/') return '\\/';
        return JSON.stringify(one).slice(1, -1);
      });
      return `"${pieces.join('')}"`;
    });
}

const halfPair = fc.constantFrom('\\ud800', '\\uDBFF', '\\udc00', '\\uDFFF\\ud800');

/** A string literal; rarely with half of a surrogate pair in it, which JSON allows as an escape. */
export const stringLiteral: fc.Arbitrary<string> = fc.oneof(
  { weight: 20, arbitrary: fc.array(character, { maxLength: 30 }).chain((parts) => literalOf(parts.join(''))) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.string({ maxLength: 4, unit: fc.constantFrom('a', 'b') }), halfPair)
      .map(([a, b]) => `"${a}${b}${a}"`),
  },
);

export const numberLiteral: fc.Arbitrary<string> = fc.oneof(
  fc.integer().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.constantFrom('-0', '0', '0.0', '1E5', '1e+5', '1e400', '-1e-400', '0e0', '123456789012345678901234567890', '1.50'),
);

export function objectOf(properties: fc.Arbitrary<readonly (readonly [string, string])[]>): fc.Arbitrary<string> {
  return fc.tuple(properties, spacing, spacing, spacing).map(([pairs, a, b, c]) => {
    const body = pairs.map(([name, value]) => `${a}${name}${b}:${c}${value}${b}`).join(',');
    return `{${body}${a}}`;
  });
}

export function arrayOf(elements: fc.Arbitrary<readonly string[]>): fc.Arbitrary<string> {
  return fc
    .tuple(elements, spacing, spacing)
    .map(([values, a, b]) => `[${values.map((value) => `${a}${value}${b}`).join(',')}${a}]`);
}

const nameLiteral = fc.oneof(
  fc.constantFrom('"a"', '"b"', '""', '"queue"', '"payload"', '"__proto__"', '"transactionId"'),
  stringLiteral,
);

/** A value as text, without spacing around it. */
export const valueText: fc.Arbitrary<string> = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '{}', '[]', '""', '[ ]', '{\n}'),
    numberLiteral,
    stringLiteral,
    tie('array'),
    tie('object'),
  ),
  array: arrayOf(fc.array(tie('value'), { maxLength: 5 })),
  object: objectOf(fc.array(fc.tuple(nameLiteral, tie('value')), { maxLength: 5 })),
})).value;

/** A whole text. */
export const jsonText: fc.Arbitrary<string> = fc.tuple(spacing, valueText, spacing).map((parts) => parts.join(''));

const noise = Array.from('{}[]",:\\/0123456789.eE+-truefalsn \n\t\r\u0000\u001f\u007fuaéb€\u{1f600}\ufeff');

/** Texts that are almost `text`: some characters are taken out, put in or replaced. */
export function mutated(text: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const mutation = fc.record({
    at: fc.nat(),
    remove: fc.integer({ min: 0, max: 2 }),
    insert: fc.array(fc.constantFrom(...noise), { maxLength: 2 }),
  });
  return fc.tuple(text, fc.array(mutation, { minLength: 1, maxLength: 3 })).map(([original, mutations]) => {
    const characters = Array.from(original);
    for (const { at, remove, insert } of mutations) {
      characters.splice(at % (characters.length + 1), remove, ...insert);
    }
    return characters.join('');
  });
}
