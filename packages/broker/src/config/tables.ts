/** The option table as people read it: the help text of `serve`, and docs/options.md. */

import type { OptionFacts } from './option-table.ts';
import { optionRows } from './parse.ts';
import { boundsText, defaultText } from './values.ts';

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines;
}

function helpEntry(facts: OptionFacts): string {
  const variables = [facts.variable, ...(facts.alias === undefined ? [] : [facts.alias])].join(', ');
  const lines = [
    `  ${facts.flag} <${facts.kind}>`,
    ...wrap(facts.meaning, 84).map((line) => `      ${line}`),
    `      ${boundsText(facts)}; default ${defaultText(facts)}; ${variables}`,
  ];
  return lines.join('\n');
}

/** One paragraph per option, for the terminal. */
export function optionsHelp(): string {
  return optionRows.map(([, facts]) => helpEntry(facts)).join('\n');
}

function code(text: string): string {
  return `\`${text}\``;
}

/** The rows of the option table in Markdown. */
export function optionsMarkdown(): string {
  const lines = ['| Option | Variable | Values | Default | Meaning |', '|---|---|---|---|---|'];
  for (const [, facts] of optionRows) {
    const variables = code(facts.variable) + (facts.alias === undefined ? '' : `, ${code(facts.alias)}`);
    lines.push(
      `| ${code(facts.flag)} | ${variables} | ${boundsText(facts)} | ${code(defaultText(facts))} | ${facts.meaning} |`,
    );
  }
  return `${lines.join('\n')}\n`;
}
