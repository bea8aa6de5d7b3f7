/** Figures of a run, as a table for people and as JSON for comparisons. */
import type { LatencyFigures } from './latency.ts';

export interface PhaseFigures {
  readonly phase: string;
  readonly messages: number;
  readonly requests: number;
  readonly seconds: number;
  readonly messagesPerSecond: number;
  /** User and system time of the broker process, all its threads. */
  readonly brokerCpuUsPerMessage: number;
  readonly messagesPerBrokerCpuSecond: number;
  /** Cores the broker kept busy. */
  readonly brokerCores: number;
  /** Cores the load kept busy; near 1 it, not the broker, may be the limit. */
  readonly loadCores: number;
  readonly latency: LatencyFigures | null;
  /** null: the broker does not count them. */
  readonly fsyncsPerSecond: number | null;
  readonly rssMb: number;
  readonly rssPeakMb: number;
}

export interface CaseFigures {
  readonly name: string;
  readonly question: string;
  /** What was sent: sizes, connections, batches. */
  readonly shape: Readonly<Record<string, number | string | boolean>>;
  readonly phases: readonly PhaseFigures[];
  /** Figures that belong to no phase. */
  readonly facts: Readonly<Record<string, number>>;
}

const columns: readonly { head: string; cell: (figures: PhaseFigures) => string }[] = [
  { head: 'phase', cell: (f) => f.phase },
  { head: 'messages', cell: (f) => String(f.messages) },
  { head: 'msg/s', cell: (f) => String(Math.round(f.messagesPerSecond)) },
  { head: 'CPU µs/msg', cell: (f) => f.brokerCpuUsPerMessage.toFixed(2) },
  { head: 'msg/s/core', cell: (f) => String(Math.round(f.messagesPerBrokerCpuSecond)) },
  { head: 'broker cores', cell: (f) => f.brokerCores.toFixed(2) },
  { head: 'load cores', cell: (f) => f.loadCores.toFixed(2) },
  { head: 'p50 ms', cell: (f) => f.latency?.p50Ms.toFixed(2) ?? '' },
  { head: 'p99 ms', cell: (f) => f.latency?.p99Ms.toFixed(2) ?? '' },
  { head: 'max ms', cell: (f) => f.latency?.maxMs.toFixed(2) ?? '' },
  { head: 'fsyncs/s', cell: (f) => (f.fsyncsPerSecond === null ? 'n/a' : String(Math.round(f.fsyncsPerSecond))) },
  { head: 'RSS MB', cell: (f) => String(Math.round(f.rssMb)) },
  { head: 'peak MB', cell: (f) => String(Math.round(f.rssPeakMb)) },
];

/** The case as Markdown, so that it can be pasted into docs/benchmarks.md as it is. */
export function caseText(figures: CaseFigures): string {
  const shape = Object.entries(figures.shape).map(([name, value]) => `${name} ${value}`);
  const lines = [`### ${figures.name}: ${figures.question}`, '', shape.join(', '), ''];
  if (figures.phases.length > 0) lines.push(...tableLines(figures.phases), '');
  for (const [name, value] of Object.entries(figures.facts)) lines.push(`- ${name}: ${round(value)}`);
  return lines.join('\n');
}

/** One row per phase, one for all of them when they handled the same messages one after the other. */
export function totalOf(name: string, phases: readonly PhaseFigures[]): PhaseFigures {
  const [first] = phases;
  const last = phases[phases.length - 1];
  const sum = (value: (figures: PhaseFigures) => number) =>
    phases.reduce((total, figures) => total + value(figures), 0);
  const seconds = sum((f) => f.seconds);
  const brokerCpuUs = sum((f) => f.brokerCpuUsPerMessage * f.messages);
  return {
    phase: name,
    messages: first.messages,
    requests: sum((f) => f.requests),
    seconds,
    messagesPerSecond: first.messages / seconds,
    brokerCpuUsPerMessage: brokerCpuUs / first.messages,
    messagesPerBrokerCpuSecond: (first.messages / brokerCpuUs) * 1e6,
    brokerCores: brokerCpuUs / 1e6 / seconds,
    loadCores: sum((f) => f.loadCores * f.seconds) / seconds,
    latency: null,
    fsyncsPerSecond: first.fsyncsPerSecond === null ? null : sum((f) => (f.fsyncsPerSecond ?? 0) * f.seconds) / seconds,
    rssMb: last.rssMb,
    rssPeakMb: last.rssPeakMb,
  };
}

/** One row for rounds that did the same work on different messages. */
export function sumOf(name: string, rounds: readonly PhaseFigures[]): PhaseFigures {
  const total = totalOf(name, rounds);
  const messages = rounds.reduce((sum, figures) => sum + figures.messages, 0);
  const factor = messages / total.messages;
  return {
    ...total,
    messages,
    messagesPerSecond: total.messagesPerSecond * factor,
    brokerCpuUsPerMessage: total.brokerCpuUsPerMessage / factor,
    messagesPerBrokerCpuSecond: total.messagesPerBrokerCpuSecond * factor,
  };
}

function tableLines(phases: readonly PhaseFigures[]): string[] {
  const rows = [columns.map((column) => column.head), ...phases.map((figures) => columns.map((c) => c.cell(figures)))];
  const widths = columns.map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(rows[0]), rule, ...rows.slice(1).map(line)];
}

function round(value: number): string {
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
}
