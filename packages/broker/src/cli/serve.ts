/** `lanemq serve`: a broker until it is told to stop. */

import {
  type BrokerConfig,
  type Environment,
  type LogLevel,
  type LogLine,
  optionTable,
  parseConfig,
} from '../config/mod.ts';
import { type ExitCode, exitCode, failureText, type Terminal } from './terminal.ts';

/** A running broker, as the command sees it. */
export interface RunningBroker {
  readonly url: string;
  /** What was found in the data folder, in words. */
  readonly recovered?: string;
  /** Finishes what is in flight and closes the log. */
  stop(): Promise<void>;
}

export type StartBroker = (config: BrokerConfig, log: (line: LogLine) => void) => Promise<RunningBroker>;

const levels: readonly LogLevel[] = optionTable.logLevel.choices;

function logTo(terminal: Terminal, level: LogLevel): (line: LogLine) => void {
  const least = levels.indexOf(level);
  return (line) => {
    if (levels.indexOf(line.level) > least) return;
    terminal.err(`${new Date().toISOString()} ${line.level} ${line.text}`);
  };
}

function startUpLine(version: string, config: BrokerConfig, broker: RunningBroker): string {
  const facts = [
    `data folder ${config.dataFolder}`,
    ...(broker.recovered === undefined ? [] : [broker.recovered]),
    `encryption ${config.encryptionKey === null ? 'off' : 'on'}`,
    `new groups start at ${config.defaultSubscriptionMode}`,
  ];
  return `lanemq ${version} listening on ${broker.url} (${facts.join('; ')})`;
}

/** Resolves with the first SIGTERM or SIGINT. A second one ends the process at once, whatever is still being done. */
function stopSignal(terminal: Terminal): Promise<string> {
  return new Promise((resolve) => {
    let signals = 0;
    const onSignal = (signal: string) => {
      signals++;
      if (signals === 1) {
        resolve(signal);
        return;
      }
      terminal.err(`${signal} again: ending without waiting`);
      process.exit(exitCode.failed);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

/** Runs until a signal; the result is the exit code. */
export async function serve(
  args: readonly string[],
  environment: Environment,
  terminal: Terminal,
  version: string,
  startBroker: StartBroker,
): Promise<ExitCode> {
  const parsed = parseConfig(args, environment);
  if (!parsed.ok) {
    for (const error of parsed.errors) terminal.err(`lanemq serve: ${error}`);
    terminal.err('Run `lanemq serve --help` for the options.');
    return exitCode.usage;
  }
  const { config } = parsed;
  const log = logTo(terminal, config.logLevel);
  for (const text of parsed.warnings) log({ level: 'warn', text });
  const stopped = stopSignal(terminal);
  let broker: RunningBroker;
  try {
    broker = await startBroker(config, log);
  } catch (error) {
    terminal.err(`lanemq serve: ${failureText(error)}`);
    return exitCode.failed;
  }
  terminal.out(startUpLine(version, config, broker));
  if (parsed.sources.length > 0) log({ level: 'info', text: `options: ${parsed.sources.join(', ')}` });
  const signal = await stopped;
  log({ level: 'info', text: `${signal}: stopping` });
  try {
    await broker.stop();
  } catch (error) {
    terminal.err(`lanemq serve: could not stop cleanly: ${failureText(error)}`);
    return exitCode.failed;
  }
  log({ level: 'info', text: 'stopped' });
  return exitCode.done;
}
