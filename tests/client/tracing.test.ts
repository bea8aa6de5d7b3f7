/** Spans of pushes and handlers, recorded by OpenTelemetry itself. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient } from '@lanemq/client';
import * as api from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { BrokerProcess } from '../e2e/broker-process.ts';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
let broker: BrokerProcess;
let client: LaneClient;

before(async () => {
  provider.register();
  broker = await BrokerProcess.start();
  client = new LaneClient({ url: broker.url, tracing: api });
});

after(async () => {
  await client.close();
  await broker.dispose();
  await provider.shutdown();
});

function spansNamed(name: string) {
  return exporter.getFinishedSpans().filter((span) => span.name === name);
}

test('a push and the handler of its message are spans, linked through the headers of the message', async () => {
  const queue = client.queue<number>('traced').group('g').subscriptionMode('all');
  const tracer = api.trace.getTracer('test');
  await tracer.startActiveSpan('request', async (span) => {
    await queue.partition('p').push([{ payload: 1, headers: { tenant: 'a' } }, 2]);
    span.end();
  });
  const headers: unknown[] = [];
  const traceIds: (string | undefined)[] = [];
  await queue.limit(2).consume((messages) => {
    headers.push(...messages.map((message) => message.headers));
    traceIds.push(api.trace.getActiveSpan()?.spanContext().traceId);
  });

  const [request] = spansNamed('request');
  const [send] = spansNamed('send traced');
  assert.equal(send.parentSpanContext?.spanId, request.spanContext().spanId);
  assert.equal(send.kind, api.SpanKind.PRODUCER);
  assert.equal(send.attributes['messaging.batch.message_count'], 2);
  const traceparent = `00-${send.spanContext().traceId}-${send.spanContext().spanId}-01`;
  assert.deepEqual(headers, [{ traceparent, tenant: 'a' }, { traceparent }]);

  const [process] = spansNamed('process traced');
  assert.equal(process.kind, api.SpanKind.CONSUMER);
  assert.equal(process.attributes['messaging.consumer.group.name'], 'g');
  assert.equal(process.attributes['messaging.destination.partition.id'], 'p');
  assert.deepEqual(
    process.links.map(({ context }) => context.spanId),
    [send.spanContext().spanId, send.spanContext().spanId],
  );
  assert.deepEqual(traceIds, [process.spanContext().traceId]);
});

test('the span of a handler that throws has its error', async () => {
  const queue = client.queue<number>('traced-errors').each().limit(1);
  await queue.push(1);
  await queue.consume(
    () => {
      throw new Error('cannot digest');
    },
    { onTrouble: () => {} },
  );
  const [process] = spansNamed('process traced-errors');
  assert.equal(process.status.code, api.SpanStatusCode.ERROR);
  assert.equal(process.events[0].name, 'exception');
});
