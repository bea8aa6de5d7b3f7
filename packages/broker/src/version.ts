import { readFileSync } from 'node:fs';

/** The package's own file lies two folders above the compiled one. */
const file = new URL('../../package.json', import.meta.url);

export const version: string = (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
