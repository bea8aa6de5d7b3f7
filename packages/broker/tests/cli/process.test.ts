/** The executable itself, as a process. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

function lanemq(...args: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { code: status, out: stdout, err: stderr };
}

async function firstLine(child: ChildProcess): Promise<string> {
  let text = '';
  for await (const chunk of child.stdout ?? []) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  return text.split('\n', 1)[0];
}

describe('the lanemq process', () => {
  let folder: string;
  const children: ChildProcess[] = [];

  function serve(...args: string[]): ChildProcess {
    const child = spawn(process.execPath, [main, 'serve', '--port', '0', '--data', folder, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.push(child);
    return child;
  }

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lanemq-cli-'));
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await rm(folder, { recursive: true });
  });

  it('prints its version and refuses what it does not know with exit code 2', () => {
    const version = lanemq('--version');
    assert.equal(version.code, 0);
    assert.match(version.out, /^\d+\.\d+\.\d+\n$/);
    assert.equal(lanemq('serve', '--nope').code, 2);
    assert.equal(lanemq('nope').code, 2);
  });

  it('serves, refuses a second broker on the folder or the port, and stops on SIGTERM with exit code 0', async () => {
    const broker = serve();
    const line = await firstLine(broker);
    const url = /listening on (http:\/\/127\.0\.0\.1:\d+) /.exec(line)?.[1];
    assert.ok(url !== undefined && line.includes(`data folder ${folder}`), line);
    const pushed = await fetch(`${url}/api/v1/push`, { method: 'POST', body: '{"items":[{"queue":"q","payload":1}]}' });
    assert.equal(pushed.status, 201);

    const sameFolder = lanemq('serve', '--port', '0', '--data', folder);
    assert.equal(sameFolder.code, 1);
    assert.match(sameFolder.err, /^lanemq serve: .* is in use by another running broker\nStop the other broker.*\n$/);
    const other = await mkdtemp(join(tmpdir(), 'lanemq-cli-'));
    const samePort = lanemq('serve', '--port', new URL(url).port, '--data', other);
    await rm(other, { recursive: true });
    assert.equal(samePort.code, 1);
    assert.match(samePort.err, /^lanemq serve: listen EADDRINUSE.*\nAnother program listens there.*\n$/);

    broker.kill('SIGTERM');
    assert.deepEqual(await once(broker, 'exit'), [0, null]);
  });

  it('shows and checks what it left behind, and refuses folders that are none', () => {
    const shown = lanemq('inspect', '--json', '--data', folder);
    assert.equal(shown.code, 0);
    assert.equal(JSON.parse(shown.out).recordsByType.block, 1);
    const checked = lanemq('verify', '--data', folder);
    assert.equal(checked.code, 0);
    assert.match(checked.out, /nothing is wrong\n$/);
    for (const command of ['inspect', 'verify']) {
      const missing = lanemq(command, '--data', join(folder, 'nope'));
      assert.equal(missing.code, 1);
      assert.match(missing.err, /is no data folder/);
    }
  });

  it('refuses a folder that holds something else, and leaves it as it was', async () => {
    const other = await mkdtemp(join(tmpdir(), 'lanemq-cli-'));
    try {
      await writeFile(join(other, 'thesis.txt'), 'all of it');
      const refused = lanemq('serve', '--port', '0', '--data', other);
      assert.equal(refused.code, 1);
      assert.match(refused.err, /is not empty \(it holds thesis\.txt\) and is no LaneMQ data folder: name an empty/);
      assert.ok(!refused.err.includes('\n    at '), 'a message for people, no stack');
      assert.deepEqual(await readdir(other), ['thesis.txt']);
    } finally {
      await rm(other, { recursive: true });
    }
  });

  it('ends at once on the second signal', async () => {
    const broker = serve('--stop-grace-ms', '60000');
    const line = await firstLine(broker);
    const url = /listening on (http:\S+) /.exec(line)?.[1];
    // A request whose body never comes keeps the first signal waiting.
    const request = new AbortController();
    const pending = fetch(`${url}/api/v1/push`, {
      method: 'POST',
      body: new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('{')) }),
      duplex: 'half',
      signal: request.signal,
    });
    const failed = assert.rejects(pending);
    let errors = '';
    broker.stderr?.on('data', (chunk) => {
      errors += chunk;
      if (errors.includes('SIGTERM: stopping')) broker.kill('SIGTERM');
    });
    const pushRequests = async (): Promise<number> => {
      const metrics = await fetch(`${url}/metrics`);
      return ((await metrics.json()) as { http: { pushRequests: number } }).http.pushRequests;
    };
    while ((await pushRequests()) < 1);
    broker.kill('SIGTERM');
    assert.deepEqual(await once(broker, 'exit'), [1, null]);
    request.abort();
    await failed;
  });
});
