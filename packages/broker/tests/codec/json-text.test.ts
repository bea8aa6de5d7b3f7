import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { JsonScanner } from '../../src/codec/json-scanner.ts';
import { noText, PropertyNames, resolveEscapes, sameBytes, TextField, textOf } from '../../src/codec/json-text.ts';
import { ByteWriter } from '../../src/codec/json-writer.ts';
import { literalOf, stringLiteral, valueText } from './json-arbitraries.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);

it('resolved escapes are what JSON.parse reads, with U+FFFD for half of a surrogate pair', () => {
  fc.assert(
    fc.property(stringLiteral, (literal) => {
      const writer = new ByteWriter(4);
      const bytes = utf8(literal);
      const whole = resolveEscapes(bytes, 1, bytes.length - 1, writer);
      const text = JSON.parse(literal) as string;
      assert.deepEqual(writer.take(), utf8(text));
      assert.equal(whole, !/\p{Surrogate}/u.test(text));
    }),
    { numRuns: 500 },
  );
});

it('a high half followed by an escape that is no low half loses only itself', () => {
  for (const [literal, expected] of [
    ['\\ud83d\\ud83d\\ude00', '\ufffd\u{1f600}'],
    ['\\ud83d\\n', '\ufffd\n'],
    ['\\ud83d\\u0041', '\ufffdA'],
    ['\\ud83dx', '\ufffdx'],
    ['\\ude00\\ud83d', '\ufffd\ufffd'],
  ]) {
    const writer = new ByteWriter();
    assert.equal(resolveEscapes(utf8(literal), 0, literal.length, writer), false);
    assert.equal(Buffer.from(writer.take()).toString(), expected);
  }
});

it('text is decoded as it is, a leading U+FEFF included', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.constantFrom('', '\ufeff'), (text, mark) => {
      const bytes = utf8(`xx${mark}${text}yy`);
      assert.equal(textOf(bytes, 2, bytes.length - 2), mark + text);
      assert.equal(textOf(Buffer.from(bytes), 2, bytes.length - 2), mark + text);
    }),
  );
});

it('property names are found in any order and however they are escaped', () => {
  const words = ['queue', 'partition', 'payload', 'p', 'queueing'];
  const text = fc.oneof(
    fc.constantFrom(...words, '', 'q', 'queu', 'queues', 'Queue', 'payloaD', 'part', 'queue"', 'x'.repeat(300)),
    fc.string({ maxLength: 8 }),
  );
  const names = new PropertyNames(words);
  const scanner = new JsonScanner(10);
  fc.assert(
    fc.property(
      text.chain((name) => fc.tuple(fc.constant(name), literalOf(name))),
      ([name, literal]) => {
        scanner.open(utf8(`${literal}:1`));
        assert.equal(names.find(scanner, 1), words.indexOf(name));
        assert.equal(names.after, scanner.end - 2);
      },
    ),
    { numRuns: 500 },
  );
});

it('a text field points to the text, or says why there is none', () => {
  fc.assert(
    fc.property(fc.array(valueText, { minLength: 1, maxLength: 4 }), (values) => {
      const body = utf8(`[${values.join(',')}]`);
      const scanner = new JsonScanner(1000);
      scanner.open(body);
      const field = new TextField();
      let at = 1;
      for (const literal of values) {
        at = field.read(scanner, at, 1);
        const value: unknown = JSON.parse(literal);
        if (typeof value !== 'string') {
          assert.equal(field.start, value === null ? noText.missing : noText.wrongType);
        } else {
          const isExact = !/\p{Surrogate}/u.test(value);
          const whole = Buffer.concat([body, field.appended.bytes.subarray(0, field.appended.length)]);
          assert.equal(whole.toString('utf8', field.start, field.end), Buffer.from(value).toString());
          assert.equal(field.exactStart, isExact ? field.start : noText.halfPair);
          if (!literal.includes('\\')) assert.ok(field.end <= body.length);
        }
        at++;
      }
      assert.equal(at, body.length);
    }),
    { numRuns: 300 },
  );
});

it('slices are the same exactly when their bytes are', () => {
  fc.assert(
    fc.property(fc.uint8Array({ max: 2 }), fc.uint8Array({ max: 2 }), fc.nat(3), (a, b, skip) => {
      const padded = new Uint8Array(b.length + skip);
      padded.set(b, skip);
      assert.equal(sameBytes(a, 0, a.length, padded, skip, padded.length), Buffer.compare(a, b) === 0);
      assert.ok(sameBytes(b, 0, b.length, padded, skip, padded.length));
    }),
  );
});
