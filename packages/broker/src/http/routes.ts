/**
 * Which request goes where.
 *
 * Routes are matched on the raw path: it is cut at its slashes first and each name percent-decoded once, after that. So
 * a name may hold anything, a slash (as %2F), a percent sign, `..`, and never reaches another name or route.
 */

import type { ServerResponse } from 'node:http';
import { AckExchange } from './ack-route.ts';
import { listMessages, peekPartition, showMessage } from './browse-routes.ts';
import {
  addressOf,
  cancelRedrive,
  deleteAddress,
  listRedrives,
  purgeDeadLetters,
  RedriveExchange,
  ReplayExchange,
  showRedrive,
} from './dead-letter-changes.ts';
import { listDeadLetters } from './dead-letter-route.ts';
import { cancelDue, listDue, moveDue } from './due-routes.ts';
import { EdgeExchange } from './edge-exchange.ts';
import {
  changeDatabase,
  changeTable,
  createDatabase,
  createTable,
  deleteDatabase,
  deleteTable,
  getDatabase,
  getTable,
  InsertExchange,
  listDatabases,
  listTables,
  refuseLookUp,
  scanDelete,
  scanEdges,
} from './edge-routes.ts';
import { announcedBytes, type BrokerRequest, Exchange, unwantedBytesMax } from './exchange.ts';
import { ChangedExchange, FetchExchange, FetchOffsetsExchange } from './fetch-route.ts';
import {
  deleteGroup,
  describeGroup,
  listGroups,
  listLagging,
  pause,
  readPositions,
  seekGroup,
  startGroupFrom,
} from './group-routes.ts';
import { answerHealth } from './health-route.ts';
import { ExtendExchange } from './lease-route.ts';
import { MaintenanceExchange, maintenanceJson } from './maintenance-route.ts';
import { answerMetrics, answerPrometheus } from './metrics-route.ts';
import { PopExchange } from './pop-route.ts';
import { PushExchange } from './push-route.ts';
import { ConfigureExchange, deleteQueue, listQueues, queueDetail } from './queue-routes.ts';
import {
  commitQueue,
  createQueue,
  deleteEdgeQueue,
  EnqueueExchange,
  getDepth,
  getPartitions,
  getQueue,
  listEdgeQueues,
  pollQueue,
  purgeQueue,
  setActive,
} from './queue-v1-routes.ts';
import {
  queueDepth,
  queueSizes,
  refreshStats,
  resourceLabels,
  resourceOverview,
  statusPage,
  statusQueue,
  statusQueues,
} from './resource-routes.ts';
import type { Services } from './services.ts';
import { TraceExchange, traceNames, tracesByName, tracesOfMessage } from './trace-routes.ts';

/** What a route is given. `names` are the decoded variable segments, in order. */
export interface Call {
  readonly services: Services;
  readonly request: BrokerRequest;
  readonly response: ServerResponse;
  readonly names: readonly string[];
  readonly query: string;
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

interface Route {
  readonly method: Method;
  /** Segments of the path; '*' stands for a name. */
  readonly segments: readonly string[];
  readonly run: (call: Call) => void;
  readonly takesBody: boolean;
}

/** A route that takes no body. */
function route(method: Method, path: string, run: (call: Call) => void): Route {
  return { method, segments: path.slice(1).split('/'), run, takesBody: false };
}

/** A route whose exchange reads a body. */
function bodyRoute(method: Method, path: string, run: (call: Call) => void): Route {
  return { ...route(method, path, run), takesBody: true };
}

function exchangeOf(call: Call): Exchange {
  return new Exchange(call.services, call.request, call.response).ignoreBody();
}

function pop(call: Call): void {
  const exchange = new PopExchange(call.services, call.request, call.response).ignoreBody();
  const [queue, partition] = call.names;
  if (queue === '') exchange.refusePop('queue must not be empty');
  else if (queue === undefined) exchange.start(null, call.query);
  else if (partition === undefined) exchange.start({ kind: 'queue', queue }, call.query);
  else exchange.start({ kind: 'partition', queue, partition: partition === '' ? 'Default' : partition }, call.query);
}

function push(services: Services, request: BrokerRequest, response: ServerResponse): void {
  services.counters.pushRequests++;
  new PushExchange(services, request, response).start();
}

function ack(services: Services, request: BrokerRequest, response: ServerResponse): void {
  services.counters.ackRequests++;
  new AckExchange(services, request, response).start();
}

/** Paths of the second contract, whose errors have another body. */
function isEdgePath(path: string): boolean {
  return /^\/(queue|graph)(\/|$)/.test(path);
}

/** For what is refused before a route is found. */
function anyExchangeOf(call: Call): Exchange {
  return isEdgePath(call.request.url ?? '') ? edgeExchangeOf(call) : exchangeOf(call);
}

function edgeExchangeOf(call: Call): EdgeExchange {
  return new EdgeExchange(call.services, call.request, call.response).ignoreBody();
}

const databasesPath = '/graph/v3/databases';
const tablesPath = `${databasesPath}/*/tables`;
const edgesPath = `${tablesPath}/*/edges`;
const edgeQueuesPath = '/queue/v1/namespaces/*/queues';

function insertEdges({ services, request, response, names, query }: Call): void {
  new InsertExchange(services, request, response, names, query).start();
}

const edgeRoutes: readonly Route[] = [
  bodyRoute('POST', databasesPath, ({ services, request, response }) =>
    createDatabase(services, request, response).start(),
  ),
  route('GET', databasesPath, (call) => listDatabases(edgeExchangeOf(call))),
  route('GET', `${databasesPath}/*`, (call) => getDatabase(edgeExchangeOf(call), call.names)),
  bodyRoute('PUT', `${databasesPath}/*`, ({ services, request, response, names }) =>
    changeDatabase(services, request, response, names).start(),
  ),
  route('DELETE', `${databasesPath}/*`, (call) => deleteDatabase(edgeExchangeOf(call), call.names)),
  bodyRoute('POST', tablesPath, ({ services, request, response, names }) =>
    createTable(services, request, response, names).start(),
  ),
  route('GET', tablesPath, (call) => listTables(edgeExchangeOf(call), call.names)),
  route('GET', `${tablesPath}/*`, (call) => getTable(edgeExchangeOf(call), call.names)),
  bodyRoute('PUT', `${tablesPath}/*`, ({ services, request, response, names }) =>
    changeTable(services, request, response, names).start(),
  ),
  route('DELETE', `${tablesPath}/*`, (call) => deleteTable(edgeExchangeOf(call), call.names)),
  bodyRoute('POST', edgesPath, insertEdges),
  bodyRoute('POST', `${edgesPath}/sync`, insertEdges),
  route('GET', `${edgesPath}/scan/*`, (call) => scanEdges(edgeExchangeOf(call), call.names, call.query)),
  route('DELETE', `${edgesPath}/scan/*`, (call) => scanDelete(edgeExchangeOf(call), call.names, call.query)),
  route('POST', `${edgesPath}/get`, (call) => refuseLookUp(edgeExchangeOf(call))),
  route('GET', `${edgesPath}/get`, (call) => refuseLookUp(edgeExchangeOf(call))),
  route('GET', `${edgesPath}/count`, (call) => refuseLookUp(edgeExchangeOf(call))),
  bodyRoute('POST', edgeQueuesPath, ({ services, request, response, names }) =>
    createQueue(services, request, response, names).start(),
  ),
  route('GET', edgeQueuesPath, (call) => listEdgeQueues(edgeExchangeOf(call), call.names)),
  route('GET', `${edgeQueuesPath}/*`, (call) => getQueue(edgeExchangeOf(call), call.names)),
  route('DELETE', `${edgeQueuesPath}/*`, (call) => deleteEdgeQueue(edgeExchangeOf(call), call.names)),
  route('PUT', `${edgeQueuesPath}/*/enable`, (call) => setActive(edgeExchangeOf(call), call.names, true)),
  route('PUT', `${edgeQueuesPath}/*/disable`, (call) => setActive(edgeExchangeOf(call), call.names, false)),
  route('GET', `${edgeQueuesPath}/*/partitions`, (call) => getPartitions(edgeExchangeOf(call), call.names)),
  route('GET', `${edgeQueuesPath}/*/depth`, (call) => getDepth(edgeExchangeOf(call), call.names, call.query)),
  bodyRoute('POST', `${edgeQueuesPath}/*/messages`, ({ services, request, response, names, query }) =>
    new EnqueueExchange(services, request, response, names, query).start(),
  ),
  route('DELETE', `${edgeQueuesPath}/*/messages`, (call) => purgeQueue(edgeExchangeOf(call), call.names)),
  route('GET', `${edgeQueuesPath}/*/partitions/*/poll`, (call) =>
    pollQueue(edgeExchangeOf(call), call.names, call.query),
  ),
  route('DELETE', `${edgeQueuesPath}/*/partitions/*/messages`, (call) =>
    commitQueue(edgeExchangeOf(call), call.names, call.query),
  ),
];

const routes: readonly Route[] = [
  ...edgeRoutes,
  route('GET', '/api/v1/pop/queue/*', pop),
  route('GET', '/api/v1/pop/queue/*/partition/*', pop),
  route('GET', '/api/v1/pop', pop),
  bodyRoute('POST', '/api/v1/push', ({ services, request, response }) => push(services, request, response)),
  bodyRoute('POST', '/api/v1/ack', ({ services, request, response }) => ack(services, request, response)),
  bodyRoute('POST', '/api/v1/ack/batch', ({ services, request, response }) => ack(services, request, response)),
  bodyRoute('POST', '/api/v1/lease/*/extend', ({ services, request, response, names }) =>
    new ExtendExchange(services, request, response).startFor(names[0]),
  ),
  bodyRoute('POST', '/api/v1/configure', ({ services, request, response }) =>
    new ConfigureExchange(services, request, response).start(),
  ),
  route('GET', '/api/v1/resources/queues', (call) => listQueues(exchangeOf(call), call.query)),
  route('GET', '/api/v1/resources/queues/*', (call) => queueDetail(exchangeOf(call), call.names[0], call.query)),
  route('DELETE', '/api/v1/resources/queues/*', (call) => deleteQueue(exchangeOf(call), call.names[0])),
  route('GET', '/api/v1/dlq', (call) => listDeadLetters(exchangeOf(call), call.query)),
  route('GET', '/api/v1/consumer-groups', (call) => listGroups(exchangeOf(call), call.query)),
  route('GET', '/api/v1/consumer-groups/lagging', (call) => listLagging(exchangeOf(call), call.query)),
  bodyRoute('POST', '/api/v1/consumer-groups/positions', readPositions),
  route('GET', '/api/v1/consumer-groups/*', (call) => describeGroup(exchangeOf(call), call.names[0], call.query)),
  route('DELETE', '/api/v1/consumer-groups/*', (call) => deleteGroup(exchangeOf(call), call.names, call.query)),
  route('DELETE', '/api/v1/consumer-groups/*/queues/*', (call) =>
    deleteGroup(exchangeOf(call), call.names, call.query),
  ),
  bodyRoute('POST', '/api/v1/consumer-groups/*/subscription', startGroupFrom),
  bodyRoute('POST', '/api/v1/consumer-groups/*/queues/*/seek', seekGroup),
  bodyRoute('POST', '/api/v1/consumer-groups/*/queues/*/partitions/*/seek', seekGroup),
  route('POST', '/api/v1/consumer-groups/*/queues/*/pause', (call) =>
    pause(exchangeOf(call), 'group', call.names, true),
  ),
  route('POST', '/api/v1/consumer-groups/*/queues/*/resume', (call) =>
    pause(exchangeOf(call), 'group', call.names, false),
  ),
  route('POST', '/api/v1/resources/queues/*/pause', (call) => pause(exchangeOf(call), 'queue', call.names, true)),
  route('POST', '/api/v1/resources/queues/*/resume', (call) => pause(exchangeOf(call), 'queue', call.names, false)),
  route('POST', '/api/v1/resources/queues/*/partitions/*/pause', (call) =>
    pause(exchangeOf(call), 'partition', call.names, true),
  ),
  route('POST', '/api/v1/resources/queues/*/partitions/*/resume', (call) =>
    pause(exchangeOf(call), 'partition', call.names, false),
  ),
  bodyRoute('POST', '/api/v1/fetch', ({ services, request, response }) =>
    new FetchExchange(services, request, response).start(),
  ),
  bodyRoute('POST', '/api/v1/fetch/offsets', ({ services, request, response }) =>
    new FetchOffsetsExchange(services, request, response).start(),
  ),
  bodyRoute('POST', '/api/v1/partitions/changed', ({ services, request, response }) =>
    new ChangedExchange(services, request, response).start(),
  ),
  route('GET', '/api/v1/resources/queues/*/depth', (call) => queueDepth(exchangeOf(call), call.names[0], call.query)),
  route('GET', '/api/v1/resources/queues/*/sizes', (call) => queueSizes(exchangeOf(call), call.names[0], call.query)),
  route('GET', '/api/v1/resources/queues/*/partitions/*/peek', (call) =>
    peekPartition(exchangeOf(call), call.names[0], call.names[1], call.query),
  ),
  route('GET', '/api/v1/resources/overview', (call) => resourceOverview(exchangeOf(call))),
  route('GET', '/api/v1/resources/namespaces', (call) => resourceLabels(exchangeOf(call), 'namespace', call.query)),
  route('GET', '/api/v1/resources/tasks', (call) => resourceLabels(exchangeOf(call), 'task', call.query)),
  route('GET', '/api/v1/messages', (call) => listMessages(exchangeOf(call), call.query)),
  route('GET', '/api/v1/messages/*/*', (call) => showMessage(exchangeOf(call), call.names[0], call.names[1])),
  bodyRoute('POST', '/api/v1/traces', ({ services, request, response }) =>
    new TraceExchange(services, request, response).start(),
  ),
  // Before the traces of a message, whose path would fit too.
  route('GET', '/api/v1/traces/names', (call) => traceNames(exchangeOf(call), call.query)),
  route('GET', '/api/v1/traces/by-name/*', (call) => tracesByName(exchangeOf(call), call.names[0], call.query)),
  route('GET', '/api/v1/traces/*/*', (call) =>
    tracesOfMessage(exchangeOf(call), call.names[0], call.names[1], call.query),
  ),
  route('GET', '/api/v1/status', (call) => statusPage(exchangeOf(call), 'status', call.query)),
  route('GET', '/api/v1/status/analytics', (call) => statusPage(exchangeOf(call), 'analytics', call.query)),
  route('GET', '/api/v1/status/queues', (call) => statusQueues(exchangeOf(call), call.query)),
  route('GET', '/api/v1/status/queues/*', (call) => statusQueue(exchangeOf(call), call.names[0], call.query)),
  route('POST', '/api/v1/stats/refresh', (call) => refreshStats(exchangeOf(call))),
  ...(['push', 'pop'] as const).flatMap((kind) => {
    const path = kind === 'push' ? '/api/v1/system/maintenance' : '/api/v1/system/maintenance/pop';
    return [
      route('GET', path, (call) => exchangeOf(call).answerValue(200, maintenanceJson(kind))),
      bodyRoute('POST', path, ({ services, request, response }) =>
        new MaintenanceExchange(services, request, response).startFor(kind),
      ),
    ];
  }),
  route('DELETE', '/api/v1/dlq', (call) => purgeDeadLetters(exchangeOf(call), call.query)),
  bodyRoute('POST', '/api/v1/dlq/*/replay', ({ services, request, response, names }) =>
    new ReplayExchange(services, request, response).startFor({ id: names[0] }),
  ),
  bodyRoute('POST', '/api/v1/messages/*/*/retry', ({ services, request, response, names }) =>
    new ReplayExchange(services, request, response).startFor({ address: addressOf(services.engine.identity, names) }),
  ),
  route('DELETE', '/api/v1/messages/*/*', (call) => deleteAddress(exchangeOf(call), call.names)),
  bodyRoute('POST', '/api/v1/dlq/redrive', ({ services, request, response }) =>
    new RedriveExchange(services, request, response).start(),
  ),
  route('GET', '/api/v1/dlq/redrive', (call) => listRedrives(exchangeOf(call))),
  route('GET', '/api/v1/dlq/redrive/*', (call) => showRedrive(exchangeOf(call), call.names[0])),
  route('DELETE', '/api/v1/dlq/redrive/*', (call) => cancelRedrive(exchangeOf(call), call.names[0])),
  route('GET', '/api/v1/due', (call) => listDue(exchangeOf(call), call.query)),
  ...['/api/v1/due/*', '/api/v1/due/*/*', '/api/v1/due/queues/*/partitions/*/*'].flatMap((path) => [
    bodyRoute('POST', path, moveDue),
    route('DELETE', path, cancelDue),
  ]),
  route('GET', '/health', (call) => answerHealth(exchangeOf(call))),
  route('GET', '/metrics', (call) => answerMetrics(exchangeOf(call))),
  route('GET', '/metrics/prometheus', (call) => answerPrometheus(exchangeOf(call))),
];

/** First segments of paths that belong to this table and to nobody else. */
const ownedPrefixes: readonly string[] = ['api', 'health', 'metrics', 'queue', 'graph'];

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false;
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] !== '*' && pattern[i] !== segments[i]) return false;
  }
  return true;
}

/** The path and query of a request target, which may also be a whole URL. Node has refused all but ASCII in it. */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const authority = /^https?:\/\/[^/?]*/i.exec(target);
  if (authority === null) return target;
  const rest = target.slice(authority[0].length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** The names of the path, decoded; undefined when one is not valid percent-encoding of UTF-8. */
function decodeNames(pattern: readonly string[], segments: readonly string[]): string[] | undefined {
  const names: string[] = [];
  for (let i = 0; i < pattern.length; i++) {
    if (pattern[i] !== '*') continue;
    const segment = segments[i];
    if (!segment.includes('%')) {
      names.push(segment);
      continue;
    }
    try {
      names.push(decodeURIComponent(segment));
    } catch {
      return undefined;
    }
  }
  return names;
}

/** A name that does not decode names nothing, whatever the route. */
function refuseEncoding(call: Call): void {
  const message = 'the path is not valid percent-encoding of UTF-8';
  if (call.request.url?.startsWith('/api/v1/pop')) {
    new PopExchange(call.services, call.request, call.response).refusePop(message);
  } else {
    anyExchangeOf(call).fail('bad_request', message);
  }
}

function refuseMethod(call: Call, candidates: readonly Route[]): void {
  const allowed = [...new Set(candidates.map((each) => each.method))].join(', ');
  call.response.setHeader('Allow', allowed);
  anyExchangeOf(call).fail(
    'method_not_allowed',
    `${call.request.method} is not a method of this path, which takes ${allowed}`,
  );
}

/** A body of unknown length may prove small: the exchange sees to it that it does. */
function announcesTooMuch(request: BrokerRequest): boolean {
  const announced = announcedBytes(request);
  return announced > unwantedBytesMax && announced < Number.POSITIVE_INFINITY;
}

/** 404 of a path that nobody knows. */
export function noSuchRoute(path: string): Uint8Array {
  return Buffer.from(JSON.stringify({ code: 'no_such_route', error: 'not found', path }));
}

/** A monitor may ask for the head of the pages that change nothing. A pop claims, so it has none. */
function methodOf(request: BrokerRequest, segments: readonly string[]): string | undefined {
  return request.method === 'HEAD' && segments[0] !== 'api' ? 'GET' : request.method;
}

function refusePath(call: Call, path: string): void {
  if (isEdgePath(path)) edgeExchangeOf(call).fail('not_found', `there is no ${path}`);
  else exchangeOf(call).failWith(404, noSuchRoute(path));
}

/** Runs the route of a request. False when its path is not under a prefix of this table. */
export function dispatch(services: Services, request: BrokerRequest, response: ServerResponse): boolean {
  const url = request.url ?? '';
  if (request.method === 'POST') {
    // The hot routes without names need no taking apart.
    if (url === '/api/v1/push') {
      push(services, request, response);
      return true;
    }
    if (url === '/api/v1/ack' || url === '/api/v1/ack/batch') {
      ack(services, request, response);
      return true;
    }
  }
  const target = originForm(url);
  const question = target.indexOf('?');
  const path = question < 0 ? target : target.slice(0, question);
  const segments = path.slice(1).split('/');
  if (!ownedPrefixes.includes(segments[0])) return false;
  const candidates = routes.filter((each) => matches(each.segments, segments));
  const method = methodOf(request, segments);
  const found = candidates.find((each) => each.method === method);
  if (found?.run === pop) services.counters.popRequests++;
  else services.counters.otherRequests++;
  const shape = found ?? candidates[0];
  const names = shape === undefined ? [] : decodeNames(shape.segments, segments);
  const query = question < 0 ? '' : target.slice(question + 1);
  const call: Call = { services, request, response, names: names ?? [], query };
  if (names === undefined) refuseEncoding(call);
  else if (found === undefined && candidates.length === 0) refusePath(call, path);
  else if (found === undefined) refuseMethod(call, candidates);
  else if (!found.takesBody && announcesTooMuch(request)) anyExchangeOf(call).refuseTooLarge(unwantedBytesMax);
  else found.run(call);
  return true;
}
