/** Routes about consumer groups: list, detail, laggards, positions, delete, move, pause. */

import { limits } from '@lanemq/protocol';
import { idText, type Refusal, type SeekTarget } from '../core/mod.ts';
import type {
  DeleteGroupOutcome,
  GroupPosition,
  GroupQueue,
  PauseOutcome,
  RowsReply,
  SeekOutcome,
} from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { groupJson, groupQueueJson, laggingJson } from './group-json.ts';
import { isoTime, parseIsoTime } from './iso-time.ts';
import { beginRead, clamped, jsonAnswer, readPage, readParameters, replyWith } from './read-route.ts';
import type { Call } from './routes.ts';
import { isObject, type JsonObject, parseJson, SmallBodyExchange } from './small-body.ts';

const lagSecondsDefault = 3600;
/** Entries of a request for positions are two names each. */
const positionsBodyBytesMax = 16 * 1024 * 1024;

/** A body of a few settings, or none at all. */
class GroupExchange extends SmallBodyExchange {
  protected readonly bodyName = 'bad consumer group body';
  readonly #bytesMax: number;
  readonly #run: (exchange: GroupExchange, body: Uint8Array) => void;

  constructor(call: Call, run: (exchange: GroupExchange, body: Uint8Array) => void, bytesMax = 0) {
    super(call.services, call.request, call.response);
    this.#run = run;
    this.#bytesMax = bytesMax;
  }

  protected override bodyBytesMax(): number {
    return Math.max(super.bodyBytesMax(), Math.min(this.#bytesMax, this.services.options.maxBodyBytes));
  }

  protected received(body: Uint8Array): void {
    this.#run(this, body);
  }

  /** The refusals of this family say `success: false` as well. */
  refuseRequest(status: number, error: string, more: object = {}): void {
    const code = status === 404 ? 'not_found' : 'bad_request';
    this.answerValue(status, { success: false, error, code, ...more });
  }

  begin(): void {
    this.services.supervisor.handedOver(this);
  }
}

/** The answer to a list whose rows come in pieces: each is made bytes at once, so that no turn has to make them all. */
function rowsReply<Row, End>(
  exchange: Exchange,
  open: string,
  rowJson: (row: Row) => object,
  close: (end: End) => string,
): RowsReply<Row, End> {
  const pieces: Uint8Array[] = [Buffer.from(open)];
  let isFirst = true;
  return {
    rows(rows) {
      if (rows.length === 0) return;
      const text = rows.map((row) => JSON.stringify(rowJson(row))).join(',');
      pieces.push(Buffer.from(isFirst ? text : `,${text}`));
      isFirst = false;
    },
    encode(end) {
      pieces.push(Buffer.from(close(end)));
    },
    send(failure: Refusal | null) {
      if (failure !== null) exchange.refuse(failure);
      else exchange.answerJsonPieces(200, pieces);
    },
  };
}

/** GET /api/v1/consumer-groups */
export function listGroups(exchange: Exchange, query: string): void {
  const page = readParameters(exchange, query, (parameters) =>
    readPage(parameters, limits.groupPartitionsMax, limits.groupPartitionsMax),
  );
  if (page === null || !beginRead(exchange)) return;
  exchange.services.engine.groups.list(
    page,
    rowsReply(exchange, '[', groupJson, () => ']'),
  );
}

/** GET /api/v1/consumer-groups/{group} */
export function describeGroup(exchange: Exchange, group: string, query: string): void {
  const page = readParameters(exchange, query, (parameters) =>
    readPage(parameters, limits.groupPartitionsDefault, limits.groupPartitionsMax),
  );
  if (page === null || !beginRead(exchange)) return;
  const { engine } = exchange.services;
  const leaseId = (stamp: number) => (stamp > 0 ? idText(engine.identity, stamp, 0, 0) : null);
  engine.groups.describe(
    { group, ...page },
    replyWith<{ readonly queues: readonly GroupQueue[] } | null>(exchange, (found) =>
      found === null
        ? jsonAnswer(404, { error: 'Consumer group not found', code: 'not_found' })
        : jsonAnswer(
            200,
            Object.fromEntries(found.queues.map((queue) => [queue.row.queue, groupQueueJson(queue, leaseId)])),
          ),
    ),
  );
}

/** GET /api/v1/consumer-groups/lagging */
export function listLagging(exchange: Exchange, query: string): void {
  const filter = readParameters(exchange, query, (parameters) => ({
    ...readPage(parameters, limits.groupPartitionsDefault, limits.groupPartitionsMax),
    ageUs: clamped(parameters.integer('minLagSeconds'), lagSecondsDefault, 1e9, 0) * 1_000_000,
  }));
  if (filter === null || !beginRead(exchange)) return;
  const { engine } = exchange.services;
  const leaseId = (stamp: number) => (stamp > 0 ? idText(engine.identity, stamp, 0, 0) : null);
  engine.groups.lagging(
    filter,
    rowsReply(
      exchange,
      '[',
      (row) => laggingJson(row, leaseId),
      () => ']',
    ),
  );
}

interface PositionEntry {
  readonly queue: string;
  readonly partition: string | null;
}

/** A text is what is wrong. */
function readEntries(value: unknown): readonly PositionEntry[] | null | string {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value)) return 'entries must be an array';
  if (value.length > limits.positionsMax) {
    return `entries has ${value.length} elements; at most ${limits.positionsMax} are read at a time`;
  }
  const entries: PositionEntry[] = [];
  for (let i = 0; i < value.length; i++) {
    const entry: unknown = value[i];
    const { queue, partition } = isObject(entry) ? (entry as { queue?: unknown; partition?: unknown }) : {};
    if (typeof queue !== 'string' || queue === '') return `entries[${i}].queue must be the name of a queue`;
    if (partition !== undefined && partition !== null && typeof partition !== 'string') {
      return `entries[${i}].partition must be a string`;
    }
    entries.push({ queue, partition: partition === '' ? 'Default' : (partition ?? null) });
  }
  return entries;
}

/** POST /api/v1/consumer-groups/positions */
export function readPositions(call: Call): void {
  const run = (exchange: GroupExchange, body: Uint8Array): void => {
    const value = parseJson(body);
    const { consumerGroup, entries } = isObject(value)
      ? (value as { consumerGroup?: unknown; entries?: unknown })
      : { consumerGroup: undefined, entries: undefined };
    if (typeof consumerGroup !== 'string' || consumerGroup === '') {
      exchange.fail('bad_request', 'consumerGroup must be the name of a group');
      return;
    }
    const read = readEntries(entries);
    if (typeof read === 'string') {
      exchange.fail('bad_request', read);
      return;
    }
    if (!beginRead(exchange)) return;
    exchange.services.engine.groups.positions(
      { group: consumerGroup, entries: read },
      rowsReply<GroupPosition, { readonly truncated: boolean }>(
        exchange,
        `{"consumerGroup":${JSON.stringify(consumerGroup)},"entries":[`,
        ({ queue, partition, next }) => ({ queue, partition, offset: next, metadata: null }),
        ({ truncated }) => `],"truncated":${truncated}}`,
      ),
    );
  };
  new GroupExchange(call, run, positionsBodyBytesMax).start();
}

/** DELETE /api/v1/consumer-groups/{group}, and …/queues/{queue} */
export function deleteGroup(exchange: Exchange, names: readonly string[], query: string): void {
  const [group, queue = null] = names;
  const keepRegistration = readParameters(
    exchange,
    query,
    (parameters) => parameters.text('deleteMetadata') === 'false',
  );
  if (keepRegistration === null) return;
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  engine.groups.delete(
    { group, queue, keepRegistration },
    replyWith<DeleteGroupOutcome>(exchange, ({ partitions, queues }) =>
      jsonAnswer(200, {
        success: true,
        consumerGroup: group,
        queueName: queue,
        deletedPartitions: partitions,
        metadataDeleted: !keepRegistration,
        queues,
      }),
    ),
  );
}

/** POST /api/v1/consumer-groups/{group}/subscription */
export function startGroupFrom(call: Call): void {
  const [group] = call.names;
  const run = (exchange: GroupExchange, body: Uint8Array): void => {
    const value = parseJson(body);
    const { subscriptionTimestamp: text } = isObject(value) ? (value as { subscriptionTimestamp?: unknown }) : {};
    const sinceUs = typeof text === 'string' ? parseIsoTime(text) : undefined;
    if (sinceUs === undefined) {
      exchange.fail('bad_request', 'subscriptionTimestamp must be an ISO-8601 time, such as 2026-10-02T09:14:03Z');
      return;
    }
    exchange.begin();
    exchange.services.engine.groups.startFrom(
      group,
      Math.max(0, sinceUs),
      replyWith<{ readonly changed: number }>(exchange, ({ changed }) =>
        jsonAnswer(200, { success: true, consumerGroup: group, newTimestamp: text, rowsUpdated: changed }),
      ),
    );
  };
  new GroupExchange(call, run).start();
}

/** A text is what is wrong. */
function readSeekTarget(body: Uint8Array): SeekTarget | string {
  if (body.length === 0) return { kind: 'end' };
  const value = parseJson(body);
  if (!isObject(value)) return 'the body is not a JSON object';
  return seekTargetOf(value);
}

function seekTargetOf(value: JsonObject): SeekTarget | string {
  const given = value as { toEnd?: unknown; toBeginning?: unknown; timestamp?: unknown; offset?: unknown };
  const { toEnd, toBeginning, timestamp, offset } = given;
  const targets: SeekTarget[] = [];
  for (const [name, flag] of [['toEnd', toEnd] as const, ['toBeginning', toBeginning] as const]) {
    if (flag === undefined || flag === null || flag === false) continue;
    if (flag !== true) return `${name} must be true or false`;
    targets.push({ kind: name === 'toEnd' ? 'end' : 'beginning' });
  }
  if (timestamp !== undefined && timestamp !== null) {
    const us = typeof timestamp === 'string' ? parseIsoTime(timestamp) : undefined;
    if (us === undefined) return 'timestamp must be an ISO-8601 time, such as 2026-10-02T09:14:03Z';
    targets.push({ kind: 'time', stampUs: Math.max(0, Math.floor(us / 1000) * 1000) });
  }
  if (offset !== undefined && offset !== null) {
    if (typeof offset !== 'number' || !Number.isSafeInteger(offset) || offset < 0) {
      return 'offset must be a whole number of 0 or more: the next message to read';
    }
    targets.push({ kind: 'offset', offset });
  }
  if (targets.length === 0) return 'Must specify toEnd=true or a timestamp';
  if (targets.length > 1) return 'name one of toEnd, toBeginning, timestamp and offset, not several';
  return targets[0];
}

/** POST /api/v1/consumer-groups/{group}/queues/{queue}/seek, and …/partitions/{partition}/seek */
export function seekGroup(call: Call): void {
  const [group, queue, name = null] = call.names;
  const partition = name === '' ? 'Default' : name;
  const run = (exchange: GroupExchange, body: Uint8Array): void => {
    const target = readSeekTarget(body);
    if (typeof target === 'string') {
      exchange.refuseRequest(400, target);
      return;
    }
    exchange.begin();
    exchange.services.engine.groups.seek(
      { group, queue, partition, target },
      replyWith<SeekOutcome>(exchange, ({ missing, partitions }) => {
        if (missing !== null) {
          const error = missing === 'queue' ? 'Queue not found or has no partitions' : 'Partition not found';
          const facts = { consumerGroup: group, queueName: queue, partitionsUpdated: 0 };
          return jsonAnswer(404, { success: false, error, code: 'not_found', ...facts });
        }
        return jsonAnswer(200, {
          success: true,
          consumerGroup: group,
          queueName: queue,
          partitionName: partition,
          seekToEnd: target.kind === 'end',
          seekToBeginning: target.kind === 'beginning',
          targetTimestamp: target.kind === 'time' ? isoTime(target.stampUs) : null,
          targetOffset: target.kind === 'offset' ? target.offset : null,
          partitionsUpdated: partitions,
          updated: true,
        });
      }),
    );
  };
  new GroupExchange(call, run).start();
}

const missingText = {
  queue: 'Queue not found',
  partition: 'Partition not found',
  group: 'Consumer group not found',
} as const;

/** POST …/pause and …/resume of a queue, a partition of it, or a group on it. The body is not looked at. */
export function pause(
  exchange: Exchange,
  what: 'queue' | 'partition' | 'group',
  names: readonly string[],
  paused: boolean,
): void {
  const [first, second = ''] = names;
  const queue = what === 'group' ? second : first;
  const partition = what === 'partition' ? second || 'Default' : null;
  const group = what === 'group' ? first : null;
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  engine.groups.pause(
    { queue, partition, group, paused },
    replyWith<PauseOutcome>(exchange, ({ missing, changed, pausedAtUs }) => {
      if (missing !== null) {
        return jsonAnswer(404, { success: false, error: missingText[missing], code: 'not_found' });
      }
      return jsonAnswer(200, {
        success: true,
        queueName: queue,
        partitionName: partition,
        consumerGroup: group,
        paused: pausedAtUs > 0,
        pausedAt: pausedAtUs > 0 ? isoTime(pausedAtUs) : null,
        changed,
      });
    }),
  );
}
