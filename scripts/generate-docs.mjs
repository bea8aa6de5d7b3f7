/**
 * Writes the documents that are made of tables in the code: docs/errors.md and docs/options.md.
 *
 *   node scripts/generate-docs.mjs           writes them
 *   node scripts/generate-docs.mjs --check   fails when a file is not what would be written
 *
 * Needs a build. A test runs the check, so that tables and documents stay equal.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { optionsMarkdown } from '../packages/broker/dist/src/config/mod.js';
import { errorTable, limits, queueOptionTable } from '../packages/protocol/dist/mod.js';

const notice = '<!-- Made by scripts/generate-docs.mjs from tables in the code. Edit those. -->';

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
}

function errorsPage() {
  const rows = Object.entries(errorTable).map(([code, { status, retriable, meaning }]) => [
    `\`${code}\``,
    status,
    retriable ? 'yes' : 'no',
    meaning,
  ]);
  return `${notice}

# Errors

Every refusal has a status and, in its JSON body, \`error\` (for people; may be reworded) and \`code\` (for programs;
keeps its meaning for ever). A body of a successful answer has no \`error\` on its top level; an extension that renewed no lease says \`success: false\` and why.

${table(['Code', 'Status', 'Send again?', 'Meaning'], rows)}

- "Send again" means unchanged, after the \`Retry-After\` header when there is one: 1 second with 503 and 507, 1 to 5 at
  random with \`overloaded\`. Answers that are not to be sent again will be refused again.
- \`outcome_unknown\` and \`internal\` may have been done. Pushes with a transactionId and acks with their leaseId can be
  repeated without harm; a repeat of anything else may do it twice.
- A body over the limit is answered 413 in plain text, and the connection is closed: the rest of it is not read.
- A pop answers 400 as \`{"success":false,"error":…,"messages":[]}\`, without a code.
- Replays and deletions of dead letters that find none (404), and replays whose push was refused (409), have no \`code\`:
  \`result\` and \`reason\` say it ([dead letters](api.md#replaying-and-deleting-dead-letters)).
- \`name_too_long\` has status 400 where it is about a trace.
- Under \`/queue/v1\` and \`/graph/v3\` the body is \`{"timestamp","status","error","message"}\`, where \`error\` is the phrase of the status
  ([queue/v1](queue-v1.md#conventions)). The client finds the code by the status; a 503 is \`outcome_unknown\` to it.
- What is not HTTP is answered 400, 408 (too slow) or 431 (headers too large) with code \`bad_request\`, and the
  connection is closed.
`;
}

function defaultOf({ type, default: value }) {
  return type === 'text' && value === '' ? '`""`' : `\`${value}\``;
}

function valuesOf({ type, min, max }) {
  return type === 'integer' ? `${min} to ${max}` : type === 'boolean' ? 'true or false' : 'text';
}

function optionsPage() {
  const queueRows = Object.entries(queueOptionTable).map(([name, facts]) => [
    `\`${name}\``,
    valuesOf(facts),
    defaultOf(facts),
    facts.meaning,
  ]);
  const limitRows = Object.entries(limits).map(([name, value]) => [`\`${name}\``, value]);
  return `${notice}

# Options

## Of the broker

For \`lanemq serve\`. An option comes from its flag, else from its variables in the order given, else from its default.
Unknown flags and values out of bounds are refused. Bytes may be written with KiB, MiB or GiB.

${optionsMarkdown()}
## Of a queue

Set by \`POST /api/v1/configure\`; \`null\` is the default. \`maxQueueSize\` is a second name of \`maxSize\`. Unknown names
are ignored; values out of bounds are refused, but for \`minPopWaitTime\`, which is clamped.

${table(['Option', 'Values', 'Default', 'Meaning'], queueRows)}

## Fixed limits

Of the contract; those that an option can change are the option's default.

${table(['Limit', 'Value'], limitRows)}
`;
}

const pages = { 'docs/errors.md': errorsPage(), 'docs/options.md': optionsPage() };
const root = new URL('../', import.meta.url);
const isCheck = process.argv.includes('--check');

function current(path) {
  try {
    return readFileSync(new URL(path, root), 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return '';
    throw error;
  }
}

const stale = Object.entries(pages).filter(([path, text]) => current(path) !== text);
for (const [path, text] of stale) {
  if (isCheck) process.stderr.write(`${path} is not what the tables say; run node scripts/generate-docs.mjs\n`);
  else writeFileSync(new URL(path, root), text);
}
process.exitCode = isCheck && stale.length > 0 ? 1 : 0;
