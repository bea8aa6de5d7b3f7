/** What the parts of one client share. */
import type { BufferManager } from './buffer.ts';
import type { Log } from './log.ts';
import type { Tracing } from './tracing.ts';
import type { Transport } from './transport.ts';

export interface ClientContext {
  readonly transport: Transport;
  readonly log: Log;
  /** null: no tracer was given. */
  readonly tracing: Tracing | null;
  readonly buffers: BufferManager;
  /** What a pop is when `autopilot()` was not called. */
  readonly autopilotDefault: boolean;
  /** Queues and groups for which a conflation conflict was told. */
  readonly warnedConflicts: Set<string>;
  /** Makes `close` wait for this work; `stop` asks it to end. Returns the function that says it is over. */
  readonly track: (stop: () => void) => () => void;
}
