/** `lanemq inspect` and `lanemq verify`: look at a data folder without a broker, and without writing to it. */

import { recordType } from '../codec/mod.ts';
import type { LogReport } from '../storage/offline.ts';
import { type FlagFacts, readFlags } from './arguments.ts';
import { type ExitCode, exitCode, failureText, type Terminal } from './terminal.ts';

/** What `verify` found. */
export interface FolderReport {
  readonly log: LogReport;
  /** What is wrong beyond damage of the log, one sentence each: state that breaks its rules, snapshots that do not fit. */
  readonly problems: readonly string[];
  /** Of the state that replaying the log gives: equal for equal states. */
  readonly stateHash: string;
}

export type InspectFolder = (folder: string) => Promise<LogReport>;
export type VerifyFolder = (folder: string) => Promise<FolderReport>;

export const inspectFlags: readonly FlagFacts[] = [
  { flag: '--data', value: 'folder', required: true, meaning: 'The data folder. A running broker may hold it.' },
  { flag: '--json', meaning: 'Print one JSON object.' },
];

export const verifyFlags: readonly FlagFacts[] = [
  { flag: '--data', value: 'folder', required: true, meaning: 'The data folder. No broker should be writing to it.' },
];

const typeNames: ReadonlyMap<number, string> = new Map(Object.entries(recordType).map(([name, type]) => [type, name]));

function time(us: number): string {
  return us === 0 ? '-' : new Date(us / 1000).toISOString();
}

function recordsText(report: LogReport): string {
  const parts = [...report.recordsByType].sort(([a], [b]) => a - b);
  return parts.map(([type, count]) => `${count} ${typeNames.get(type) ?? `of type ${type}`}`).join(', ');
}

function summary(report: LogReport): string[] {
  const lines = [
    `${report.segments.length} segments, ${report.entries} entries of ${report.entryBytes} bytes, ` +
      `last sequence ${report.lastSequence}, tail ${report.tail}`,
    `records: ${recordsText(report) || 'none'}`,
    report.cleanlyClosed ? 'closed cleanly' : 'not closed cleanly, or still open',
  ];
  for (const { base, end } of report.gaps) {
    lines.push(
      `nothing is left of the log from address ${base} to ${end}: reclaimed, if \`lanemq verify\` does not complain`,
    );
  }
  if (report.unfinishedBytes > 0) {
    lines.push(`${report.unfinishedBytes} bytes of an unfinished write at the end; the next start cuts them off`);
  }
  return lines;
}

function segmentLines(report: LogReport): string[] {
  return report.segments.map(
    (segment) =>
      `${segment.path}  ${segment.sealed ? 'sealed' : 'open  '}  ${segment.entries} entries, ${segment.records} records, ` +
      `${segment.entryBytes} bytes, sequence ${segment.firstSequence} to ${segment.lastSequence}, ` +
      `${time(segment.firstStampUs)} to ${time(segment.lastStampUs)}`,
  );
}

function damageLines(report: LogReport): string[] {
  return report.damage.map(({ segment, address, reason }) => `DAMAGE in ${segment} at address ${address}: ${reason}`);
}

function usage(command: string, errors: readonly string[], terminal: Terminal): ExitCode {
  for (const error of errors) terminal.err(`lanemq ${command}: ${error}`);
  terminal.err(`Run \`lanemq ${command} --help\` for the options.`);
  return exitCode.usage;
}

/** Prints what the log holds, damaged or not; exit code 1 when it is damaged. */
export async function inspect(
  args: readonly string[],
  terminal: Terminal,
  inspectFolder: InspectFolder,
): Promise<ExitCode> {
  const flags = readFlags(args, inspectFlags);
  if (!flags.ok) return usage('inspect', flags.errors, terminal);
  let report: LogReport;
  try {
    report = await inspectFolder(flags.values.get('--data') ?? '');
  } catch (error) {
    terminal.err(`lanemq inspect: ${failureText(error)}`);
    return exitCode.failed;
  }
  if (flags.values.has('--json')) {
    const recordsByType = Object.fromEntries(
      [...report.recordsByType].map(([type, count]) => [typeNames.get(type) ?? String(type), count]),
    );
    terminal.out(JSON.stringify({ ...report, recordsByType }));
  } else {
    for (const line of [...segmentLines(report), ...summary(report), ...damageLines(report)]) terminal.out(line);
  }
  return report.damage.length === 0 ? exitCode.done : exitCode.failed;
}

/** Checks everything that can be checked and says what is wrong; exit code 1 when something is. */
export async function verify(
  args: readonly string[],
  terminal: Terminal,
  verifyFolder: VerifyFolder,
): Promise<ExitCode> {
  const flags = readFlags(args, verifyFlags);
  if (!flags.ok) return usage('verify', flags.errors, terminal);
  let report: FolderReport;
  try {
    report = await verifyFolder(flags.values.get('--data') ?? '');
  } catch (error) {
    terminal.err(`lanemq verify: ${failureText(error)}`);
    return exitCode.failed;
  }
  for (const line of summary(report.log)) terminal.out(line);
  terminal.out(`state hash ${report.stateHash}`);
  const wrong = [...damageLines(report.log), ...report.problems.map((problem) => `PROBLEM: ${problem}`)];
  for (const line of wrong) terminal.err(line);
  terminal.out(wrong.length === 0 ? 'nothing is wrong' : `${wrong.length} things are wrong`);
  return wrong.length === 0 ? exitCode.done : exitCode.failed;
}
