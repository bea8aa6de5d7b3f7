/** Texts into option values and back. */

import type { OptionFacts } from './option-table.ts';

export type ParsedValue =
  | { readonly ok: true; readonly value: number | string | Uint8Array }
  | { readonly ok: false; readonly message: string };

const byteUnits: readonly { readonly suffix: string; readonly bytes: number }[] = [
  { suffix: 'GiB', bytes: 1024 ** 3 },
  { suffix: 'MiB', bytes: 1024 ** 2 },
  { suffix: 'KiB', bytes: 1024 },
];

function accept(value: number | string | Uint8Array): ParsedValue {
  return { ok: true, value };
}

/** `source` is what the operator wrote the value behind: a flag or a variable. */
function refuse(source: string, text: string, wanted: string): ParsedValue {
  return { ok: false, message: `${source} is ${JSON.stringify(text)}, but must be ${wanted}` };
}

function readInteger(text: string): number | undefined {
  return /^-?\d{1,16}$/.test(text) ? Number(text) : undefined;
}

function readBytes(text: string): number | undefined {
  const unit = byteUnits.find(({ suffix }) => text.toLowerCase().endsWith(suffix.toLowerCase()));
  if (unit === undefined) return readInteger(text);
  const count = readInteger(text.slice(0, -unit.suffix.length).trimEnd());
  return count === undefined ? undefined : count * unit.bytes;
}

function readShare(text: string): number | undefined {
  return /^\d*\.?\d+$/.test(text) ? Number(text) : undefined;
}

function readKey(text: string): Uint8Array {
  const key = new Uint8Array(text.length / 2);
  for (let i = 0; i < key.length; i++) key[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return key;
}

/** A number of bytes as people write it: in the largest unit that divides it. */
export function bytesText(bytes: number): string {
  const unit = byteUnits.find((each) => bytes >= each.bytes && bytes % each.bytes === 0);
  return unit === undefined ? String(bytes) : `${bytes / unit.bytes} ${unit.suffix}`;
}

/** What values the option takes, in words: `a number of bytes from 1 KiB to 96 MiB`. */
export function boundsText(facts: OptionFacts): string {
  switch (facts.kind) {
    case 'integer':
      return `a whole number from ${facts.min} to ${facts.max}`;
    case 'bytes':
      return `a number of bytes from ${bytesText(facts.min)} to ${bytesText(facts.max)}`;
    case 'share':
      return `a share from ${facts.min} to ${facts.max}`;
    case 'choice':
      return facts.choices.join(' or ');
    case 'key':
      return `${facts.bytes * 2} hexadecimal digits`;
    case 'text':
      return 'a text that is not empty';
  }
}

/** The default as it is shown in help and documents. */
export function defaultText(facts: OptionFacts): string {
  switch (facts.kind) {
    case 'bytes':
      return bytesText(facts.default);
    case 'key':
      return 'none';
    case 'integer':
      return facts.unit === 'port' ? String(facts.default) : `${facts.default} ${facts.unit}`;
    case 'share':
    case 'text':
    case 'choice':
      return String(facts.default);
  }
}

/** Reads one value. The refusal names the source, the value (unless it is a secret) and what is accepted. */
export function parseValue(facts: OptionFacts, source: string, text: string): ParsedValue {
  switch (facts.kind) {
    case 'integer':
    case 'bytes':
    case 'share': {
      const read = facts.kind === 'integer' ? readInteger : facts.kind === 'bytes' ? readBytes : readShare;
      const value = read(text.trim());
      if (value === undefined || value < facts.min || value > facts.max) return refuse(source, text, boundsText(facts));
      return accept(value);
    }
    case 'choice':
      return facts.choices.includes(text) ? accept(text) : refuse(source, text, boundsText(facts));
    case 'key':
      if (text.length === facts.bytes * 2 && /^[0-9a-fA-F]*$/.test(text)) return accept(readKey(text));
      return {
        ok: false,
        message: `${source} must be ${boundsText(facts)}; what was given is ${text.length} characters`,
      };
    case 'text':
      return text === '' || text.includes('\0') ? refuse(source, text, boundsText(facts)) : accept(text);
  }
}
