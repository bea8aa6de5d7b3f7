/** What may stand in sources and texts. */
import { partOf, pureParts } from './import-rules.ts';
import { sourceText } from './source-text.ts';
import { type Finding, lineAt, type Rule } from './tree.ts';

interface Banned {
  readonly pattern: RegExp;
  readonly instead: string;
}

const clock = 'time is given to it: take nowUs from the decision, or the Clock port';
const chance = 'chance is given to it: use the Random port';
const timers = 'it does not wait by itself: use the Scheduler port';

/** Of the language or of the host; the compiler cannot forbid the first kind, and the second only where types are off. */
const bannedInPureParts: readonly Banned[] = [
  { pattern: /\bDate\s*\.\s*now\b/g, instead: clock },
  { pattern: /\bnew\s+Date\s*\(/g, instead: clock },
  { pattern: /\bperformance\s*\.\s*now\b/g, instead: clock },
  { pattern: /\bMath\s*\.\s*random\b/g, instead: chance },
  { pattern: /\b(?:setTimeout|setInterval|setImmediate|queueMicrotask)\s*\(/g, instead: timers },
  { pattern: /\bconsole\s*\./g, instead: 'return what happened, or take a log function' },
  { pattern: /\bprocess\s*\./g, instead: 'take what you need as an argument from the composition root' },
  { pattern: /\bBuffer\s*[.(]/g, instead: 'use Uint8Array and DataView' },
];

/** Pure folders ask nobody for time, chance, timers or output. */
export const pureFoldersStayPure: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    const part = partOf(path);
    if (part === undefined || !pureParts.includes(part)) continue;
    if (path.endsWith('/tsconfig.json')) {
      if (/"types":\s*\[\s*\]/.test(text)) continue;
      findings.push({ path, line: 0, message: `"types" must be [] so that the host does not exist in ${part}` });
    } else if (path.endsWith('.ts')) {
      const { bare } = sourceText(text);
      for (const { pattern, instead } of bannedInPureParts) {
        for (const match of bare.matchAll(pattern)) {
          const name = match[0].replace(/\s+/g, ' ').replace(/[.(]$/, '');
          findings.push({ path, line: lineAt(bare, match.index), message: `${name} in ${part}: ${instead}` });
        }
      }
    }
  }
  return findings;
};

/** Written in two pieces, so that this file is not found by its own rule. */
const fixMark = new RegExp(`\\b${'FIX'}${'ME'}\\b|\\b${'XX'}${'X'}\\b`, 'g');
const laterMark = new RegExp(`\\b${'TO'}${'DO'}\\b(\\([^)\\n]{8,}\\): \\S)?`, 'g');

/** Nothing is left for later without a reason. */
export const nothingIsLeftForLater: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    if (path === 'package-lock.json') continue;
    for (const match of text.matchAll(fixMark)) {
      findings.push({ path, line: lineAt(text, match.index), message: `${match[0]}: mend it before it goes in` });
    }
    for (const match of text.matchAll(laterMark)) {
      if (match[1] !== undefined) continue;
      const message = `${match[0]} without a reason: do it, or write what has to exist first in brackets behind the word`;
      findings.push({ path, line: lineAt(text, match.index), message });
    }
  }
  return findings;
};

/** In pieces for the same reason. Folders of the machines on which this was written, and words about how it was. */
const machineWords: readonly RegExp[] = [
  new RegExp(`/${'work'}/`, 'g'),
  new RegExp(`/${'tmp'}/${'brief'}`, 'g'),
  new RegExp(`/${'root'}/`, 'g'),
  new RegExp(`/${'home'}/[a-z]`, 'g'),
  new RegExp(`\\b${'helper'}-`, 'g'),
];

/** The tree says nothing about the machine it was written on. */
export const noMachineIsMentioned: Rule = (tree) => {
  const findings: Finding[] = [];
  for (const [path, text] of tree) {
    if (path === 'package-lock.json') continue;
    for (const pattern of machineWords) {
      for (const match of text.matchAll(pattern)) {
        const message = `'${match[0]}' belongs to one machine: use a path relative to the repository, or a word that readers know`;
        findings.push({ path, line: lineAt(text, match.index), message });
      }
    }
  }
  return findings;
};
