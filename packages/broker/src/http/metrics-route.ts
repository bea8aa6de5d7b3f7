/** GET /metrics (JSON) and /metrics/prometheus (text exposition 0.0.4). */

import type { Exchange } from './exchange.ts';
import { engineMetrics, type HttpMetricName, httpMetrics, type MetricFacts } from './metrics-table.ts';
import type { Services } from './services.ts';

const prometheusType = 'text/plain; version=0.0.4; charset=utf-8';

function httpValues(services: Services): Record<HttpMetricName, number> {
  const { counters, supervisor, pushAdmission } = services;
  const memory = process.memoryUsage();
  const cpu = process.cpuUsage();
  return {
    uptimeSeconds: Math.round(process.uptime()),
    ...counters,
    readersCut: supervisor.readersCut,
    openConnections: services.openConnections,
    workingRequests: supervisor.working,
    unsentAnswerBytes: supervisor.unsentBytes,
    admittedBytes: pushAdmission.bytesInUse,
    admissionWaiting: pushAdmission.waiting,
    residentBytes: memory.rss,
    heapUsedBytes: memory.heapUsed,
    externalBytes: memory.external,
    cpuUserSeconds: cpu.user / 1e6,
    cpuSystemSeconds: cpu.system / 1e6,
  };
}

/** The engine's figures lie beside those of the process; the groups are the ones that clients of this API read. */
export function answerMetrics(exchange: Exchange): void {
  const { services } = exchange;
  const values = httpValues(services);
  const health = services.engine.health();
  exchange.answerValue(200, {
    uptime: values.uptimeSeconds,
    requests: {
      push: values.pushRequests,
      pop: values.popRequests,
      ack: values.ackRequests,
      other: values.otherRequests,
      answers: Object.fromEntries(services.answers),
    },
    memory: { rss: values.residentBytes, heapUsed: values.heapUsedBytes, external: values.externalBytes },
    raft: {
      role: 'leader',
      leader: true,
      term: health.epoch,
      applied: health.sequence,
      commit: health.durableSequence,
      lag: Math.max(0, health.sequence - health.durableSequence),
    },
    http: values,
    ...services.engine.metrics(),
  });
}

/** `camelCaseName` as `camel_case_name`. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).replace(/[^a-z0-9_]/g, '_');
}

function exposition(name: string, facts: MetricFacts, samples: readonly string[]): string {
  const full = `lanemq_${snakeCase(name)}${facts.kind === 'counter' ? '_total' : ''}`;
  const lines = samples.map((sample) => full + sample);
  return `# HELP ${full} ${facts.meaning}\n# TYPE ${full} ${facts.kind}\n${lines.join('\n')}\n`;
}

export function answerPrometheus(exchange: Exchange): void {
  const { services } = exchange;
  const parts: string[] = [];
  for (const [name, value] of Object.entries(httpValues(services))) {
    parts.push(exposition(name, httpMetrics[name as HttpMetricName], [` ${value}`]));
  }
  const answers = [...services.answers].map(([status, count]) => `{status="${status}"} ${count}`);
  if (answers.length > 0)
    parts.push(exposition('answers', { kind: 'counter', meaning: 'Answers by status.' }, answers));
  for (const [name, value] of Object.entries(services.engine.metrics())) {
    const facts = engineMetrics[name] ?? { kind: 'gauge', meaning: `Figure ${name} of the engine.` };
    parts.push(exposition(name, facts, [` ${value}`]));
  }
  exchange.answerText(200, prometheusType, parts.join(''));
}
