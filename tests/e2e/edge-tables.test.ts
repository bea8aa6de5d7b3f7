/** Edge tables over a real broker: databases, tables, insert, scan, scan-delete, and what they refuse. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { BrokerProcess } from './broker-process.ts';
import { EdgeClient, type Refused } from './edge-client.ts';

const logSchema = {
  type: 'IMMUTABLE_EDGE',
  source: { type: 'LONG', comment: 'partition' },
  target: { type: 'STRING', comment: 'message id' },
  properties: [
    { name: 'seq', type: 'LONG', comment: 'order', nullable: false },
    { name: 'payload', type: 'STRING', comment: 'body', nullable: true },
  ],
  direction: 'OUT',
  indexes: [{ index: 'seq_asc', fields: [{ field: 'seq', order: 'ASC' }] }],
  groups: [],
};

interface Edge {
  readonly version: number;
  readonly source: unknown;
  readonly target: unknown;
  readonly properties: Readonly<Record<string, unknown>>;
}

describe('edge tables', () => {
  let broker: BrokerProcess;
  let client: EdgeClient;
  before(async () => {
    broker = await BrokerProcess.start();
    client = new EdgeClient(broker);
  });
  after(() => broker.dispose());

  /** Path of a new table `log` with this schema. */
  const newTable = async (schema: object): Promise<string> => {
    const database = await client.newDatabase();
    const tables = `/graph/v3/databases/${database}/tables`;
    await client.send('POST', tables, { table: 'log', schema, storage: 'datastore://ns/log' });
    return `${tables}/log`;
  };
  const insert = (table: string, edges: readonly object[]) =>
    client.send('POST', `${table}/edges`, { mutations: edges.map((edge) => ({ type: 'INSERT', edge })) });
  const targets = async (path: string): Promise<unknown[]> =>
    (await client.get(path)).edges.map((edge: Edge) => edge.target);

  it('makes, shows, changes and deletes databases', async () => {
    const database = await client.newDatabase();
    const path = `/graph/v3/databases/${database}`;
    const shown = await client.get(path);
    assert.ok(Math.abs(Date.now() - shown.createdAt) < 60_000);
    assert.deepEqual(shown, {
      tenant: 'local',
      database,
      active: true,
      comment: '',
      revision: -1,
      createdAt: shown.createdAt,
      createdBy: '',
      updatedAt: -1,
      updatedBy: '',
    });
    const all = await client.get('/graph/v3/databases');
    assert.ok(all.some((each: { database: string }) => each.database === database));
    await client.refused(['DELETE', path, undefined, 400, 'is active']);
    assert.equal((await client.send('PUT', path, { comment: 'new' })).comment, 'new');
    assert.equal((await client.send('PUT', path, { active: false })).active, false);
    const queues = `/queue/v1/namespaces/${database}/queues`;
    const queue = '{"queue":"q","storage":"datastore://ns/q"}';
    await client.refused(['POST', queues, queue, 400, 'ddl create failed']);
    await broker.restart();
    assert.deepEqual(await client.send('DELETE', path), { ...shown, active: false, comment: 'new' });
    await client.refused(['GET', path, undefined, 404, 'no database']);
  });

  it('makes, shows, changes and deletes tables, and shows queues as tables', async () => {
    const table = await newTable(logSchema);
    const shown = await client.get(table);
    assert.deepEqual(shown.schema, logSchema);
    assert.deepEqual(
      [shown.table, shown.storage, shown.mode, shown.active],
      ['log', 'datastore://ns/log', 'SYNC', true],
    );
    const wider = {
      ...logSchema,
      properties: [...logSchema.properties, { name: 'more', type: 'int', nullable: true }],
    };
    const changed = await client.send('PUT', table, { schema: wider, comment: 'wider', mode: 'ASYNC' });
    assert.deepEqual(changed.schema.properties[2], { name: 'more', type: 'INT', nullable: true, comment: '' });
    const tables = table.slice(0, -4);
    const database = tables.split('/')[4];
    await client.send('POST', `/queue/v1/namespaces/${database}/queues`, { queue: 'q', storage: 'datastore://ns/q' });
    const listed = await client.get(tables);
    assert.deepEqual(
      listed.map((each: { table: string }) => each.table),
      ['log', 'q'],
    );
    assert.equal(listed[1].schema.type, 'IMMUTABLE_EDGE');
    // What a queue is does not hang on its comment.
    await client.send('PUT', `${tables}/q`, { comment: 'mine' });
    assert.equal((await client.get(`/queue/v1/namespaces/${database}/queues/q`)).partitions, 30);
    await client.send('PUT', table, { active: false });
    await client.refused(['GET', `${table}/edges/scan/seq_asc?start=1&direction=OUT`, undefined, 409, 'inactive']);
    assert.equal((await client.send('DELETE', table)).table, 'log');
    await client.refused(['GET', table, undefined, 404, 'no table']);
    await client.refused(['DELETE', table, undefined, 404, 'no table']);
  });

  it('gives back what was inserted, digit for digit, in the order of the index, after a kill too', async () => {
    const table = await newTable(logSchema);
    const big = '9007199254740993';
    const body = `{"mutations":[
      {"type":"INSERT","edge":{"version":1000,"source":1,"target":"m2","properties":{"seq":${big},"payload":"\\u00e9\\n"}}},
      {"type":"INSERT","edge":{"version":"1001","source":"1","target":"m1","properties":{"seq":-5}}},
      {"type":"INSERT","edge":{"version":1,"source":2,"target":"m1","properties":{"seq":1,"payload":null}}}]}`;
    const answer = await client.call('POST', `${table}/edges?lock=false`, body);
    assert.equal(
      answer.text,
      '{"results":[{"source":1,"target":"m2","status":"CREATED","count":1},{"source":1,"target":"m1","status":"CREATED","count":1},{"source":2,"target":"m1","status":"CREATED","count":1}]}',
    );
    await broker.killAndRestart();
    const scanned = await client.call('GET', `${table}/edges/scan/seq_asc?start=1&direction=OUT`);
    assert.equal(
      scanned.text,
      `{"edges":[{"version":1001,"source":1,"target":"m1","properties":{"seq":-5,"payload":null},"context":{}},{"version":1000,"source":1,"target":"m2","properties":{"seq":${big},"payload":"é\\n"},"context":{}}],"count":2,"total":-1,"offset":null,"hasNext":false,"context":{}}`,
    );
    const other = await client.get(`${table}/edges/scan/seq_asc?start=1&direction=IN`);
    assert.deepEqual([other.edges, other.hasNext], [[], false]);
  });

  it('overwrites an edge with the same index values, and keeps both when they differ', async () => {
    const table = await newTable(logSchema);
    const edge = (seq: number, payload: string) => ({
      version: 1,
      source: 1,
      target: 'm',
      properties: { seq, payload },
    });
    await insert(table, [edge(1, 'first')]);
    const { results } = await insert(table, [edge(1, 'second'), edge(2, 'third')]);
    assert.equal(results.length, 2);
    const { edges } = await client.get(`${table}/edges/scan/seq_asc?start=1&direction=OUT`);
    assert.deepEqual(
      edges.map(({ properties }: Edge) => properties['payload']),
      ['second', 'third'],
    );
  });

  it('scans ranges, both ways, page by page, and filters what a page holds', async () => {
    for (const order of ['ASC', 'DESC']) {
      const schema = { ...logSchema, indexes: [{ index: 'by', fields: [{ field: 'seq', order }] }] };
      const table = await newTable(schema);
      const all = [1, 2, 3, 3, 4, 5];
      await insert(
        table,
        all.map((seq, i) => ({ version: i, source: 1, target: `t${i}`, properties: { seq, payload: `p${seq}` } })),
      );
      const path = `${table}/edges/scan/by?start=1&direction=OUT`;
      const inOrder = (isWanted: (seq: number) => boolean): string[] =>
        all
          .map((seq, i) => ({ seq, target: `t${i}` }))
          .filter(({ seq }) => isWanted(seq))
          .sort((a, b) => (order === 'ASC' ? a.seq - b.seq : b.seq - a.seq))
          .map(({ target }) => target);
      const ranges: [string, (seq: number) => boolean][] = [
        ['eq:3', (seq) => seq === 3],
        ['gt:3', (seq) => seq > 3],
        ['gte:3', (seq) => seq >= 3],
        ['lt:3', (seq) => seq < 3],
        ['lte:3', (seq) => seq <= 3],
        ['bt:2,4', (seq) => seq >= 2 && seq <= 4],
        ['bt:4,2', () => false],
      ];
      for (const [range, isWanted] of ranges) {
        assert.deepEqual(await targets(`${path}&ranges=seq:${range}`), inOrder(isWanted), `${order} ${range}`);
      }
      const paged: unknown[] = [];
      let offset = '';
      for (let hasNext = true; hasNext; ) {
        const page = await client.get(`${path}&limit=2&ranges=seq:gt:1&offset=${offset}`);
        paged.push(...page.edges.map((edge: Edge) => edge.target));
        hasNext = page.hasNext;
        offset = page.offset ?? '';
      }
      assert.deepEqual(
        paged,
        inOrder((seq) => seq > 1),
      );
      const filtered = await client.get(`${path}&limit=2&filters=payload:in:p5,p9`);
      assert.deepEqual([filtered.count, filtered.hasNext], [order === 'ASC' ? 0 : 1, true]);
      assert.deepEqual(await targets(`${path}&filters=payload:gt:p3;version:lt:5`), ['t4']);
    }
  });

  it('finds edges by their target in a table of direction IN, over an index of several fields', async () => {
    const table = await newTable({
      ...logSchema,
      properties: [
        { name: 'kind', type: 'STRING', nullable: false },
        { name: 'score', type: 'DOUBLE', nullable: true },
      ],
      direction: 'IN',
      indexes: [
        {
          index: 'by',
          fields: [
            { field: 'kind', order: 'ASC' },
            { field: 'score', order: 'DESC' },
          ],
        },
      ],
    });
    const rows: [number, string, number | null][] = [
      [1, 'a', 0.5],
      [2, 'a', -2],
      [3, 'b', 1e300],
      [4, 'a', null],
      [5, 'a', 7],
    ];
    await insert(
      table,
      rows.map(([source, kind, score]) => ({ version: 1, source, target: 'x', properties: { kind, score } })),
    );
    const sources = async (ranges: string): Promise<unknown[]> =>
      (await client.get(`${table}/edges/scan/by?start=x&direction=IN${ranges}`)).edges.map((edge: Edge) => edge.source);
    assert.deepEqual(await sources(''), [5, 1, 2, 4, 3]);
    assert.deepEqual(await sources('&ranges=kind:eq:a;score:gte:0'), [5, 1]);
    assert.deepEqual(await sources('&ranges=kind:bt:a,b'), [5, 1, 2, 4, 3]);
    assert.deepEqual(await sources('&ranges=kind:gt:a'), [3]);
  });

  it('deletes what a scan would show, no more than asked for', async () => {
    const table = await newTable(logSchema);
    await insert(
      table,
      Array.from({ length: 10 }, (_, seq) => ({ version: 1, source: 1, target: `t${seq}`, properties: { seq } })),
    );
    const path = `${table}/edges/scan/seq_asc?start=1&direction=OUT`;
    const deleted = await client.send('DELETE', `${path}&limit=3&ranges=seq:gte:4`);
    assert.deepEqual(deleted, { database: table.split('/')[4], table: 'log', index: 'seq_asc', deleted: 3 });
    assert.deepEqual(await targets(path), ['t0', 't1', 't2', 't3', 't7', 't8', 't9']);
    await broker.killAndRestart();
    assert.equal((await client.send('DELETE', `${path}&limit=1000`)).deleted, 7);
    assert.equal((await client.send('DELETE', `${path}&limit=1000`)).deleted, 0);
    assert.deepEqual(await targets(path), []);
  });

  it('refuses each request that cannot be served, and stores nothing then', async () => {
    const table = await newTable(logSchema);
    const tables = table.slice(0, -4);
    const databases = '/graph/v3/databases';
    const tableBody = (change: object): string =>
      JSON.stringify({ table: 'new', schema: { ...logSchema, ...change }, storage: 'datastore://ns/new' });
    const index = { index: 'i', fields: [{ field: 'seq', order: 'ASC' }] };
    const schemas: [object, string][] = [
      [{ type: 'EDGE' }, 'schema.type'],
      [{ direction: 'BOTH' }, 'schema.direction'],
      [{ indexes: [index, { ...index, index: 'j' }] }, 'at most one index'],
      [{ indexes: [{ index: 'i', fields: [] }] }, 'fields'],
      [{ indexes: [{ index: 'i', fields: [{ field: 'none' }] }] }, 'is no property'],
      [{ indexes: [{ index: 'i', fields: [{ field: 'seq', order: 'UP' }] }] }, 'ASC or DESC'],
      [{ source: { type: 'INT' } }, 'schema.source.type'],
      [{ target: undefined }, 'schema.target'],
      [{ properties: [{ name: 'a', type: 'TEXT' }] }, 'the type of property a'],
      [
        {
          properties: [
            { name: 'seq', type: 'LONG' },
            { name: 'seq', type: 'LONG' },
          ],
        },
        'twice',
      ],
      [{ properties: [{ name: 'version', type: 'LONG' }] }, 'no name for a property'],
      [{ groups: [{}] }, 'groups'],
      [{ source: { type: 'LONG', comment: 'c'.repeat(16_384) } }, 'at most 16384 are stored'],
    ];
    const scan = `${table}/edges/scan/seq_asc`;
    const mutation = (edge: string, type = 'INSERT'): string => `{"mutations":[{"type":"${type}","edge":${edge}}]}`;
    const good = '{"version":1,"source":1,"target":"m","properties":{"seq":1}}';
    const requests: Refused[] = [
      ['POST', databases, `{"database":"${tables.split('/')[4]}"}`, 409, 'exists'],
      ...['"1a"', '""', `"${'a'.repeat(65)}"`, '5'].map((name): Refused => {
        return ['POST', databases, `{"database":${name}}`, 400, 'database must'];
      }),
      ['POST', databases, '{}', 400, 'database is missing'],
      ['POST', databases, `{"database":"d","comment":"${'c'.repeat(1001)}"}`, 400, 'comment'],
      ['GET', `${databases}/none`, undefined, 404, 'no database'],
      ['PUT', `${databases}/none`, '{}', 404, 'no database'],
      ['PUT', `${databases}/none`, '{"active":"yes"}', 400, 'active must be'],
      ['DELETE', `${databases}/none`, undefined, 404, 'no database'],
      ['GET', `${databases}/none/tables`, undefined, 404, 'no database'],
      ['POST', `${databases}/none/tables`, tableBody({}), 400, 'ddl create failed'],
      ['POST', tables, '{"table":"log","storage":"datastore://ns/log"}', 400, 'schema must be an object'],
      ['POST', tables, tableBody({}).replace('"new"', '"log"'), 409, 'exists'],
      ['POST', tables, tableBody({}).replace('"new"', '"9"'), 400, 'table must match'],
      ['POST', tables, tableBody({}).replace('datastore:', 'file:'), 400, 'storage must match'],
      ...schemas.map(([change, part]): Refused => ['POST', tables, tableBody(change), 400, part]),
      ['PUT', table, '{"mode":"FAST"}', 400, 'mode must be'],
      [
        'PUT',
        table,
        JSON.stringify({ schema: { ...logSchema, properties: logSchema.properties.slice(0, 1) } }),
        400,
        'may only be changed',
      ],
      ['PUT', `${tables}/none`, '{}', 404, 'no table'],
      ['DELETE', table, undefined, 400, 'is active'],
      ['POST', `${tables}/none/edges`, mutation(good), 404, 'no table'],
      ['POST', `${table}/edges`, mutation(good, 'UPDATE'), 400, 'must be INSERT'],
      ['POST', `${table}/edges`, mutation(good, 'DELETE'), 400, 'must be INSERT'],
      ['POST', `${table}/edges`, `{"mutations":[{"type":"INSERT"}]}`, 400, 'edge must be an object'],
      ['POST', `${table}/edges`, '{"mutations":{}}', 400, 'mutations must be an array'],
      ['POST', `${table}/edges`, 'x', 400, 'JSON'],
      ['POST', `${table}/edges?lock=maybe`, mutation(good), 400, 'lock must be'],
      ['POST', `${table}/edges`, `{"mutations":[${new Array(1001).fill('{}').join()}]}`, 400, 'more than 1000'],
      ...(
        [
          [good.replace('"seq":1', ''), 'properties.seq is missing'],
          [good.replace('"seq":1', '"seq":null'), 'properties.seq is missing'],
          [good.replace('"seq":1', '"seq":1.5'), 'properties.seq must be of type LONG'],
          [good.replace('"seq":1', '"seq":9223372036854775808'), 'properties.seq must be of type LONG'],
          [good.replace('"seq":1', '"seq":1,"other":1'), 'properties.other is no property'],
          [good.replace('"source":1', '"source":"x"'), 'source must be of type LONG'],
          [good.replace('"target":"m"', '"target":"\\u0000"'), 'target must be of type STRING'],
          [good.replace('"version":1,', ''), 'version is missing'],
        ] as const
      ).map(([edge, part]): Refused => ['POST', `${table}/edges`, mutation(edge), 400, part]),
      ['GET', `${scan}?direction=OUT`, undefined, 400, 'start is required'],
      ['GET', `${scan}?start=1`, undefined, 400, 'direction is required'],
      ['GET', `${scan}?start=1&direction=BOTH`, undefined, 400, 'direction must be'],
      ['GET', `${scan}?start=x&direction=OUT`, undefined, 400, '`x` is no LONG'],
      ['GET', `${scan}x?start=1&direction=OUT`, undefined, 400, 'no index'],
      ['GET', `${scan}?start=1&direction=OUT&limit=0`, undefined, 400, 'limit must be in 1..1000'],
      ['GET', `${scan}?start=1&direction=OUT&limit=1001`, undefined, 400, 'limit must be in 1..1000'],
      ['GET', `${scan}?start=1&direction=OUT&features=total`, undefined, 400, 'features'],
      ['GET', `${scan}?start=1&direction=OUT&offset=!`, undefined, 400, 'offset'],
      ['GET', `${scan}?start=1&direction=OUT&offset=AAAA`, undefined, 400, 'offset'],
      ['GET', `${scan}?start=1&direction=OUT&ranges=seq`, undefined, 400, 'field:op:value'],
      ['GET', `${scan}?start=1&direction=OUT&ranges=seq:in:1`, undefined, 400, 'field:op:value'],
      ['GET', `${scan}?start=1&direction=OUT&ranges=seq:bt:1`, undefined, 400, 'two values'],
      ['GET', `${scan}?start=1&direction=OUT&ranges=seq:eq:x`, undefined, 400, 'is no LONG'],
      [
        'GET',
        `${scan}?start=1&direction=OUT&ranges=foo:eq:1`,
        undefined,
        400,
        'valid `ranges` order for the index `seq_asc` is [seq]. input was: [foo].',
      ],
      ['GET', `${scan}?start=1&direction=OUT&ranges=seq:gt:1;seq:lt:5`, undefined, 400, 'valid `ranges` order'],
      ['GET', `${scan}?start=1&direction=OUT&filters=foo:eq:1`, undefined, 400, 'does not have'],
      ['DELETE', `${scan}?start=1&direction=OUT`, undefined, 400, 'limit is required'],
      ['DELETE', `${scan}?start=1&direction=OUT&limit=1001`, undefined, 400, 'limit must be in 1..1000'],
      ['DELETE', `${tables}/none/edges/scan/i?start=1&direction=OUT&limit=1`, undefined, 404, 'no table'],
      ['POST', `${table}/edges/get`, '{}', 400, 'read by scan'],
      ['GET', `${table}/edges/get`, undefined, 400, 'read by scan'],
      ['GET', `${table}/edges/count`, undefined, 400, 'read by scan'],
    ];
    for (const refused of requests) await client.refused(refused);
    await client.refused(['POST', `${table}/edges`, mutation(good), 415, 'Content-Type'], 'text/plain');
    assert.deepEqual(await targets(`${scan}?start=1&direction=OUT`), []);
    await client.refused([
      'POST',
      `${table}/edges`,
      `{"mutations":[${'0,'.repeat(2 ** 21)}0]}`,
      413,
      'body over the limit',
    ]);
    const longText = 'x'.repeat(4_000_000);
    const tooLong = good.replace('"seq":1', `"seq":1,"payload":"${longText}"`);
    await client.refused(['POST', `${table}/edges`, mutation(tooLong), 400, 'mutations[0] is too large']);
    const queue = await client.newQueue(1);
    const asTable = `/graph/v3/databases/${queue.split('/')[4]}/tables/q`;
    await client.refused(['POST', `${asTable}/edges`, mutation(good), 400, 'is a queue/v1 table']);
    await client.refused(['PUT', asTable, JSON.stringify({ schema: logSchema }), 400, 'schema of a queue']);
    const withoutIndex = await newTable({ ...logSchema, indexes: [] });
    await client.refused(['POST', `${withoutIndex}/edges`, mutation(good), 400, 'has no index']);
    const path = withoutIndex.slice(0, withoutIndex.indexOf('/tables'));
    await client.send('PUT', path, { active: false });
    await client.refused(['DELETE', path, undefined, 400, 'has tables']);
  });
});
