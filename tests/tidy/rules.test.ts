/** Each rule catches what it is for, and lets pass what is allowed: small trees with planted violations. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { anchorOf, dependenciesAreExplained, flagsExist, linksResolve, namedSourcesExist } from './document-rules.ts';
import { namesAreKebabCase, noFileIsDead, testsMirrorSources } from './file-rules.ts';
import { importsAreDeclared, importsKeepToTheTable } from './import-rules.ts';
import { noMachineIsMentioned, nothingIsLeftForLater, pureFoldersStayPure } from './source-rules.ts';
import { importsOf, sourceText } from './source-text.ts';
import type { Rule } from './tree.ts';

function treeOf(files: Readonly<Record<string, string>>): Map<string, string> {
  return new Map(Object.entries(files));
}

/** The messages of a rule on a tree, each behind its place. */
function findingsOf(rule: Rule, files: Readonly<Record<string, string>>): string[] {
  return rule(treeOf(files)).map(({ path, line, message }) => `${path}:${line} ${message}`);
}

function assertOne(rule: Rule, files: Readonly<Record<string, string>>, expected: RegExp): void {
  const findings = findingsOf(rule, files);
  assert.equal(findings.length, 1, findings.join('\n'));
  assert.match(findings[0] ?? '', expected);
}

function assertNone(rule: Rule, files: Readonly<Record<string, string>>): void {
  assert.deepEqual(findingsOf(rule, files), []);
}

const src = 'packages/broker/src';

describe('sources without comments and strings', () => {
  it('keeps positions and tells comments, strings and regular expressions apart', () => {
    const text = [
      "const a = 'not // a comment'; // Date.now()",
      ['/* console.log */ const b = /["\'/]/.test(a) ? `x$', '{f("}")}y` : 4 / 2 / 1;'].join(''),
      "const c = 'Math.random';",
    ].join('\n');
    const { code, bare, comments } = sourceText(text);
    assert.equal(code.length, text.length);
    assert.equal(bare.length, text.length);
    assert.match(code, /not \/\/ a comment/);
    assert.doesNotMatch(bare, /Date\.now|console|Math\.random|comment/);
    assert.match(bare, /4 \/ 2 \/ 1;/);
    assert.match(comments, /Date\.now/);
  });

  it('finds imports over several lines, exports from, side effects and dynamic imports', () => {
    const code =
      "import {\n  a,\n  type B,\n} from './a.ts';\nexport * from './b.ts';\nimport './c.ts';\nawait import('./d.ts');\n";
    assert.deepEqual(
      importsOf(sourceText(code)).map(({ specifier }) => specifier),
      ['./a.ts', './b.ts', './c.ts', './d.ts'],
    );
  });

  it('finds no import inside a string or a comment', () => {
    const code = "const a = \"import './a.ts'\"; // import './b.ts'\nconst b = 'x from ' + `import './c.ts'`;\n";
    assert.deepEqual(importsOf(sourceText(code)), []);
  });
});

describe('the rule on imports', () => {
  const files = {
    [`${src}/core/push.ts`]: "import { limits } from '@lanemq/protocol';\nimport type { Q } from './queue.ts';\n",
    [`${src}/core/queue.ts`]: '',
    [`${src}/runtime/shard.ts`]: "import { Q } from '../core/queue.ts';\n",
    [`${src}/codec/hasher.ts`]: "import xxhash from 'xxhash-wasm';\n",
    [`${src}/http/http-server.ts`]: "import fastify from 'fastify';\nimport { createServer } from 'node:http';\n",
    [`${src}/server.ts`]: "import { Shard } from './runtime/shard.ts';\n",
  };

  it('lets pass what the table allows', () => {
    assertNone(importsKeepToTheTable, files);
  });

  it('catches an import against the table', () => {
    const planted = { ...files, [`${src}/core/bad.ts`]: "import { Shard } from '../runtime/shard.ts';\n" };
    assertOne(importsKeepToTheTable, planted, /core\/bad\.ts:1 core may import protocol, not runtime/);
  });

  it('catches an import of the composition root by a folder', () => {
    const planted = { ...files, [`${src}/http/bad.ts`]: "\nimport { startBroker } from '../server.ts';\n" };
    assertOne(importsKeepToTheTable, planted, /http\/bad\.ts:2 http may import .*, not broker/);
  });

  it('catches the host in a pure folder', () => {
    const planted = { ...files, [`${src}/storage/bad.ts`]: "import * as fs from 'node:fs';\n" };
    assertOne(importsKeepToTheTable, planted, /storage has no host: take node:fs behind an interface/);
  });

  it('catches a package outside the folder that wraps it', () => {
    const planted = { ...files, [`${src}/runtime/bad.ts`]: "import xxhash from 'xxhash-wasm';\n" };
    assertOne(importsKeepToTheTable, planted, /'xxhash-wasm' needs a folder that wraps it/);
  });

  it('catches a way around the package name, a file that is not there, and a folder without a line', () => {
    const around = {
      ...files,
      'packages/protocol/src/mod.ts': '',
      [`${src}/core/bad.ts`]: "import '../../../protocol/src/mod.ts';\n",
    };
    assertOne(importsKeepToTheTable, around, /leaves the package/);
    assertOne(importsKeepToTheTable, { ...files, [`${src}/core/bad.ts`]: "import './gone.ts';\n" }, /does not exist/);
    assertOne(
      importsKeepToTheTable,
      { ...files, [`${src}/utils/bad.ts`]: '' },
      /the folder utils is not in the import table/,
    );
  });

  it('ignores imports that are only spoken of', () => {
    assertNone(importsKeepToTheTable, { ...files, [`${src}/core/good.ts`]: "// import fs from 'node:fs';\n" });
  });

  it('catches a package that is not declared', () => {
    const declared = {
      'package.json': '{"devDependencies":{"fast-check":"4.11.0"}}',
      'packages/broker/package.json': '{"dependencies":{"fastify":"5.12.8"}}',
      [`${src}/http/http-server.ts`]: "import fastify from 'fastify';\n",
      'tests/a.test.ts': "import fc from 'fast-check';\nimport { LaneClient } from '@lanemq/client';\n",
    };
    assertNone(importsAreDeclared, declared);
    const planted = { ...declared, 'tests/b.test.ts': "import { x } from '@scope/unknown/deep';\n" };
    assertOne(importsAreDeclared, planted, /'@scope\/unknown' is not among the devDependencies/);
  });
});

describe('the rule on pure folders', () => {
  for (const call of [
    'Date.now()',
    'new Date(1)',
    'Math.random()',
    'performance.now()',
    'setTimeout(f, 1)',
    'console.log(1)',
  ]) {
    it(`catches ${call}`, () => {
      assertOne(pureFoldersStayPure, { [`${src}/core/a.ts`]: `\nconst a = ${call};\n` }, /core\/a\.ts:2 .* in core: /);
    });
  }

  it('lets the same pass in comments, in strings and where the host is', () => {
    assertNone(pureFoldersStayPure, {
      [`${src}/core/a.ts`]: "// Date.now()\nconst a = 'Math.random()';\n",
      [`${src}/system/a.ts`]: 'const a = Date.now();\n',
    });
  });

  it('catches a compiler project that lets the host in', () => {
    const path = `${src}/core/tsconfig.json`;
    assertNone(pureFoldersStayPure, { [path]: '{"compilerOptions":{"types": []}}' });
    assertOne(pureFoldersStayPure, { [path]: '{"compilerOptions":{"types": ["node"]}}' }, /"types" must be \[\]/);
  });
});

describe('the rules on texts', () => {
  const later = `${'TO'}${'DO'}`;

  it('catches what is left for later without a reason', () => {
    assertOne(nothingIsLeftForLater, { 'docs/a.md': `a\n${later}: write this\n` }, /docs\/a\.md:2 .*without a reason/);
    assertOne(nothingIsLeftForLater, { 'a.ts': `// ${'FIX'}${'ME'} soon\n` }, /mend it/);
    assertNone(nothingIsLeftForLater, { 'a.ts': `// ${later}(needs the replicated log): forward it to the owner\n` });
  });

  it('catches paths of one machine', () => {
    assertOne(noMachineIsMentioned, { 'docs/a.md': `see /${'work'}/main/docs\n` }, /belongs to one machine/);
    assertOne(noMachineIsMentioned, { 'a.ts': `const a = '/${'root'}/x';\n` }, /belongs to one machine/);
    assertOne(noMachineIsMentioned, { 'a.md': `a ${'helper'}-made page\n` }, /belongs to one machine/);
    assertNone(noMachineIsMentioned, { 'a.md': 'teamwork/play and network/disk\n' });
  });
});

describe('the rules on files', () => {
  const files = {
    'packages/client/src/mod.ts': "export { a } from './a.ts';\n",
    'packages/client/src/a.ts': '',
    [`${src}/server.ts`]: "new Worker(new URL('./worker.js', import.meta.url));\n",
    [`${src}/worker.ts`]: '',
    [`${src}/host.d.ts`]: '',
    'tests/client/a.test.ts': "import './support.ts';\n",
    'tests/client/support.ts': '',
  };

  it('follow imports, threads and processes from the entry points', () => {
    assertNone(noFileIsDead, files);
  });

  it('catches a file that nothing reaches, and one that only its test reaches', () => {
    assertOne(noFileIsDead, { ...files, 'tests/client/old.ts': '' }, /tests\/client\/old\.ts:0 nothing reaches/);
    const onlyTested = {
      ...files,
      'packages/client/src/b.ts': '',
      'tests/client/b.test.ts': "import '../../packages/client/src/b.ts';\n",
    };
    assertOne(noFileIsDead, onlyTested, /client\/src\/b\.ts:0 no entry point of the packages/);
  });

  it('catches a test without a source', () => {
    const mirrored = {
      [`${src}/core/push.ts`]: '',
      'packages/broker/tests/core/push.test.ts': '',
      'scripts/demo/audit.ts': '',
      'tests/demo/audit.test.ts': '',
      'tests/e2e/anything.test.ts': '',
    };
    assertNone(testsMirrorSources, mirrored);
    const planted = { ...mirrored, 'packages/broker/tests/core/pushing.test.ts': '' };
    assertOne(testsMirrorSources, planted, /there is no packages\/broker\/src\/core\/pushing\.ts/);
  });

  it('catches a name that is not kebab-case', () => {
    assertNone(namesAreKebabCase, { 'a/push-route.test.ts': '', 'a/host.d.ts': '', 'README.md': '' });
    assertOne(namesAreKebabCase, { 'a/pushRoute.ts': '' }, /small letters with dashes/);
  });
});

describe('the rules on documents', () => {
  it('makes anchors as hosts of Markdown do', () => {
    assert.equal(anchorOf('What is *not* here (yet)'), 'what-is-not-here-yet');
    assert.equal(anchorOf('`POST /api/v1/push`'), 'post-apiv1push');
  });

  it('catches links that lead nowhere', () => {
    const files = {
      'README.md': '[a](docs/a.md) [b](docs/a.md#two-words) [c](#head) [d](docs) [e](https://example.com)\n# Head\n',
      'docs/a.md': '[up](../README.md)\n## Two words\n```\n[no](link)\n```\n',
    };
    assertNone(linksResolve, files);
    assertOne(
      linksResolve,
      { ...files, 'docs/b.md': 'x\n[a](gone.md)\n' },
      /docs\/b\.md:2 .*docs\/gone\.md, which does not/,
    );
    assertOne(linksResolve, { ...files, 'docs/b.md': '[a](a.md#three)\n' }, /no heading with the anchor #three/);
  });

  it('catches sources that are not there any more', () => {
    const files = {
      'docs/a.md': 'see `core/push.ts`, `core/push-*.ts` and `tests/a.test.ts`\n',
      [`${src}/core/push.ts`]: '',
      'tests/a.test.ts': '',
    };
    assertNone(namedSourcesExist, files);
    assertOne(
      namedSourcesExist,
      { ...files, 'docs/b.md': '\n`core/pull.ts`\n' },
      /docs\/b\.md:2 there is no core\/pull\.ts/,
    );
  });

  it('catches flags that no program has', () => {
    const files = {
      [`${src}/config/option-table.ts`]: "flag: '--data-folder',\n",
      'README.md': 'lanemq serve --data-folder x\n',
    };
    assertNone(flagsExist, files);
    assertOne(flagsExist, { ...files, 'docs/a.md': 'use --data-folders\n' }, /no program here knows --data-folders/);
  });

  it('catches dependencies without a section, sections without a dependency, and loose versions', () => {
    const files = {
      'package.json': '{"devDependencies":{"typescript":"7.0.2"}}',
      'packages/broker/package.json': '{"dependencies":{"fastify":"5.12.8","@lanemq/protocol":"0.1.0"}}',
      'docs/dependencies.md': '### fastify\n\n### typescript\n',
    };
    assertNone(dependenciesAreExplained, files);
    const missing = { ...files, 'docs/dependencies.md': '### typescript\n' };
    assertOne(dependenciesAreExplained, missing, /fastify has no section/);
    const surplus = { ...files, 'docs/dependencies.md': '### fastify\n\n### typescript\n\n### left-pad\n' };
    assertOne(dependenciesAreExplained, surplus, /left-pad is in no package\.json/);
    const loose = { ...files, 'package.json': '{"devDependencies":{"typescript":"^7.0.2"}}' };
    assertOne(dependenciesAreExplained, loose, /name an exact one/);
  });
});
