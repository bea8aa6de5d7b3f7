import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { run, type Tools } from '../../src/cli/run.ts';
import type { LogReport } from '../../src/storage/offline.ts';

const emptyLog: LogReport = {
  segments: [],
  damage: [],
  gaps: [],
  recordsByType: new Map(),
  entries: 0,
  entryBytes: 0,
  lastSequence: 0,
  tail: 0,
  cleanlyClosed: true,
  unfinishedBytes: 0,
};

const oneSegment: LogReport = {
  ...emptyLog,
  segments: [
    {
      path: 'segments/0000000000000000.seg',
      base: 0,
      end: 264,
      sealed: false,
      fileBytes: 4096,
      entries: 2,
      entryBytes: 200,
      records: 3,
      firstSequence: 1,
      lastSequence: 2,
      firstEpoch: 1,
      lastEpoch: 1,
      firstStampUs: 1_790_000_000_000_000,
      lastStampUs: 1_790_000_000_000_001,
    },
  ],
  recordsByType: new Map([
    [1, 2],
    [99, 1],
  ]),
  entries: 2,
  entryBytes: 200,
  lastSequence: 2,
  tail: 264,
  cleanlyClosed: false,
  unfinishedBytes: 17,
};

const damaged: LogReport = {
  ...oneSegment,
  damage: [{ segment: 'segments/0000000000000000.seg', address: 164, reason: 'the checksum does not fit' }],
};

/** What a user sees of one call. */
async function called(
  args: readonly string[],
  tools: Partial<Tools> = {},
  environment: Readonly<Record<string, string>> = {},
): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = { out: (text: string) => out.push(text), err: (text: string) => err.push(text) };
  const refuse = async () => assert.fail('this command must not run');
  const code = await run(args, environment, terminal, {
    version: '1.2.3',
    startBroker: refuse,
    inspectFolder: refuse,
    verifyFolder: refuse,
    ...tools,
  });
  return { code, out: out.join('\n'), err: err.join('\n') };
}

describe('lanemq', () => {
  it('prints its version', async () => {
    assert.deepEqual(await called(['--version']), { code: 0, out: '1.2.3', err: '' });
  });

  it('explains itself and each command, to stdout and with exit code 0', async () => {
    const all = await called(['--help']);
    assert.equal(all.code, 0);
    for (const command of ['serve', 'inspect', 'verify']) {
      assert.match(all.out, new RegExp(`^ {2}${command} `, 'm'));
      for (const args of [
        [command, '--help'],
        ['help', command],
        [command, '--data', 'x', '-h'],
      ]) {
        const help = await called(args);
        assert.equal(help.code, 0);
        assert.ok(help.out.startsWith(`Usage: lanemq ${command} [options]`), help.out);
        assert.match(help.out, /--data/);
      }
    }
  });

  it('refuses to do nothing, unknown commands and unknown options with exit code 2 and a text on stderr', async () => {
    for (const [args, text] of [
      [[], /^Usage: lanemq/],
      [['sreve'], /unknown command sreve\nDid you mean `lanemq serve`\?/],
      [['--verbose'], /unknown option --verbose/],
      [['serve', '--prot', '1'], /^lanemq serve: unknown option --prot; did you mean --port\?/],
      [['serve', '--port', 'x'], /^lanemq serve: --port is "x", but must be a whole number from 0 to 65535/],
      [['inspect'], /^lanemq inspect: --data <folder> is required/],
      [['inspect', '--data'], /--data needs a value/],
      [['inspect', '--data', 'x', '--jsno'], /unknown option --jsno; did you mean --json\?/],
      [['inspect', '--data', 'x', '--json=yes'], /--json takes no value/],
      [['verify', 'x'], /unknown option x/],
    ] as const) {
      const { code, out, err } = await called(args);
      assert.equal(code, 2, args.join(' '));
      assert.equal(out, '');
      assert.match(err, text);
    }
  });
});

describe('lanemq serve', () => {
  it('prints one clear line and exits with 1 when the broker refuses to start', async () => {
    const refusal = Object.assign(new Error('data folder /x is in use by another running broker'), {
      code: 'EDATALOCKED',
    });
    const { code, out, err } = await called(['serve', '--data', '/x'], {
      startBroker: () => Promise.reject(refusal),
    });
    assert.deepEqual([code, out], [1, '']);
    assert.match(err, /^lanemq serve: data folder .x is in use by another running broker\nStop the other broker/);
  });

  it('says where it listens and what is on, serves until SIGTERM, then stops and exits with 0', async () => {
    let stops = 0;
    const result = await called(
      ['serve', '--data', '/x', '--port', '0', '--default-subscription-mode', 'all'],
      {
        startBroker: async (config, log) => {
          assert.equal(config.dataFolder, '/x');
          log({ level: 'debug', text: 'not to be seen' });
          log({ level: 'warn', text: 'to be seen' });
          setImmediate(() => process.emit('SIGTERM', 'SIGTERM'));
          return {
            url: 'http://127.0.0.1:1234',
            recovered: '5 partitions',
            stop: async () => {
              stops++;
            },
          };
        },
      },
      { LANEMQ_ENCRYPTION_KEY: '00'.repeat(32) },
    );
    process.removeAllListeners('SIGTERM');
    process.removeAllListeners('SIGINT');
    assert.equal(result.code, 0);
    assert.equal(stops, 1);
    assert.equal(
      result.out,
      'lanemq 1.2.3 listening on http://127.0.0.1:1234 ' +
        '(data folder /x; 5 partitions; encryption on; new groups start at all)',
    );
    assert.match(result.err, /^\S+Z warn to be seen$/m);
    assert.doesNotMatch(result.err, /not to be seen|0000/);
  });
});

describe('lanemq inspect', () => {
  it('shows segments, counts, record types and damage, and exits with 1 for the damage', async () => {
    const { code, out } = await called(['inspect', '--data', '/x'], {
      inspectFolder: async (folder) => {
        assert.equal(folder, '/x');
        return damaged;
      },
    });
    assert.equal(code, 1);
    assert.match(out, /^segments\/0000000000000000\.seg {2}open .* 2 entries, 3 records, 200 bytes, sequence 1 to 2/m);
    assert.match(out, /^records: 2 block, 1 of type 99$/m);
    assert.match(out, /^17 bytes of an unfinished write/m);
    assert.match(out, /^DAMAGE in segments\/0000000000000000\.seg at address 164: the checksum does not fit$/m);
  });

  it('prints one JSON object when asked', async () => {
    const { code, out } = await called(['inspect', '--json', '--data=/x'], { inspectFolder: async () => oneSegment });
    assert.equal(code, 0);
    const report = JSON.parse(out);
    assert.deepEqual(report.recordsByType, { block: 2, 99: 1 });
    assert.equal(report.segments[0].lastSequence, 2);
  });

  it('exits with 1 when the folder cannot be read', async () => {
    const missing = Object.assign(new Error('no such folder: /x'), { code: 'ENOENT' });
    const { code, err } = await called(['inspect', '--data', '/x'], { inspectFolder: () => Promise.reject(missing) });
    assert.equal(code, 1);
    assert.equal(err, 'lanemq inspect: no such folder: /x');
  });
});

describe('lanemq verify', () => {
  it('exits with 0 when nothing is wrong', async () => {
    const { code, out, err } = await called(['verify', '--data', '/x'], {
      verifyFolder: async () => ({ log: oneSegment, problems: [], stateHash: 'f00d' }),
    });
    assert.deepEqual([code, err], [0, '']);
    assert.match(out, /nothing is wrong$/);
  });

  it('names every damage and problem on stderr and exits with 1', async () => {
    const { code, out, err } = await called(['verify', '--data', '/x'], {
      verifyFolder: async () => ({
        log: damaged,
        problems: ['snapshot 7 has another digest than the log gives'],
        stateHash: 'f00d',
      }),
    });
    assert.equal(code, 1);
    assert.match(err, /^DAMAGE in .* address 164/m);
    assert.match(err, /^PROBLEM: snapshot 7 has another digest than the log gives$/m);
    assert.match(out, /2 things are wrong$/);
  });
});
