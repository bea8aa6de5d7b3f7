/**
 * Command line and environment into one frozen configuration.
 *
 * The first source that names an option decides: flag, then its LANEMQ_* variable, then its alias, then the default.
 * An empty variable counts as not set. Everything wrong is reported at once, not one error per start.
 */

import { closestName } from './closest-name.ts';
import { type BrokerConfig, type OptionFacts, type OptionName, optionTable } from './option-table.ts';
import { parseValue } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export type ParsedConfig =
  | {
      readonly ok: true;
      readonly config: BrokerConfig;
      /** Options that did not come from the defaults, with their source; for the start-up log. Never a secret. */
      readonly sources: readonly string[];
      /** Things that are probably mistakes, such as a variable that nearly has the name of an option. */
      readonly warnings: readonly string[];
    }
  | { readonly ok: false; readonly errors: readonly string[] };

/** `[name, facts]` of all options, in the order of the table. */
export const optionRows = Object.entries(optionTable) as readonly [OptionName, OptionFacts][];

interface Given {
  readonly source: string;
  readonly text: string;
}

function readFlags(args: readonly string[], errors: string[]): Map<OptionName, Given> {
  const given = new Map<OptionName, Given>();
  for (let i = 0; i < args.length; i++) {
    const arg = args[i];
    if (!arg.startsWith('-')) {
      errors.push(`unexpected argument ${JSON.stringify(arg)}`);
      continue;
    }
    const equals = arg.indexOf('=');
    const flag = equals < 0 ? arg : arg.slice(0, equals);
    const row = optionRows.find(([, facts]) => facts.flag === flag);
    if (row === undefined) {
      const hint = closestName(
        flag,
        optionRows.map(([, facts]) => facts.flag),
      );
      errors.push(`unknown option ${flag}${hint === undefined ? '' : `; did you mean ${hint}?`}`);
      // Its value, if one follows, must not be reported as a second mistake.
      if (equals < 0 && i + 1 < args.length && !args[i + 1].startsWith('-')) i++;
      continue;
    }
    if (equals < 0 && i + 1 === args.length) {
      errors.push(`${flag} needs a value`);
      continue;
    }
    if (given.has(row[0])) errors.push(`${flag} is given twice`);
    given.set(row[0], { source: flag, text: equals < 0 ? args[++i] : arg.slice(equals + 1) });
  }
  return given;
}

function readVariable(facts: OptionFacts, environment: Environment): Given | undefined {
  for (const source of [facts.variable, facts.alias]) {
    if (source === undefined) continue;
    const text = environment[source];
    if (text !== undefined && text !== '') return { source, text };
  }
  return undefined;
}

function mistypedVariables(environment: Environment): string[] {
  const names = optionRows.map(([, facts]) => facts.variable);
  const warnings: string[] = [];
  for (const variable of Object.keys(environment)) {
    if (!variable.startsWith('LANEMQ_') || names.includes(variable)) continue;
    const hint = closestName(variable, names);
    if (hint !== undefined) warnings.push(`the variable ${variable} is not an option; did you mean ${hint}?`);
  }
  return warnings;
}

/** Options that are each fine and do not fit together. */
function crossCheck(config: BrokerConfig, errors: string[]): void {
  if (config.diskFreeShare > config.diskFullShare) {
    errors.push(
      `${optionTable.diskFreeShare.flag} (${config.diskFreeShare}) must not be above ` +
        `${optionTable.diskFullShare.flag} (${config.diskFullShare})`,
    );
  }
}

/**
 * Reads the options of `lanemq serve`.
 *
 * @param args what follows the command on the command line; `--name value` or `--name=value`
 * @param environment the variables of the process
 */
export function parseConfig(args: readonly string[], environment: Environment): ParsedConfig {
  const errors: string[] = [];
  const flags = readFlags(args, errors);
  const values: Record<string, number | string | Uint8Array | null> = {};
  const sources: string[] = [];
  for (const [name, facts] of optionRows) {
    values[name] = facts.default;
    const given = flags.get(name) ?? readVariable(facts, environment);
    if (given === undefined) continue;
    const parsed = parseValue(facts, given.source, given.text);
    if (!parsed.ok) {
      errors.push(parsed.message);
      continue;
    }
    values[name] = parsed.value;
    sources.push(facts.kind === 'key' ? `${name} from ${given.source}` : `${name} ${given.text} from ${given.source}`);
  }
  // Each value was made by the parser of its own row, so the record has the type that the table gives it.
  const config = Object.freeze(values) as BrokerConfig;
  if (errors.length === 0) crossCheck(config, errors);
  if (errors.length > 0) return { ok: false, errors };
  return { ok: true, config, sources, warnings: mistypedVariables(environment) };
}
