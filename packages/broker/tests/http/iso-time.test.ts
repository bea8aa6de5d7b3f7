import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isoTime, parseIsoTime } from '../../src/http/iso-time.ts';

const us = 1_000_000;

describe('an ISO time', () => {
  for (const [text, expected] of [
    ['1970-01-01', 0],
    ['1970-01-01T00:00', 0],
    ['1970-01-01T00:00Z', 0],
    ['1970-01-01T00:00:01', us],
    ['1970-01-01T00:00:01.5Z', 1.5 * us],
    ['1970-01-01T00:00:00.000001Z', 1],
    ['1970-01-01T00:00:00.0000019Z', 1],
    ['1970-01-01Z', 0],
    ['1970-01-01T02:00+02:00', 0],
    ['1970-01-01T00:00:00-01:30', 5400 * us],
    ['1969-12-31T23:59:59.999999Z', -1],
    ['2026-10-02T09:14:03.512887Z', Date.UTC(2026, 9, 2, 9, 14, 3) * 1000 + 512_887],
    ['2024-02-29T00:00Z', Date.UTC(2024, 1, 29) * 1000],
    ['0099-01-01', Date.parse('0099-01-01T00:00:00Z') * 1000],
  ] as const) {
    it(`reads ${text} to the microsecond`, () => {
      assert.equal(parseIsoTime(text), expected);
    });
  }

  for (const text of [
    '',
    'now',
    '2026',
    '2026-10',
    '2026-1-2',
    '2026-13-01',
    '2026-00-01',
    '2026-02-30',
    '2025-02-29',
    '2026-10-02T',
    '2026-10-02T09',
    '2026-10-02T24:00',
    '2026-10-02T09:60',
    '2026-10-02T09:14:60',
    '2026-10-02T09:14:03.',
    '2026-10-02T09:14:03,5Z',
    '2026-10-02 09:14',
    '2026-10-02T09:14+2',
    '2026-10-02T09:14+02:60',
    '2026-10-02T09:14+24:00',
    ' 2026-10-02',
    '2026-10-02\n',
    '1790000000000',
    '12026-10-02',
  ]) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      assert.equal(parseIsoTime(text), undefined);
    });
  }

  it('is written with six digits, and read back the same', () => {
    assert.equal(isoTime(0), '1970-01-01T00:00:00.000000Z');
    assert.equal(isoTime(1_790_000_000_000_007), '2026-09-21T14:13:20.000007Z');
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) * 1000 }), (stamp) => {
        assert.equal(parseIsoTime(isoTime(stamp)), stamp);
      }),
    );
  });

  it('agrees with the host on every zone and millisecond', () => {
    const times = fc.record({
      at: fc.integer({ min: 0, max: Date.UTC(2200, 0, 1) }),
      sign: fc.constantFrom('+', '-'),
      hours: fc.integer({ min: 0, max: 23 }),
      minutes: fc.integer({ min: 0, max: 59 }),
    });
    fc.assert(
      fc.property(times, ({ at, sign, hours, minutes }) => {
        const two = (value: number) => String(value).padStart(2, '0');
        const text = `${new Date(at).toISOString().slice(0, -1)}${sign}${two(hours)}:${two(minutes)}`;
        assert.equal(parseIsoTime(text), Date.parse(text) * 1000);
      }),
    );
  });
});
