/** The worker processes of the demo as their parent sees them. */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { AuditedEvent } from './audit.ts';
import { nowNs, type ParentMessage, type WorkerMessage, type WorkerTask } from './events.ts';

/** Where the news of all workers go. */
export interface WorkerNews {
  onEvents(events: readonly AuditedEvent[]): void;
  onTrouble(worker: string, text: string): void;
}

export interface Worker {
  readonly name: string;
  readonly ready: Promise<void>;
  /** Resolves when the worker hangs in its handler. */
  readonly holding: Promise<void>;
  /** Lets the running handler end; resolves with the words read once the process is gone. */
  stop(): Promise<number>;
  /** SIGKILL. Resolves, with the moment of the end, once the process is gone. */
  kill(): Promise<number>;
}

const workerFile = fileURLToPath(new URL('./worker.js', import.meta.url));

/** `ready` and `holding` reject when the process ends before. */
export function startWorker(task: WorkerTask, news: WorkerNews): Worker {
  const child = fork(workerFile, [JSON.stringify(task)]);
  const ready = newGate();
  const holding = newGate();
  const ended = newGate();
  let words = 0;
  let expected = false;
  child.on('message', (message: WorkerMessage) => {
    switch (message.type) {
      case 'ready':
        ready.open();
        break;
      case 'holding':
        holding.open();
        break;
      case 'events':
        news.onEvents(message.events.map((event) => ({ ...event, group: task.group, worker: task.worker })));
        break;
      case 'trouble':
        news.onTrouble(task.worker, message.text);
        break;
      case 'finished':
        words = message.words;
        break;
    }
  });
  child.on('exit', (code, signal) => {
    const reason = new Error(`worker ${task.worker} ended with ${signal ?? `code ${code}`}`);
    ready.fail(reason);
    holding.fail(reason);
    if (!expected) news.onTrouble(task.worker, reason.message);
    news.onEvents([{ kind: 'died', atNs: nowNs(), group: task.group, worker: task.worker }]);
    ended.open();
  });
  return {
    name: task.worker,
    ready: ready.passed,
    holding: holding.passed,
    async stop() {
      expected = true;
      send(child, { type: 'stop' });
      await ended.passed;
      return words;
    },
    async kill() {
      expected = true;
      child.kill('SIGKILL');
      await ended.passed;
      return nowNs();
    },
  };
}

function send(child: ChildProcess, message: ParentMessage): void {
  if (child.connected) child.send(message);
}

interface Gate {
  readonly passed: Promise<void>;
  open(): void;
  fail(reason: Error): void;
}

function newGate(): Gate {
  let open = () => {};
  let fail = (_reason: Error) => {};
  const passed = new Promise<void>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  // Whoever awaits the gate learns of the failure; a gate that nobody awaits must not end the process.
  passed.catch(() => {});
  return { passed, open, fail };
}
