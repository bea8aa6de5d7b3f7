/** The files of the repository as the rules see them: paths and texts, so that a test can plant a tree of its own. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Texts by path; paths are relative to the root of the repository and use `/`. */
export type Tree = ReadonlyMap<string, string>;

/** Something that is against a rule. */
export interface Finding {
  readonly path: string;
  /** From 1; 0 = the file as a whole. */
  readonly line: number;
  /** What is wrong, and what to do instead. */
  readonly message: string;
}

export type Rule = (tree: Tree) => Finding[];

/** Folders that hold nothing written by people, wherever they are. */
const skippedFolders: readonly string[] = ['node_modules', 'dist', 'dist-tests', '.git'];
/** Folders of data that runs leave in the root. */
const dataFolders: readonly string[] = ['data', 'lanemq-data', 'lanemq-demo-data', '.bench-data'];
const textFile = /\.(ts|mjs|js|json|md|svg|sh|yml|yaml)$|^(LICENSE|\.gitignore|run)$/;

export function readTree(root: string): Tree {
  const tree = new Map<string, string>();
  const visit = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (!skippedFolders.includes(entry.name) && !dataFolders.includes(path)) visit(path);
      } else if (entry.isFile() && textFile.test(entry.name)) {
        tree.set(path, readFileSync(join(root, path), 'utf8'));
      }
    }
  };
  visit('');
  return tree;
}

/** Line of a position in a text, from 1. */
export function lineAt(text: string, position: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < position; at = text.indexOf('\n', at + 1)) line++;
  return line;
}

/** As people read it: `path:line message`. */
export function findingText({ path, line, message }: Finding): string {
  return `${path}${line > 0 ? `:${line}` : ''}  ${message}`;
}

export function isSource(path: string): boolean {
  return path.endsWith('.ts') && !path.endsWith('.d.ts');
}
