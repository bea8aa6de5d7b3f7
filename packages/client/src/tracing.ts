/**
 * Spans of OpenTelemetry around pushes and handlers, with the API that the program brings. The context of a push travels
 * in the headers of its messages; the span of a handler is linked with the pushes of what it handles, because a batch may
 * come from many.
 */
import type { MessageHeaders } from './wire.ts';

/** Whatever the API uses as a context. */
type Context = object;

interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
}

type Attributes = Record<string, string | number>;

/** The part of a span that is used. */
export interface TracingSpan {
  /** Adds attributes. */
  setAttributes(attributes: Attributes): unknown;
  /** 2 is an error. */
  setStatus(status: { code: number; message?: string }): unknown;
  /** Adds the event of an error. */
  recordException(error: Error): unknown;
  /** Ends it. */
  end(): void;
}

/** The part of `@opentelemetry/api` that is used: pass the module itself. */
export interface TracingApi {
  /** Spans. */
  readonly trace: {
    getTracer(name: string): {
      startSpan(
        name: string,
        options: { kind: number; attributes: Attributes; links: { context: SpanContext }[] },
        // biome-ignore lint/suspicious/noExplicitAny: the contexts of the API are of a type of its own
        context: any,
      ): TracingSpan;
    };
    // biome-ignore lint/suspicious/noExplicitAny: as above
    setSpan(context: any, span: any): any;
    // biome-ignore lint/suspicious/noExplicitAny: as above
    getSpanContext(context: any): SpanContext | undefined;
  };
  /** The active context. */
  readonly context: {
    active(): Context;
    // biome-ignore lint/suspicious/noExplicitAny: as above
    with<Result>(context: any, run: () => Result): Result;
  };
  /** Contexts in headers. */
  readonly propagation: {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    inject(context: any, carrier: Record<string, string>): void;
    // biome-ignore lint/suspicious/noExplicitAny: as above
    extract(context: any, carrier: MessageHeaders): any;
  };
}

/** Numbers of the API's enums; they are part of its contract. */
const spanKind = { producer: 3, consumer: 4 } as const;
const statusError = 2;

/** What a span is about. */
export interface SpanSubject {
  readonly queue: string;
  readonly partition: string | null;
  readonly group?: string | null;
  readonly count: number;
}

export class Tracing {
  readonly #api: TracingApi;
  readonly #tracer: ReturnType<TracingApi['trace']['getTracer']>;

  constructor(api: TracingApi) {
    this.#api = api;
    this.#tracer = api.trace.getTracer('@lanemq/client');
  }

  /** Runs a push inside a span; `headers` go with every message of it. */
  async push<Result>(subject: SpanSubject, run: (headers: MessageHeaders) => Promise<Result>): Promise<Result> {
    const span = this.#start('send', spanKind.producer, subject, []);
    const context = this.#api.trace.setSpan(this.#api.context.active(), span);
    const headers: Record<string, string> = {};
    this.#api.propagation.inject(context, headers);
    return await this.#inside(span, context, () => run(headers));
  }

  /** Runs a handler inside a span that is linked with the pushes of its messages. */
  async process<Result>(
    subject: SpanSubject,
    messages: readonly { readonly headers?: MessageHeaders }[],
    run: () => Result | Promise<Result>,
  ): Promise<Result> {
    const active = this.#api.context.active();
    const links = [];
    for (const { headers } of messages) {
      if (headers === undefined) continue;
      const pushed = this.#api.trace.getSpanContext(this.#api.propagation.extract(active, headers));
      if (pushed !== undefined) links.push({ context: pushed });
    }
    const span = this.#start('process', spanKind.consumer, subject, links);
    return await this.#inside(span, this.#api.trace.setSpan(active, span), run);
  }

  #start(operation: string, kind: number, subject: SpanSubject, links: { context: SpanContext }[]): TracingSpan {
    const { queue, partition, group, count } = subject;
    const attributes: Attributes = {
      'messaging.system': 'lanemq',
      'messaging.operation.name': operation,
      'messaging.operation.type': operation,
      'messaging.destination.name': queue,
      'messaging.batch.message_count': count,
    };
    if (partition !== null) attributes['messaging.destination.partition.id'] = partition;
    if (group != null) attributes['messaging.consumer.group.name'] = group;
    return this.#tracer.startSpan(`${operation} ${queue}`, { kind, attributes, links }, this.#api.context.active());
  }

  async #inside<Result>(span: TracingSpan, context: Context, run: () => Result | Promise<Result>): Promise<Result> {
    try {
      return await this.#api.context.with(context, run);
    } catch (error) {
      const fault = error instanceof Error ? error : new Error(String(error));
      span.recordException(fault);
      span.setStatus({ code: statusError, message: fault.message });
      throw error;
    } finally {
      span.end();
    }
  }
}
