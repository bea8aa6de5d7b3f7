import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { limits } from '@lanemq/protocol';
import type { BrokerConfig } from '../../src/config/mod.ts';
import { closestName, optionsHelp, optionTable, parseConfig } from '../../src/config/mod.ts';

function accepted(args: readonly string[], environment: Readonly<Record<string, string>> = {}): BrokerConfig {
  const parsed = parseConfig(args, environment);
  assert.ok(parsed.ok, parsed.ok ? '' : parsed.errors.join('\n'));
  return parsed.config;
}

function refused(args: readonly string[], environment: Readonly<Record<string, string>> = {}): readonly string[] {
  const parsed = parseConfig(args, environment);
  assert.ok(!parsed.ok, 'it was accepted');
  return parsed.errors;
}

describe('the configuration of a broker', () => {
  it('is the defaults of the table when nothing is given, and frozen', () => {
    const config = accepted([]);
    for (const [name, facts] of Object.entries(optionTable)) {
      assert.equal(config[name as keyof BrokerConfig], facts.default, name);
    }
    assert.equal(config.port, 6632);
    assert.equal(config.host, '127.0.0.1');
    assert.equal(config.maxBodyBytes, limits.bodyBytesMax);
    assert.ok(Object.isFrozen(config));
  });

  it('takes a flag before its variable, the variable before its alias, the alias before the default', () => {
    const alias = { QUEEN_MAX_BODY_BYTES: '2000' };
    const variable = { ...alias, LANEMQ_MAX_BODY_BYTES: '3000' };
    assert.equal(accepted([], alias).maxBodyBytes, 2000);
    assert.equal(accepted([], variable).maxBodyBytes, 3000);
    assert.equal(accepted(['--max-body-bytes', '4000'], variable).maxBodyBytes, 4000);
  });

  it('knows the variables of Queen brokers that the contract names', () => {
    const key = '0123456789abcdefABCDEF0123456789'.repeat(2);
    const config = accepted([], { DEFAULT_SUBSCRIPTION_MODE: 'all', QUEEN_ENCRYPTION_KEY: key });
    assert.equal(config.defaultSubscriptionMode, 'all');
    assert.deepEqual(config.encryptionKey, Uint8Array.from(Buffer.from(key, 'hex')));
  });

  it('takes an empty variable as not set', () => {
    assert.equal(accepted([], { LANEMQ_PORT: '' }).port, 6632);
  });

  it('reads both spellings of a flag', () => {
    assert.equal(accepted(['--port', '1']).port, 1);
    assert.equal(accepted(['--port=1']).port, 1);
    assert.equal(accepted(['--data=/a=b']).dataFolder, '/a=b');
  });

  it('reads bytes with binary units', () => {
    assert.equal(accepted(['--segment-bytes', '1MiB']).segmentBytes, 1024 ** 2);
    assert.equal(accepted(['--segment-bytes', '96 kib']).segmentBytes, 96 * 1024);
    assert.equal(accepted(['--tail-bytes', '2GiB']).tailBytes, 2 * 1024 ** 3);
  });

  it('reads shares', () => {
    assert.equal(accepted(['--disk-full-share', '0.9']).diskFullShare, 0.9);
    assert.equal(accepted(['--disk-free-share', '.5']).diskFreeShare, 0.5);
  });

  for (const [flag, text] of [
    ['--port', '65536'],
    ['--port', '-1'],
    ['--port', '1.5'],
    ['--port', 'http'],
    ['--port', '0x10'],
    ['--port', ''],
    ['--max-body-bytes', '1023'],
    ['--max-body-bytes', '97MiB'],
    ['--segment-bytes', '1e9'],
    ['--segment-bytes', '64MB'],
    ['--disk-full-share', '85'],
    ['--disk-full-share', '85%'],
    ['--default-subscription-mode', 'New'],
    ['--log-level', 'loud'],
    ['--data', ''],
  ]) {
    it(`refuses ${flag} ${JSON.stringify(text)}, naming the option and the value`, () => {
      const [error, ...more] = refused([flag, text]);
      assert.deepEqual(more, []);
      assert.ok(error.startsWith(`${flag} is ${JSON.stringify(text)}, but must be `), error);
    });
  }

  it('names the bounds of what it refuses', () => {
    assert.match(refused(['--port', '70000'])[0], /from 0 to 65535$/);
    assert.match(refused(['--max-body-bytes', '1'])[0], /from 1 KiB to 96 MiB$/);
    assert.match(refused([], { LANEMQ_LOG_LEVEL: 'x' })[0], /^LANEMQ_LOG_LEVEL .* error or warn or info or debug$/);
  });

  it('never shows the encryption key, right or wrong', () => {
    const wrong = 'secret'.repeat(5);
    assert.ok(!refused(['--encryption-key', wrong]).join().includes('secret'));
    const parsed = parseConfig(['--encryption-key', 'ab'.repeat(32)], {});
    assert.ok(parsed.ok && !JSON.stringify([parsed.sources, parsed.warnings]).includes('abab'));
  });

  it('refuses unknown flags and says which one was probably meant', () => {
    assert.deepEqual(refused(['--prot', '1']), ['unknown option --prot; did you mean --port?']);
    assert.deepEqual(refused(['--colour', '1']), ['unknown option --colour']);
  });

  it('refuses a flag without a value, a flag that is given twice, and stray arguments', () => {
    assert.deepEqual(refused(['--port']), ['--port needs a value']);
    assert.deepEqual(refused(['--port', '1', '--port', '2']), ['--port is given twice']);
    assert.deepEqual(refused(['6632']), ['unexpected argument "6632"']);
  });

  it('reports all mistakes at once', () => {
    assert.equal(refused(['--port', 'x', '--nope', '1', '--log-level', 'y'], { LANEMQ_TAIL_BYTES: '1' }).length, 4);
  });

  it('refuses a disk that would count as free again while it still counts as full', () => {
    assert.match(refused(['--disk-full-share', '0.7'])[0], /--disk-free-share \(0.8\) must not be above/);
  });

  it('warns of a variable that nearly has the name of an option, and of no other', () => {
    const parsed = parseConfig([], { LANEMQ_PROT: '1', LANEMQ_CRASH_ROUNDS: '2', PATH: 'x' });
    assert.ok(parsed.ok);
    assert.deepEqual(parsed.warnings, ['the variable LANEMQ_PROT is not an option; did you mean LANEMQ_PORT?']);
  });

  it('gives every option a flag and a variable of its own', () => {
    const names = Object.values(optionTable).flatMap((facts) => [
      facts.flag,
      facts.variable,
      ...('alias' in facts ? [facts.alias] : []),
    ]);
    assert.equal(new Set(names).size, names.length);
  });

  it('shows every option in the help', () => {
    const help = optionsHelp();
    for (const { flag, variable } of Object.values(optionTable)) {
      assert.ok(help.includes(`  ${flag} <`) && help.includes(variable), flag);
    }
  });
});

describe('the closest name', () => {
  it('is the one with the fewest edits, and none when all are far', () => {
    assert.equal(closestName('serv', ['inspect', 'serve']), 'serve');
    assert.equal(closestName('SERVE', ['serve']), 'serve');
    assert.equal(closestName('zebra', ['inspect', 'serve']), undefined);
    assert.equal(closestName('x', []), undefined);
  });
});
