/** docs/promises.md is complete and true: every promise has a row, and every test named there mentions the promise. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { repositoryRoot } from './broker-process.ts';

interface Promised {
  readonly id: string;
  readonly files: readonly string[];
  readonly later: boolean;
}

/** The ids of the behaviours by area; numbers have gaps. */
const behaviours: Readonly<Record<string, readonly number[]>> = {
  QUE: [1, 2, 4],
  PSH: [1, 2, 3, 4, 6, 7, 9, 10, 11],
  POP: [1, 2, 3, 5, 7],
  LSE: [1, 6],
  ORD: [1, 2],
  ACK: [1, 2, 4, 5, 7, 8],
  RTY: [1, 2, 3],
  DLQ: [1, 2, 3, 4],
  GRP: [1, 2, 3, 4, 5, 7, 8],
  DSC: [1, 2, 4],
  TXN: [1, 2, 3, 5, 6, 7],
  KV: [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13],
  TMR: [1, 2, 3, 4, 5, 6, 7, 8],
  LCK: [1, 2, 3, 4, 5, 6, 7],
  FET: [1, 2, 3, 4],
  AUT: [1, 2],
  RET: [1],
  TRC: [1],
  STR: [1, 2, 3, 4, 5, 6, 7, 8, 9],
  PRF: [1, 2],
};
const scenarioCount = 86;

function readPromises(): Promised[] {
  const text = readFileSync(join(repositoryRoot, 'docs/promises.md'), 'utf8');
  return [...text.matchAll(/^\| ((?:B-[A-Z]+|S)-\d+) \| [^|]+ \| ([^|]+) \|$/gm)].map(([, id, where]) => ({
    id,
    files: [...where.matchAll(/`([^`]+\.ts)`/g)].map(([, file]) => file),
    later: /^later: \S/.test(where),
  }));
}

/** The comments of a source file, as one text. */
function commentsOf(file: string): string {
  const text = readFileSync(join(repositoryRoot, file), 'utf8');
  return [...text.matchAll(/^\s*(?:\/\/|\/\*\*?|\*)(.*)$/gm)].map(([, comment]) => comment).join('\n');
}

describe('docs/promises.md', () => {
  const promises = readPromises();

  it('has one row for every behaviour and every scenario', () => {
    const expected = [
      ...Object.entries(behaviours).flatMap(([area, numbers]) => numbers.map((number) => `B-${area}-${number}`)),
      ...Array.from({ length: scenarioCount }, (_, i) => `S-${String(i + 1).padStart(3, '0')}`),
    ];
    assert.deepEqual(
      promises.map((promise) => promise.id),
      expected,
    );
  });

  it('says of each either where it is tested or why not yet', () => {
    for (const promise of promises) {
      assert.notEqual(promise.later, promise.files.length > 0, `${promise.id} has a test or a reason, not both`);
    }
  });

  it('names only tests that mention the promise in a comment', () => {
    const comments = new Map<string, string>();
    for (const { id, files } of promises) {
      for (const file of files) {
        const text = comments.get(file) ?? commentsOf(file);
        comments.set(file, text);
        assert.match(text, new RegExp(`\\b${id}\\b`), `${file} does not mention ${id}`);
      }
    }
  });
});
