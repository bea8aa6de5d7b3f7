/** Documents and what they promise: links, flags, dependencies. */
import { packageFile } from './import-rules.ts';
import { type Finding, lineAt, type Rule, type Tree } from './tree.ts';

/** Blanks fenced blocks, in which brackets are no links. */
function withoutFences(text: string): string {
  return text.replace(/^ {0,3}```[\s\S]*?^ {0,3}```/gm, (block) => block.replace(/[^\n]/g, ' '));
}

/** The anchor under which hosts of Markdown show a heading. */
export function anchorOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replace(/ /g, '-');
}

function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const match of withoutFences(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const anchor = anchorOf(match[1] ?? '');
    let name = anchor;
    for (let n = 1; anchors.has(name); n++) name = `${anchor}-${n}`;
    anchors.add(name);
  }
  return anchors;
}

function pathFrom(document: string, target: string): string {
  const segments = document.split('/').slice(0, -1);
  for (const part of target.split('/')) {
    if (part === '..') segments.pop();
    else if (part !== '.' && part !== '') segments.push(part);
  }
  return segments.join('/');
}

function existsIn(tree: Tree, path: string): boolean {
  if (path === '' || tree.has(path)) return true;
  for (const known of tree.keys()) if (known.startsWith(`${path}/`)) return true;
  return false;
}

/** Every relative link of a document leads to a file or folder of the tree, and its anchor to a heading. */
export const linksResolve: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    if (!path.endsWith('.md')) continue;
    const prose = withoutFences(text);
    for (const match of prose.matchAll(/\]\(([^)\s]+)(?: "[^"]*")?\)/g)) {
      const link = match[1] ?? '';
      if (/^[a-z]+:/.test(link)) continue;
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : pathFrom(path, file);
      const line = lineAt(prose, match.index);
      if (!existsIn(tree, target)) {
        findings.push({ path, line, message: `the link ${link} leads to ${target}, which does not exist` });
      } else if (anchor !== undefined && target.endsWith('.md') && !anchorsOf(tree.get(target) ?? '').has(anchor)) {
        findings.push({ path, line, message: `${target} has no heading with the anchor #${anchor}` });
      }
    }
  }
  return findings;
};

/** Sources in which command line flags are defined or described to their users. */
const flagSources: readonly RegExp[] = [
  /^packages\/broker\/src\/(config|cli)\/.*\.ts$/,
  /^packages\/broker\/tests\/simulation\/.*\.ts$/,
  /^(scripts|benchmarks|tests)\/.*\.(ts|mjs)$/,
];
/** Of other programs that documents call. */
const foreignFlags: readonly string[] = [
  '--cpu-prof',
  '--expose-gc',
  '--test',
  '--no-audit',
  '--no-fund',
  '--pack-destination',
  '--write',
];

/** Every `--flag` of a document is one that a program here knows. */
export const flagsExist: Rule = (tree) => {
  const known = new Set(foreignFlags);
  for (const [path, text] of tree) {
    if (!flagSources.some((pattern) => pattern.test(path)) || path.startsWith('tests/tidy')) continue;
    for (const match of text.matchAll(/--[a-z][a-z0-9-]*/g)) known.add(match[0]);
  }
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    if (!path.endsWith('.md')) continue;
    for (const match of text.matchAll(/(?<![\w-])--[a-z][a-z0-9-]*/g)) {
      if (known.has(match[0])) continue;
      const message = `no program here knows ${match[0]}: see docs/options.md for the options there are`;
      findings.push({ path, line: lineAt(text, match.index), message });
    }
  }
  return findings;
};

const dependenciesPage = 'docs/dependencies.md';

/** Every dependency has a section in docs/dependencies.md, every section a dependency, and every version is exact. */
export const dependenciesAreExplained: Rule = (tree) => {
  const findings: Finding[] = [];
  const used = new Map<string, string>();
  for (const path of tree.keys()) {
    if (path !== 'package.json' && !/^packages\/[^/]+\/package\.json$/.test(path)) continue;
    const { dependencies = {}, devDependencies = {} } = packageFile(tree, path);
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      if (!/^\d+\.\d+\.\d+$/.test(version)) {
        findings.push({ path, line: 0, message: `${name} has the version '${version}': name an exact one` });
      }
      if (!name.startsWith('@lanemq/')) used.set(name, path);
    }
  }
  const page = tree.get(dependenciesPage) ?? '';
  const explained = new Set([...page.matchAll(/^### (\S+)$/gm)].map((match) => match[1] ?? ''));
  for (const [name, path] of used) {
    if (explained.has(name)) continue;
    const message = `${name} has no section in ${dependenciesPage}: say why, its licence, who keeps it, which folder wraps it and what replacing it takes`;
    findings.push({ path, line: 0, message });
  }
  for (const name of explained) {
    if (used.has(name)) continue;
    const message = `${name} is in no package.json: remove its section`;
    findings.push({ path: dependenciesPage, line: 0, message });
  }
  return findings;
};

/** `core/push.ts`, `scripts/test.mjs`: a path of a source between backticks, without wildcards. */
const sourcePath = /`((?:[a-z0-9.-]+\/)*[a-z0-9.-]+\.(?:ts|mjs))`/g;

/** Every source that a document names exists, in the repository or, seen from there, in a package. */
export const namedSourcesExist: Rule = (tree) => {
  const findings: Finding[] = [];
  const paths = [...tree.keys()];
  for (const [path, text] of tree) {
    if (!path.endsWith('.md')) continue;
    for (const match of text.matchAll(sourcePath)) {
      const named = match[1] ?? '';
      if (paths.some((known) => known === named || known.endsWith(`/${named}`))) continue;
      const message = `there is no ${named}: name the file where this is now`;
      findings.push({ path, line: lineAt(text, match.index), message });
    }
  }
  return findings;
};
