/** The command line: which command, its help, and its exit code. */

import { closestName, type Environment, optionsHelp } from '../config/mod.ts';
import { flagsHelp } from './arguments.ts';
import { type InspectFolder, inspect, inspectFlags, type VerifyFolder, verify, verifyFlags } from './offline.ts';
import { type StartBroker, serve } from './serve.ts';
import { type ExitCode, exitCode, type Terminal } from './terminal.ts';

/** What the commands do their work with. */
export interface Tools {
  readonly version: string;
  readonly startBroker: StartBroker;
  readonly inspectFolder: InspectFolder;
  readonly verifyFolder: VerifyFolder;
}

interface Invocation {
  readonly args: readonly string[];
  readonly environment: Environment;
  readonly terminal: Terminal;
  readonly tools: Tools;
}

interface Command {
  readonly name: string;
  readonly summary: string;
  /** Everything below the usage line. */
  readonly help: () => string;
  readonly run: (invocation: Invocation) => Promise<ExitCode>;
}

const commands: readonly Command[] = [
  {
    name: 'serve',
    summary: 'Run a broker on a data folder.',
    help: () =>
      'An option comes from its flag, else from its variables, else from its default.\n' +
      `SIGTERM and SIGINT stop the broker cleanly.\n\nOptions:\n${optionsHelp()}`,
    run: ({ args, environment, terminal, tools }) =>
      serve(args, environment, terminal, tools.version, tools.startBroker),
  },
  {
    name: 'inspect',
    summary: 'Show what the log of a data folder holds.',
    help: () =>
      `Reads only, also on a damaged log. Exit code 1 when there is damage.\n\nOptions:\n${flagsHelp(inspectFlags)}`,
    run: ({ args, terminal, tools }) => inspect(args, terminal, tools.inspectFolder),
  },
  {
    name: 'verify',
    summary: 'Check a data folder and name what is damaged.',
    help: () =>
      'Reads everything and checks every checksum; writes nothing. Exit code 1 when something is wrong.\n\n' +
      `Options:\n${flagsHelp(verifyFlags)}`,
    run: ({ args, terminal, tools }) => verify(args, terminal, tools.verifyFolder),
  },
];

function overview(): string {
  const rows = commands.map(({ name, summary }) => `  ${name.padEnd(10)}${summary}`);
  return [
    'Usage: lanemq <command> [options]',
    '',
    'A durable message broker in which every entity has its own ordered lane.',
    '',
    'Commands:',
    ...rows,
    '',
    'lanemq <command> --help shows the options of a command; lanemq --version the version.',
  ].join('\n');
}

function helpOf(command: Command): string {
  return `Usage: lanemq ${command.name} [options]\n\n${command.summary}\n${command.help()}`;
}

function isHelp(arg: string): boolean {
  return arg === '--help' || arg === '-h';
}

/** Runs `lanemq` with the arguments behind its name; resolves with the exit code. */
export async function run(
  args: readonly string[],
  environment: Environment,
  terminal: Terminal,
  tools: Tools,
): Promise<ExitCode> {
  const [first, ...rest] = args;
  if (first === undefined) {
    terminal.err(overview());
    return exitCode.usage;
  }
  if (isHelp(first) || first === 'help') {
    const command = commands.find(({ name }) => name === rest[0]);
    terminal.out(command === undefined ? overview() : helpOf(command));
    return exitCode.done;
  }
  if (first === '--version' || first === '-v') {
    terminal.out(tools.version);
    return exitCode.done;
  }
  const command = commands.find(({ name }) => name === first);
  if (command === undefined) {
    const hint = closestName(
      first,
      commands.map(({ name }) => name),
    );
    terminal.err(`lanemq: unknown ${first.startsWith('-') ? 'option' : 'command'} ${first}`);
    if (hint !== undefined) terminal.err(`Did you mean \`lanemq ${hint}\`?`);
    terminal.err('Run `lanemq --help` for the commands.');
    return exitCode.usage;
  }
  if (rest.some(isHelp)) {
    terminal.out(helpOf(command));
    return exitCode.done;
  }
  return command.run({ args: rest, environment, terminal, tools });
}
