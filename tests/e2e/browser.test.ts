/**
 * The client in a real browser: headless Chromium loads a page with the client's own modules, which pushes and consumes
 * through the address that served it. Without a Chromium it says so loudly and is skipped.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { BrokerProcess, repositoryRoot } from './broker-process.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome'];
const browser = names.find((name) => spawnSync(name, ['--version']).status === 0);
const skip = browser === undefined ? `SKIPPED, none of ${names.join(', ')} is installed` : false;
if (skip !== false) process.stderr.write(`\n*** the client in a browser: ${skip}\n\n`);

const page = `<!doctype html>
<script type="importmap">
{"imports":{"@lanemq/client":"/modules/client/mod.js","@lanemq/protocol":"/modules/protocol/mod.js"}}
</script>
<script type="module" src="/page.js"></script>`;

it('a page pushes, consumes, is stopped, is refused and reads by offset', { skip, timeout: 120_000 }, async () => {
  const broker = await BrokerProcess.start();
  const site = await Site.start(broker.client.port);
  const profile = await mkdtemp(join(tmpdir(), 'lanemq-browser-'));
  const process = startBrowser(browser ?? '', profile, site.url);
  try {
    assert.deepEqual(await site.result, [
      'pushed queued, queued, then duplicate',
      'visitor-1 #0: 0',
      'visitor-1 #1: 1',
      'visitor-1 #2: 2',
      'refused not_found',
      'read 3',
    ]);
  } finally {
    const ended = new Promise((resolve) => process.once('exit', resolve));
    process.kill('SIGKILL');
    await ended;
    await site.close();
    await broker.dispose();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
});

function startBrowser(name: string, profile: string, url: string): ChildProcess {
  // Containers give a browser neither a sandbox of its own nor much shared memory.
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'];
  return spawn(name, [...flags, `--user-data-dir=${profile}`, url], { stdio: 'ignore' });
}

/** Serves the page and the client's modules, and passes everything else on to the broker, as a proxy in front would. */
class Site {
  readonly #server: Server;
  /** What the page said at its end. */
  readonly result: Promise<string[]>;

  static async start(brokerPort: number): Promise<Site> {
    const site = new Site(brokerPort);
    await new Promise<void>((resolve) => site.#server.listen(0, '127.0.0.1', resolve));
    return site;
  }

  private constructor(brokerPort: number) {
    let resolve!: (result: string[]) => void;
    this.result = new Promise((resolver) => {
      resolve = resolver;
    });
    this.#server = createServer((incoming, response) => {
      const path = incoming.url ?? '/';
      if (path === '/') answer(response, 'text/html', page);
      else if (path === '/page.js') void serveFile(response, 'dist/tests/browser/page.js');
      else if (path.startsWith('/modules/')) void serveFile(response, moduleFile(path));
      else if (path === '/result') void bodyOf(incoming).then((body) => resolve(JSON.parse(body) as string[]));
      else passOn(incoming, response, brokerPort);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

function moduleFile(path: string): string {
  const [, , name, file] = path.split('/');
  return `packages/${name}/dist/${file}`;
}

function answer(response: ServerResponse, type: string, body: string): void {
  response.writeHead(200, { 'content-type': type });
  response.end(body);
}

async function serveFile(response: ServerResponse, path: string): Promise<void> {
  try {
    answer(response, 'text/javascript', await readFile(join(repositoryRoot, path), 'utf8'));
  } catch {
    response.writeHead(404).end();
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of incoming) body += String(chunk);
  return body;
}

function passOn(incoming: IncomingMessage, response: ServerResponse, port: number): void {
  const { url, method, headers } = incoming;
  const outgoing = request({ port, path: url, method, headers }, (answered) => {
    response.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(response);
  });
  outgoing.on('error', () => response.destroy());
  response.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}
