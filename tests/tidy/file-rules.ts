/** Which files there may be, and how they are called. */
import { importsOf, resolveSpecifier, sourceText, startedFilesOf } from './source-text.ts';
import { type Finding, isSource, type Rule, type Tree } from './tree.ts';

/** Files that somebody starts or that are a package's door. Tests are entry points by their name. */
const entryPoints: readonly string[] = [
  'packages/protocol/src/mod.ts',
  'packages/client/src/mod.ts',
  'packages/broker/src/server.ts',
  'packages/broker/src/cli/main.ts',
  'packages/broker/tests/simulation/main.ts',
  'scripts/demo/main.ts',
  'benchmarks/main.ts',
  'tests/browser/page.ts',
];

function isEntryPoint(path: string): boolean {
  return entryPoints.includes(path) || path.endsWith('.test.ts') || /^examples\/[^/]+\.ts$/.test(path);
}

function reachableFrom(tree: Tree, starts: readonly string[]): Set<string> {
  const reached = new Set<string>();
  const open = [...starts];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const text = tree.get(path);
    if (text === undefined || reached.has(path)) continue;
    reached.add(path);
    const source = sourceText(text);
    for (const { specifier } of [...importsOf(source), ...startedFilesOf(source)]) {
      if (specifier.startsWith('.')) open.push(resolveSpecifier(path, specifier));
    }
  }
  return reached;
}

/** Every source is reached from an entry point, and those of the packages without the help of a test. */
export const noFileIsDead: Rule = (tree) => {
  const sources = [...tree.keys()].filter(isSource);
  const entries = sources.filter(isEntryPoint);
  const shipped = reachableFrom(
    tree,
    entries.filter((path) => /^packages\/[^/]+\/src\//.test(path)),
  );
  const reached = reachableFrom(tree, entries);
  const findings: Finding[] = [];
  for (const path of sources) {
    const isShipped = /^packages\/[^/]+\/src\//.test(path);
    if (isShipped ? shipped.has(path) : reached.has(path)) continue;
    const message = isShipped
      ? 'no entry point of the packages reaches this file: use it, or remove it with its tests'
      : 'nothing reaches this file: use it, remove it, or name it as an entry point in tests/tidy/file-rules.ts';
    findings.push({ path, line: 0, message });
  }
  return findings;
};

/** Folders whose tests are about the whole of something, not about one file. */
const suiteFolders: readonly string[] = [
  'packages/broker/tests/simulation/',
  'packages/broker/tests/transcripts/',
  'packages/broker/tests/storage/log/',
  'tests/client/',
  'tests/conformance/',
  'tests/crash/',
  'tests/e2e/',
  'tests/hostile/',
  'tests/tidy/',
];

/** Tests of several files, or of what a program does as a whole. */
const testsOfSeveralFiles: Readonly<Record<string, string>> = {
  'packages/broker/tests/cli/process.test.ts': 'the executable as a process',
  'packages/broker/tests/config/documents.test.ts': 'the pages made of tables',
  'packages/broker/tests/http/answers.test.ts': 'the writers of all answers',
  'packages/broker/tests/http/parameters.test.ts': 'query strings and the parameters of a pop',
  'packages/broker/tests/runtime/long-partition.test.ts': 'what looks for a place in a long partition',
  'packages/broker/tests/runtime/stalls.test.ts': 'work on very many rows',
  'packages/broker/tests/storage/index-log.test.ts': 'the index over a real log',
  'packages/broker/tests/storage/sidecar.test.ts': 'sidecars, written and read',
  'tests/benchmarks/load-tools.test.ts': 'what the benchmarks send and read',
  'tests/tidy.test.ts': 'the rules on the tree',
  'tests/examples.test.ts': 'the examples, run',
};

/** Where the source of a test lies that mirrors one. */
function mirroredSource(path: string): string {
  const source = path.replace(/\.test\.ts$/, '.ts');
  return source.startsWith('tests/') ? source.replace(/^tests\//, 'scripts/') : source.replace('/tests/', '/src/');
}

/** The test of `src/a/b.ts` is `tests/a/b.test.ts`; others stand in a suite or are listed. */
export const testsMirrorSources: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const path of tree.keys()) {
    if (!path.endsWith('.test.ts') || suiteFolders.some((folder) => path.startsWith(folder))) continue;
    if (testsOfSeveralFiles[path] !== undefined) continue;
    const source = mirroredSource(path);
    if (tree.has(source)) continue;
    const message = `there is no ${source}: call the test like the file it tests, put it into a suite folder, or list it in tests/tidy/file-rules.ts`;
    findings.push({ path, line: 0, message });
  }
  return findings;
};

/** Names of files are kebab-case; files that tools look for keep the names that the tools know. */
export const namesAreKebabCase: Rule = (tree) => {
  const findings: Finding[] = [];
  const form = /^[a-z0-9]+(-[a-z0-9]+)*(\.test|\.d)?\.(ts|mjs)$/;
  for (const path of tree.keys()) {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (!/\.(ts|mjs)$/.test(name) || form.test(name)) continue;
    findings.push({ path, line: 0, message: 'call it for its noun in small letters with dashes' });
  }
  return findings;
};
