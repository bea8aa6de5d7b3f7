import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { checkJson, JsonError, JsonScanner, notPlain } from '../../src/codec/json-scanner.ts';
import { jsonText, mutated, valueText } from './json-arbitraries.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function assertAgrees(text: string): void {
  const error = checkJson(utf8(text), 1000);
  assert.equal(error === undefined, parses(text), `${JSON.stringify(text)}: ${error?.message ?? 'accepted'}`);
  if (error !== undefined) assert.ok(error.position >= 0 && error.position <= utf8(text).length);
}

describe('acceptance is that of JSON.parse', () => {
  it('for arbitrary JSON', () => {
    fc.assert(fc.property(jsonText, assertAgrees), { numRuns: 600 });
  });

  it('for what JSON.stringify writes', () => {
    fc.assert(fc.property(fc.json(), assertAgrees), { numRuns: 200 });
  });

  it('for texts that are almost JSON', () => {
    fc.assert(fc.property(mutated(jsonText), assertAgrees), { numRuns: 1500 });
  });

  it('for every prefix of a text with all constructs', () => {
    const text = ' {"a\\n\\u00e9" : [1, -2.5e+10 ,0,true,false,null,"",{}, [ ]],"b":"12345678\\"9"} ';
    for (let length = 0; length <= text.length; length++) assertAgrees(text.slice(0, length));
  });

  it('for every character put at every place of a text', () => {
    const text = '{"ab":[1,"x\\n"],"c":-0.5E3}';
    for (let at = 0; at <= text.length; at++) {
      for (const letter of '{}[]",:\\0129.eE+-tfnu \n\t\r\b\f\v\u0000\u001f\u007f\u00a0\ufeff') {
        assertAgrees(text.slice(0, at) + letter + text.slice(at));
        assertAgrees(text.slice(0, at) + letter + text.slice(at + 1));
      }
    }
  });

  it('for random bytes that are UTF-8', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 12 }),
      fc
        .array(fc.constantFrom(...utf8('{}[]",:\\0123.eE+-tn \n')), { maxLength: 10 })
        .map((list) => Uint8Array.from(list)),
    );
    fc.assert(
      fc.property(bytes, (input) => {
        if (isUtf8(input)) assertAgrees(Buffer.from(input).toString('utf8'));
      }),
      { numRuns: 2000 },
    );
  });

  it('for numbers', () => {
    const numbers = [
      '1e400',
      '-0',
      '1E5',
      '01',
      '1.',
      '.5',
      '-',
      '+1',
      '--1',
      '1e',
      '1e+',
      '1.e5',
      '0x10',
      '-01',
      '1_0',
    ];
    for (const text of [...numbers, 'NaN', 'Infinity', '-Infinity', '00', '0.', '0e', '0.5', '-0.0e-0', '1 2']) {
      assertAgrees(text);
      assertAgrees(`[${text}]`);
      assertAgrees(`{"a":${text},"b":0}`);
    }
  });

  it('for words', () => {
    for (const text of [
      'true',
      'false',
      'null',
      'tru',
      'truE',
      'nul',
      'nulll',
      'fals',
      'undefined',
      'True',
      't',
      'n',
    ]) {
      assertAgrees(text);
      assertAgrees(`[${text}]`);
    }
  });

  it('for strings', () => {
    const bodies = [
      '\\u12',
      '\\u123g',
      '\\uABCD',
      '\\ud800',
      '\\udc00\\ud800',
      '\\x41',
      '\\',
      '\\"',
      '\t',
      '\u0000',
      '\u001f',
    ];
    for (const body of [...bodies, '\u007f', '\u2028', "'", '\\u00e9é', 'a\nb', '\\/', '\\a']) {
      for (const padding of ['', 'abc', 'abcdefgh']) {
        assertAgrees(`"${body}"`);
        assertAgrees(`"${padding}${body}${padding}"`);
        assertAgrees(`{"${padding}${body}":1}`);
        assertAgrees(`"${padding}${body}`);
      }
    }
  });

  it('for white space, of which there are four kinds, and a byte order mark, which is none', () => {
    for (const text of ['', ' ', '\t\n\r 1', '\u000b1', '\u000c1', '\u00a01', '\ufeff1', '1\ufeff', '1 \u2003'])
      assertAgrees(text);
  });

  it('for repeated and odd property names', () => {
    for (const text of ['{"a":1,"a":2}', '{"":1}', '{"__proto__":1}', '{a:1}', "{'a':1}", '{1:1}', '{"a"}', '{"a":}']) {
      assertAgrees(text);
    }
  });
});

describe('a value', () => {
  it('ends behind its last byte, wherever it begins', () => {
    fc.assert(
      fc.property(valueText, fc.constantFrom(',', ' ', ']', '}', '\n'), fc.nat(9), (text, after, before) => {
        // A number goes on as long as digits follow, so what follows must not be one.
        const bytes = utf8(`${'#'.repeat(before)}${text}${after}`);
        const scanner = new JsonScanner(1000);
        scanner.open(bytes);
        assert.equal(scanner.value(before, 0), bytes.length - 1);
      }),
      { numRuns: 300 },
    );
  });

  it('is read in place when the bytes are part of a larger array', () => {
    const whole = utf8('xxx{"a":[1,2,"three"]}yyy');
    assert.equal(checkJson(whole.subarray(3, 22), 1000), undefined);
    assert.notEqual(checkJson(whole.subarray(3, 21), 1000), undefined);
  });
});

describe('nesting', () => {
  it('is accepted up to the limit and refused one deeper, with the limit named', () => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ]) {
      const nested = (depth: number) => utf8(`${open.repeat(depth)}1${close.repeat(depth)}`);
      assert.equal(checkJson(nested(1000), 1000), undefined);
      const error = checkJson(nested(1001), 1000);
      assert.equal(error?.kind, 'depth');
      assert.equal(error?.position, open.length * 1000);
      assert.match(error?.message ?? '', /^JSON nested too deeply at byte \d+: .*1000.*jsonDepthMax/);
    }
  });

  it('counts empty containers and the containers around the value', () => {
    assert.equal(checkJson(utf8('[[[]]]'), 3), undefined);
    assert.equal(checkJson(utf8('[[[]]]'), 2)?.kind, 'depth');
    assert.equal(checkJson(utf8('[[{}],[{}]]'), 3), undefined);
    const scanner = new JsonScanner(5);
    scanner.open(utf8('[[]]'));
    assert.equal(scanner.value(0, 3), 4);
    assert.throws(() => scanner.value(0, 4), JsonError);
  });

  it('of a hundred thousand containers costs no stack', () => {
    const depth = 100_000;
    assert.equal(checkJson(utf8('['.repeat(depth) + ']'.repeat(depth)), depth), undefined);
    assert.equal(checkJson(utf8('[{"a":'.repeat(depth)), 2 * depth)?.kind, 'syntax');
    assert.equal(checkJson(utf8('['.repeat(depth)), 1000)?.kind, 'depth');
  });

  it('knows which container is open after inner ones of the other kind', () => {
    for (const text of ['{"a":[{},{}],"b":1}', '[{"a":[]},{"b":{}},1]', '[[{}],1]', '{"a":{"b":[]},"c":[{"d":1}]}']) {
      assertAgrees(text);
      for (const [from, to] of [
        [/\]/g, '}'],
        [/\}/g, ']'],
      ] as const) {
        for (const match of text.matchAll(from)) {
          assertAgrees(text.slice(0, match.index) + to + text.slice(match.index + 1));
        }
      }
    }
  });
});

describe('an error', () => {
  const cases: [string, number, string][] = [
    ['{"a":1 "b":2}', 7, "expected ',' or '}'"],
    ['[1 2]', 3, "expected ',' or ']'"],
    ['{"a" 1}', 5, "expected ':'"],
    ['{a:1}', 1, 'expected a property name in double quotes'],
    ['{"a":1,}', 7, 'expected a property name in double quotes'],
    ['[1,]', 3, 'expected a value'],
    ['', 0, 'expected a value'],
    ['\ufeff1', 0, 'expected a value'],
    ['"a', 2, 'a string is not closed'],
    ['"a\\', 2, 'a bad escape in a string'],
    ['"abcde\n"', 6, 'a control character in a string'],
    ['"\\u12x4"', 5, 'expected four hexadecimal digits'],
    ['1.x', 2, 'expected a digit'],
    ['1 x', 2, 'expected the end of the text'],
  ];
  for (const [text, position, reason] of cases) {
    it(`in ${JSON.stringify(text)} names byte ${position}: ${reason}`, () => {
      assert.equal(checkJson(utf8(text), 1000)?.message, `invalid JSON at byte ${position}: ${reason}`);
    });
  }
});

it('four bytes at once are called plain exactly when each of them is', () => {
  const special = [0, 1, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0xa2, 0xdc, 0xff, 0x41];
  const isPlain = (byte: number) => byte >= 0x20 && byte !== 0x22 && byte !== 0x5c;
  for (const a of special) {
    for (const b of special) {
      for (const c of special) {
        for (const d of special) {
          const plain = isPlain(a) && isPlain(b) && isPlain(c) && isPlain(d);
          assert.equal(notPlain(a | (b << 8) | (c << 16) | (d << 24)) === 0, plain, `${a} ${b} ${c} ${d}`);
        }
      }
    }
  }
});
