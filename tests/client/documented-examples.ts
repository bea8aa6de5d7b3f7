/**
 * The examples in the client's doc comments, as a program: each in a function of its own, between what they assume (a
 * client, an abort signal, helpers) and what runs them one after the other.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface DocumentedExample {
  /** File and line of the example. */
  readonly place: string;
  readonly code: string;
}

/** Every `@example` of the sources in a folder. */
export function documentedExamples(folder: string): DocumentedExample[] {
  const examples: DocumentedExample[] = [];
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.ts'))) {
    const text = readFileSync(join(folder, name), 'utf8');
    for (const match of text.matchAll(/@example\n([\s\S]*?)(?=\n\s*\*\/|\n\s*\* @)/g)) {
      const code = match[1].replace(/^ *\* ?/gm, '');
      examples.push({ place: `${name}:${text.slice(0, match.index).split('\n').length}`, code });
    }
  }
  return examples;
}

/** Methods and getters of the classes that the package exports whose doc comment has no `@example`, by file and name. */
export function membersWithoutExample(folder: string): string[] {
  const found: string[] = [];
  const exported = /export \{([^}]*)\} from '\.\/([\w-]+)\.ts';/g;
  for (const [, names, file] of readFileSync(join(folder, 'mod.ts'), 'utf8').matchAll(exported)) {
    const text = readFileSync(join(folder, `${file}.ts`), 'utf8');
    for (const name of names.matchAll(/\b(?<!type )([A-Z]\w*)/g)) {
      const body = new RegExp(`export class ${name[1]}\\b[\\s\\S]*?\\n\\}`).exec(text)?.[0] ?? '';
      const member = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {2}(?:async |get )*(\w+)[<(]/g;
      for (const [, doc, called] of body.matchAll(member)) {
        if (!/@example|@internal/.test(doc) && called !== 'constructor') found.push(`${file}.ts: ${name[1]}.${called}`);
      }
    }
  }
  return found;
}

/** What the examples assume. `client` is one that a test has pointed at a broker. */
const prelude = `import { LaneClient, LaneError, newTransactionId, type StandardSchema } from '@lanemq/client';

interface Order { readonly orderId: number }
const url = process.env['LANEMQ_URL'] ?? '';
const charge = async (..._facts: readonly unknown[]): Promise<void> => {};
const pageSomebody = (_text: string): void => {};
const orderSchema: StandardSchema<Order> = {
  '~standard': { version: 1, vendor: 'example', validate: (value) => ({ value: value as Order }) },
};
const console = { log: (...values: readonly unknown[]): void => void values };
`;

/**
 * A program that runs all examples, each with a client of its own that is closed after a second: that ends consumers as a
 * stop would. It prints the place of each example that came to its end.
 */
export function programOf(examples: readonly DocumentedExample[]): string {
  const functions = examples.map(({ place, code }, index) => {
    const isWhole = /const client = /.test(code);
    const body = code.replaceAll(`'http://127.0.0.1:6632'`, 'url');
    return `// ${place}
async function example${index}(given: LaneClient, lane: string): Promise<void> {
  ${isWhole ? '' : 'const client = given;'}
  const { signal } = new AbortController();
  const [message] = await given.queue<Order>('orders').partition(lane).group('examples').batch(1).pop();
  {
${body.replaceAll(/^/gm, '    ')}
  }
}
`;
  });
  const runs = examples.map(({ place }, index) => `  [${JSON.stringify(place)}, example${index}],`);
  return `${prelude}
${functions.join('\n')}
const examples: readonly [string, (client: LaneClient, lane: string) => Promise<void>][] = [
${runs.join('\n')}
];
for (const [place, run] of examples) {
  const client = new LaneClient(url);
  const items = Array.from({ length: 3 }, (_, orderId) => ({ orderId }));
  // Something for every group, in a lane that no example before has under lease.
  for (const group of ['billing', 'examples']) {
    await client.queue('orders').group(group).subscriptionMode('all').wait(false).pop();
  }
  for (const lane of ['customer-42', place]) await client.queue<Order>('orders').partition(lane).push(items);
  const timer = setTimeout(() => void client.close(), 1000);
  await run(client, place);
  clearTimeout(timer);
  await client.close();
  process.stdout.write(\`\${place}\\n\`);
}
`;
}
