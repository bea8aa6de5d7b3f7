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

/** What an operator can do about it, by the error's code. */
const adviceByCode: Readonly<Record<string, string>> = {
  EADDRINUSE: 'Another program listens there: choose another --port, or stop it.',
  EADDRNOTAVAIL: 'This machine has no such address: check --host.',
  ENOTFOUND: 'This is no address of this machine: check --host.',
  EACCES: 'This user may not do that: check the owner of the data folder, or the --port.',
  EDATALOCKED: 'Stop the other broker, or choose another --data.',
  ELOGDAMAGE: 'Nothing was changed. `lanemq verify --data FOLDER` lists all damage; restore the folder from a copy.',
  ESIDECARDAMAGE: 'Delete the file: it is built again from its segment at the next start.',
};

/** Text of a failure for people: the message of an operating error with advice, the stack of a fault of ours. */
export function failureText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!('code' in error)) return error.stack ?? error.message;
  const advice = adviceByCode[String(error.code)];
  return advice === undefined ? error.message : `${error.message}\n${advice}`;
}
