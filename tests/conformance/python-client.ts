/**
 * The official Python client in a virtual environment of its own, kept in the folder for temporary files between runs.
 * Needs Python 3.9 and a package index; a test that does not get it says so and is skipped.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What is installed. `zstandard` is what its framed pop needs. */
const packages = ['queen-mq==2.6.0', 'zstandard'];
const installTimeoutMs = 120_000;

export type PythonClient = { readonly python: string } | { readonly missing: string };

/** The interpreter that has the client, or why there is none. */
export async function pythonClient(): Promise<PythonClient> {
  const folder = join(tmpdir(), 'lanemq-conformance-queen-mq-2.6.0');
  const python = join(folder, 'bin', 'python');
  const isInstalled = join(folder, 'bin', 'activate');
  try {
    if (existsSync(isInstalled) && (await canImport(python))) return { python };
    await rm(folder, { recursive: true, force: true });
    await run('python3', ['-m', 'venv', folder], { timeout: installTimeoutMs });
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages], {
      timeout: installTimeoutMs,
    });
    return { python };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return { missing: text.trim().split('\n').slice(-1)[0] };
  }
}

async function canImport(python: string): Promise<boolean> {
  return run(python, ['-c', 'import queen, zstandard']).then(
    () => true,
    () => false,
  );
}
