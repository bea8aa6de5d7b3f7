/** Who may import whom: the table, and the packages and host modules that each part may use. */
import { importsOf, resolveSpecifier, sourceText } from './source-text.ts';
import { type Finding, isSource, lineAt, type Rule, type Tree } from './tree.ts';

interface Part {
  /** Other parts of the table. */
  readonly parts: readonly string[];
  /** Packages of the registry. */
  readonly packages: readonly string[];
  /** True: `node:` modules too. */
  readonly host: boolean;
}

const pure = { packages: [], host: false } as const;

/**
 * The table. What is not listed is forbidden; a new line is a decision (docs/decisions). `broker` is the composition
 * root: the files that lie directly in packages/broker/src.
 */
export const importTable: Readonly<Record<string, Part>> = {
  protocol: { parts: [], ...pure },
  client: { parts: ['protocol'], ...pure },
  base: { parts: [], ...pure },
  ports: { parts: [], ...pure },
  core: { parts: ['protocol'], ...pure },
  codec: { parts: ['protocol', 'core'], packages: ['xxhash-wasm'], host: false },
  runtime: { parts: ['protocol', 'base', 'core', 'codec', 'ports'], ...pure },
  storage: { parts: ['base', 'codec', 'ports'], ...pure },
  log: { parts: ['ports', 'storage'], ...pure },
  system: { parts: ['ports', 'storage'], packages: [], host: true },
  http: { parts: ['protocol', 'core', 'codec', 'runtime'], packages: ['fastify'], host: true },
  config: { parts: ['protocol'], packages: [], host: true },
  broker: {
    parts: ['protocol', 'base', 'ports', 'core', 'codec', 'runtime', 'storage', 'log', 'system', 'http', 'config'],
    packages: [],
    host: true,
  },
  // codec and storage: the offline commands print record types by name and the report of a log.
  cli: { parts: ['protocol', 'client', 'config', 'broker', 'codec', 'storage'], packages: [], host: true },
};

/** Folders in which the host does not exist. */
export const pureParts: readonly string[] = ['base', 'core', 'codec', 'ports', 'runtime', 'storage', 'log'];

const brokerFile = /^packages\/broker\/src\/([^/]+)\//;
const packageOfPart: Readonly<Record<string, string>> = {
  '@lanemq/protocol': 'protocol',
  '@lanemq/client': 'client',
  lanemq: 'broker',
};

/** The part of the table that a source belongs to; undefined for tests, scripts and benchmarks. */
export function partOf(path: string): string | undefined {
  if (path.startsWith('packages/protocol/src/')) return 'protocol';
  if (path.startsWith('packages/client/src/')) return 'client';
  if (!path.startsWith('packages/broker/src/')) return undefined;
  return brokerFile.exec(path)?.[1] ?? 'broker';
}

function wordsOf(names: readonly string[]): string {
  return names.length === 0 ? 'nothing' : names.join(', ');
}

/** Imports inside the packages keep to the table. */
export const importsKeepToTheTable: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    const part = partOf(path);
    if (part === undefined || !path.endsWith('.ts')) continue;
    const allowed = importTable[part];
    if (allowed === undefined) {
      findings.push({
        path,
        line: 0,
        message: `the folder ${part} is not in the import table: add a line to tests/tidy/import-rules.ts and to ARCHITECTURE.md, with its reason in docs/decisions`,
      });
      continue;
    }
    const source = sourceText(text);
    for (const { specifier, position } of importsOf(source)) {
      const message = specifier.startsWith('.')
        ? relativeFault(tree, path, part, allowed, specifier)
        : packageFault(part, allowed, specifier);
      if (message !== null) findings.push({ path, line: lineAt(text, position), message });
    }
  }
  return findings;
};

function relativeFault(tree: Tree, path: string, part: string, allowed: Part, specifier: string): string | null {
  const target = resolveSpecifier(path, specifier);
  if (!specifier.endsWith('.ts')) return `'${specifier}' must end in .ts, the name of the source`;
  if (!tree.has(target)) return `'${specifier}' leads to ${target}, which does not exist`;
  const other = partOf(target);
  if (other === part) return null;
  if (other === undefined || other === 'protocol' || other === 'client') {
    return `'${specifier}' leaves the package: import it by its package name`;
  }
  if (allowed.parts.includes(other)) return null;
  return `${part} may import ${wordsOf(allowed.parts)}, not ${other}: pass what you need in as an argument, or through an interface in ports`;
}

function packageFault(part: string, allowed: Part, specifier: string): string | null {
  if (specifier.startsWith('node:')) {
    if (allowed.host) return null;
    return `${part} has no host: take ${specifier} behind an interface in ports and implement it in system`;
  }
  const own = packageOfPart[specifier];
  if (own !== undefined) {
    if (allowed.parts.includes(own)) return null;
    return `${part} may import ${wordsOf(allowed.parts)}, not ${own}`;
  }
  if (allowed.packages.includes(specifier)) return null;
  return `${part} may use the packages: ${wordsOf(allowed.packages)}; '${specifier}' needs a folder that wraps it, a section in docs/dependencies.md and a line in the import table`;
}

interface PackageFile {
  readonly name?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

export function packageFile(tree: Tree, path: string): PackageFile {
  return JSON.parse(tree.get(path) ?? '{}') as PackageFile;
}

/** `@scope/name/deep` and `name/deep` without what lies inside the package. */
function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Every package that is imported is declared: by its own package.json in a package, by the root's in tests and scripts. */
export const importsAreDeclared: Rule = (tree) => {
  const findings: Finding[] = [];
  const workspace = new Set(['@lanemq/protocol', '@lanemq/client', 'lanemq']);
  const root = packageFile(tree, 'package.json');
  for (const [path, text] of tree) {
    if (!isSource(path)) continue;
    const home = /^packages\/[^/]+(?=\/src\/)/.exec(path)?.[0];
    const declared = new Set(
      home === undefined
        ? [...Object.keys(root.devDependencies ?? {}), ...workspace, ...brokerDependencies(tree)]
        : Object.keys(packageFile(tree, `${home}/package.json`).dependencies ?? {}),
    );
    const source = sourceText(text);
    for (const { specifier, position } of importsOf(source)) {
      if (specifier.startsWith('.') || specifier.startsWith('node:')) continue;
      const name = packageName(specifier);
      if (declared.has(name)) continue;
      const file = home === undefined ? 'devDependencies of package.json' : `dependencies of ${home}/package.json`;
      findings.push({
        path,
        line: lineAt(text, position),
        message: `'${name}' is not among the ${file}: declare it there with an exact version, or do without it`,
      });
    }
  }
  return findings;
};

/** Tests of the broker use its own packages. */
function brokerDependencies(tree: Tree): string[] {
  return Object.keys(packageFile(tree, 'packages/broker/package.json').dependencies ?? {});
}
