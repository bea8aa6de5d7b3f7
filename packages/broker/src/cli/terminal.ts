/** Where the commands write. One object, so that tests see what a user would see. */
export interface Terminal {
  /** Results, to stdout. A line feed is added. */
  out(text: string): void;
  /** Everything else, to stderr. A line feed is added. */
  err(text: string): void;
}

/** Exit codes of all commands. */
export const exitCode = {
  done: 0,
  /** The broker refused to start or failed; for `verify`: damage was found. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Text of a failure for people: the message of an operating error, the stack of a fault of ours. */
export function failureText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? error.message : (error.stack ?? error.message);
}
