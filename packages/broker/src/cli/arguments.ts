/** Flags of the offline commands: a few each, so that no table is needed. */

import { closestName } from '../config/mod.ts';

export interface FlagFacts {
  readonly flag: string;
  /** What its value is called in help; undefined = it takes none. */
  readonly value?: string;
  readonly required?: boolean;
  readonly meaning: string;
}

export type ReadFlags =
  | { readonly ok: true; readonly values: ReadonlyMap<string, string> }
  | { readonly ok: false; readonly errors: readonly string[] };

/** Reads `--name value`, `--name=value` and bare `--name`. Present flags without a value map to ''. */
export function readFlags(args: readonly string[], flags: readonly FlagFacts[]): ReadFlags {
  const values = new Map<string, string>();
  const errors: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const equals = args[i].indexOf('=');
    const name = equals < 0 ? args[i] : args[i].slice(0, equals);
    const facts = flags.find(({ flag }) => flag === name);
    if (facts === undefined) {
      const hint = closestName(
        name,
        flags.map(({ flag }) => flag),
      );
      errors.push(`unknown option ${name}${hint === undefined ? '' : `; did you mean ${hint}?`}`);
    } else if (facts.value === undefined) {
      if (equals < 0) values.set(name, '');
      else errors.push(`${name} takes no value`);
    } else {
      const value = equals < 0 ? args[++i] : args[i].slice(equals + 1);
      if (value === undefined || value === '') errors.push(`${name} needs a value: ${facts.value}`);
      else values.set(name, value);
    }
  }
  for (const { flag, value, required } of flags) {
    if (required === true && errors.length === 0 && !values.has(flag)) errors.push(`${flag} <${value}> is required`);
  }
  return errors.length > 0 ? { ok: false, errors } : { ok: true, values };
}

/** One line per flag. */
export function flagsHelp(flags: readonly FlagFacts[]): string {
  return flags
    .map(({ flag, value, meaning }) => `  ${(value === undefined ? flag : `${flag} <${value}>`).padEnd(18)}${meaning}`)
    .join('\n');
}
