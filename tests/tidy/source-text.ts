/**
 * TypeScript sources with their comments, and on demand their strings, blanked out: positions and lines stay what they
 * are. Good for formatted code; a slash is taken for a regular expression where an operand can begin.
 */

export interface SourceText {
  /** Without comments. */
  readonly code: string;
  /** Without comments and without what stands inside strings, templates and regular expressions. */
  readonly bare: string;
  /** The comments alone. */
  readonly comments: string;
}

const operandMayFollow = /(?:[([{,;:=!&|?+\-*%^~<>]|\b(?:return|typeof|case|of|in|await|yield|void)|^)\s*$/;

function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}

/** Index behind the closing quote, or behind the last character when there is none. */
function endOfQuoted(text: string, start: number): number {
  const quote = text[start];
  let at = start + 1;
  while (at < text.length && text[at] !== quote) {
    if (text[at] === '\\') at++;
    else if (quote === '`' && text.startsWith('${', at)) at = endOfSubstitution(text, at + 2) - 1;
    at++;
  }
  return Math.min(at + 1, text.length);
}

/** Index behind the brace that closes a template's substitution. */
function endOfSubstitution(text: string, start: number): number {
  let depth = 1;
  let at = start;
  while (at < text.length && depth > 0) {
    const character = text[at];
    if (character === '{') depth++;
    else if (character === '}') depth--;
    else if (character === "'" || character === '"' || character === '`') at = endOfQuoted(text, at) - 1;
    at++;
  }
  return at;
}

function endOfRegularExpression(text: string, start: number): number {
  let inClass = false;
  let at = start + 1;
  while (at < text.length && text[at] !== '\n') {
    const character = text[at];
    if (character === '\\') at++;
    else if (character === '[') inClass = true;
    else if (character === ']') inClass = false;
    else if (character === '/' && !inClass) return at + 1;
    at++;
  }
  return at;
}

function endOfComment(text: string, start: number): number {
  const closing = text[start + 1] === '/' ? '\n' : '*/';
  const end = text.indexOf(closing, start + 2);
  if (end < 0) return text.length;
  return closing === '\n' ? end : end + 2;
}

export function sourceText(text: string): SourceText {
  let code = '';
  let bare = '';
  let comments = '';
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    const next = text[at + 1];
    let end = at + 1;
    if (character === '/' && (next === '/' || next === '*')) {
      end = endOfComment(text, at);
      const piece = text.slice(at, end);
      code += blank(piece);
      bare += blank(piece);
      comments += piece;
    } else {
      const isRegularExpression = character === '/' && operandMayFollow.test(bare.slice(-40));
      const isQuoted = character === "'" || character === '"' || character === '`';
      if (isQuoted) end = endOfQuoted(text, at);
      else if (isRegularExpression) end = endOfRegularExpression(text, at);
      const piece = text.slice(at, end);
      code += piece;
      bare += isQuoted || isRegularExpression ? character + blank(piece.slice(1, -1)) + piece.slice(-1) : piece;
      comments += blank(piece);
    }
    at = end;
  }
  return { code, bare, comments };
}

/** One import, export … from, dynamic import or file reference of a source. */
export interface Reference {
  /** As written. */
  readonly specifier: string;
  readonly position: number;
}

/** On bare text, where only the quotes of the specifier are left. */
const references: readonly RegExp[] = [
  /\b(?:import|export)\b[^'"`;=()]*?\bfrom\s*'( *)'/g,
  /\bimport\s*'( *)'/g,
  /\bimport\s*\(\s*'( *)'/g,
];
/** Compiled files that are started as workers or processes. */
const startedFile = /\bnew URL\(\s*'( *)'\s*,\s*import\.meta\.url/g;

function referencesIn({ code, bare }: SourceText, pattern: RegExp): Reference[] {
  return [...bare.matchAll(pattern)].map((match) => {
    const position = match.index + match[0].indexOf("'") + 1;
    return { specifier: code.slice(position, position + (match[1] ?? '').length), position };
  });
}

/** What a source imports, in its order. */
export function importsOf(source: SourceText): Reference[] {
  return references.flatMap((pattern) => referencesIn(source, pattern)).sort((a, b) => a.position - b.position);
}

/** Sources that a source starts as a thread or a process, under the names of their compiled files. */
export function startedFilesOf(source: SourceText): Reference[] {
  return referencesIn(source, startedFile).filter(({ specifier }) => specifier.endsWith('.js'));
}

/** The path that a relative specifier means, seen from the file `from`; `.js` is the `.ts` it was compiled from. */
export function resolveSpecifier(from: string, specifier: string): string {
  const segments = from.split('/').slice(0, -1);
  for (const part of specifier.replace(/\.js$/, '.ts').split('/')) {
    if (part === '..') segments.pop();
    else if (part !== '.') segments.push(part);
  }
  return segments.join('/');
}
