import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { asciiBytes, ByteWriter } from '../../src/codec/json-writer.ts';
import { idText } from '../../src/core/ids.ts';
import { valueText } from './json-arbitraries.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);
const written = (write: (writer: ByteWriter) => void, capacity = 1) => {
  const writer = new ByteWriter(capacity);
  write(writer);
  return Buffer.from(writer.take()).toString();
};

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme-ascii', maxLength: 60 }),
  fc.string({
    unit: fc.constantFrom('"', '\\', '\n', '\b', '\f', '\r', '\t', '\u0001', '\u007f', 'a', 'é'),
    maxLength: 60,
  }),
);

describe('strings', () => {
  it('from UTF-8 are what JSON.stringify writes, wherever they lie', () => {
    fc.assert(
      fc.property(text, fc.nat(5), (value, skip) => {
        const bytes = utf8(`${'x'.repeat(skip)}${value}yy`);
        const expected = JSON.stringify(value);
        assert.equal(
          written((writer) => writer.jsonBytes(bytes, skip, bytes.length - 2)),
          expected,
        );
        assert.equal(
          written((writer) => writer.jsonBytes(Buffer.from(bytes), skip, bytes.length - 2), 4096),
          expected,
        );
      }),
      { numRuns: 500 },
    );
  });

  it('from text are what JSON.stringify writes, halves of surrogate pairs included', () => {
    const units = fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 }), { maxLength: 8 });
    const odd = units.map((codes) => String.fromCharCode(...codes));
    fc.assert(
      fc.property(fc.oneof(text, odd), (value) => {
        assert.equal(
          written((writer) => writer.jsonText(value)),
          JSON.stringify(value),
        );
      }),
      { numRuns: 500 },
    );
  });

  it('from different sources in turn come from the right one', () => {
    const writer = new ByteWriter();
    const sources = ['first-first-first-first', 'second-second-second-second'].map(utf8);
    for (let i = 0; i < 4; i++) writer.jsonBytes(sources[i % 2], 0, sources[i % 2].length);
    assert.match(Buffer.from(writer.take()).toString(), /^("first[-first]+""second[-second]+"){2}$/);
    writer.jsonBytes(sources[1], 0, sources[1].length);
    assert.equal(Buffer.from(writer.take()).toString(), '"second-second-second-second"');
  });
});

describe('numbers', () => {
  it('are decimal', () => {
    const powers = Array.from({ length: 16 }, (_, i) => 10 ** i);
    const edges = [
      0,
      9,
      10,
      2 ** 31 - 1,
      2 ** 31,
      2 ** 32,
      2 ** 53 - 1,
      999_999_999,
      1_000_000_001,
      9_007_199_000_000_000,
    ];
    for (const value of [...edges, ...powers, ...powers.map((power) => power - 1)]) {
      assert.equal(
        written((writer) => writer.integer(value)),
        String(value),
      );
    }
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.nat(), (large, small) => {
        assert.equal(
          written((writer) => writer.integer(large)),
          String(large),
        );
        assert.equal(
          written((writer) => writer.integer(small)),
          String(small),
        );
      }),
    );
  });
});

describe('timestamps', () => {
  const expected = (us: number) => {
    const second = Math.floor(us / 1e6);
    const date = new Date(second * 1000).toISOString().slice(0, 19);
    return `${date}.${String(us - second * 1e6).padStart(6, '0')}Z`;
  };

  it('are ISO-8601 in UTC with six digits, for one writer and many times', () => {
    const writer = new ByteWriter();
    const check = (us: number) => {
      writer.timestamp(us);
      assert.equal(Buffer.from(writer.take()).toString(), expected(us));
    };
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.nat(3_000_000), (us, later) => {
        check(us);
        if (us + later <= Number.MAX_SAFE_INTEGER) check(us + later);
        check(us);
      }),
    );
    const day = 86_400_000_000;
    for (let us = 0; us <= Number.MAX_SAFE_INTEGER; us += 97 * day) {
      check(us);
      if (us > 0) check(us - 1);
    }
    check(Number.MAX_SAFE_INTEGER);
  });

  it('are right on every day of a leap year, a common year and around the years 2000 and 2100', () => {
    const writer = new ByteWriter();
    for (const year of [1970, 1972, 1999, 2000, 2001, 2026, 2028, 2099, 2100, 2101]) {
      for (let day = 0; day < 367; day++) {
        const us = (Date.UTC(year, 0, 1) + day * 86_400_000 + 3_723_000) * 1000 + 512_887;
        writer.timestamp(us);
        assert.equal(Buffer.from(writer.take()).toString(), expected(us));
      }
    }
  });
});

it('ids are those of the core', () => {
  const identity = { saltHigh: 0xab, saltLow: 0x1234_5678, seedHigh: 1, seedLow: 2 };
  const stamp = 1_790_000_000_123_456;
  assert.equal(
    written((writer) => writer.id(identity, stamp, 17, 3)),
    idText(identity, stamp, 17, 3),
  );
});

it('an answer put together from pieces is the JSON that JSON.stringify would write', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text, fc.maxSafeNat(), valueText), { maxLength: 20 }), (rows) => {
      const writer = new ByteWriter(16);
      writer.byte(91);
      rows.forEach(([name, number, payload], i) => {
        if (i > 0) writer.byte(44);
        writer.raw(asciiBytes('{"a name":'));
        writer.jsonText(name);
        writer.raw(asciiBytes(',"n":'));
        writer.integer(number);
        writer.raw(asciiBytes(',"payload":'));
        const bytes = utf8(`##${payload}##`);
        writer.copy(bytes, 2, bytes.length - 2);
        writer.byte(125);
      });
      writer.byte(93);
      const answer: unknown = JSON.parse(Buffer.from(writer.take()).toString());
      assert.deepEqual(
        answer,
        rows.map(([name, n, payload]) => ({ 'a name': name, n, payload: JSON.parse(payload) as unknown })),
      );
    }),
  );
});

describe('a writer', () => {
  it('gives away bytes that later writing does not touch', () => {
    for (const size of [1, 100, 3_000_000]) {
      const writer = new ByteWriter(64);
      const source = new Uint8Array(size).fill(1);
      writer.raw(source);
      const taken = writer.take();
      assert.equal(writer.length, 0);
      writer.raw(new Uint8Array(size).fill(2));
      assert.deepEqual(taken, source);
    }
  });

  it('does not keep a large buffer', () => {
    const writer = new ByteWriter(64);
    writer.raw(new Uint8Array(3_000_000));
    writer.take();
    assert.equal(writer.bytes.length, 64);
    writer.raw(new Uint8Array(3_000_000));
    writer.reset();
    assert.equal(writer.bytes.length, 64);
  });

  it('keeps what was written when it grows', () => {
    const writer = new ByteWriter(1);
    let expected = '';
    for (let i = 0; i < 2000; i++) {
      writer.integer(i);
      expected += String(i);
    }
    assert.equal(Buffer.from(writer.take()).toString(), expected);
  });

  it('reserves what was asked for', () => {
    const writer = new ByteWriter(4);
    writer.byte(1);
    writer.ensure(1000);
    assert.ok(writer.bytes.length >= 1001);
    assert.equal(writer.bytes[0], 1);
  });
});

it('a constant must be ASCII', () => {
  assert.deepEqual(asciiBytes('a"~'), utf8('a"~'));
  assert.throws(() => asciiBytes('é'), RangeError);
});
