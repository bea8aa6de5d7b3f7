/** The options of a broker process: their table, and how a command line and an environment become a configuration. */
export { closestName } from './closest-name.ts';
export { type BrokerConfig, type LogLevel, type LogLine, type OptionName, optionTable } from './option-table.ts';
export { type Environment, type ParsedConfig, parseConfig } from './parse.ts';
export { optionsHelp, optionsMarkdown } from './tables.ts';
