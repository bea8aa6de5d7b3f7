/** Our own rules on the tree. Each failure says what to do instead; tests/tidy/rules.test.ts proves that they catch. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { dependenciesAreExplained, flagsExist, linksResolve, namedSourcesExist } from './tidy/document-rules.ts';
import { namesAreKebabCase, noFileIsDead, testsMirrorSources } from './tidy/file-rules.ts';
import { importsAreDeclared, importsKeepToTheTable } from './tidy/import-rules.ts';
import { noMachineIsMentioned, nothingIsLeftForLater, pureFoldersStayPure } from './tidy/source-rules.ts';
import { findingText, type Rule, readTree } from './tidy/tree.ts';

const rules: Readonly<Record<string, Rule>> = {
  'imports keep to the table': importsKeepToTheTable,
  'imported packages are declared': importsAreDeclared,
  'pure folders ask nobody for time, chance, timers or output': pureFoldersStayPure,
  'nothing is left for later without a reason': nothingIsLeftForLater,
  'nothing mentions the machine it was written on': noMachineIsMentioned,
  'every source is reached from an entry point': noFileIsDead,
  'every test mirrors a source or stands in a suite': testsMirrorSources,
  'files are named in kebab-case': namesAreKebabCase,
  'links between documents resolve': linksResolve,
  'sources named in documents exist': namedSourcesExist,
  'flags in documents exist': flagsExist,
  'every dependency is explained, and nothing else': dependenciesAreExplained,
};

describe('the tree is tidy', () => {
  const tree = readTree(fileURLToPath(new URL('../../', import.meta.url)));
  for (const [promise, rule] of Object.entries(rules)) {
    it(promise, () => {
      const findings = rule(tree).map(findingText);
      assert.equal(findings.length, 0, `\n${findings.join('\n')}\n`);
    });
  }
});
