/**
 * Every seed is another world: features and faults are wholly on or off, the weights of the rest differ wildly, and
 * numbers go to their extremes.
 */
import { drawRetention, type RetentionWorld } from './expected-retention.ts';
import { SimulatedRandom } from './simulated-random.ts';

/** What clients do in a world. */
export interface Features {
  readonly pinnedPops: boolean;
  readonly discoverPops: boolean;
  readonly autopilot: boolean;
  readonly longPolls: boolean;
  readonly manyPartitionsPerPop: boolean;
  readonly commitOnDelivery: boolean;
  readonly conflation: boolean;
  readonly subscriptionModes: boolean;
  readonly cancelledPops: boolean;
  readonly extensions: boolean;
  readonly failures: boolean;
  readonly retries: boolean;
  readonly givingUp: boolean;
  readonly expiries: boolean;
  readonly acksWithoutLease: boolean;
  readonly wrongAcks: boolean;
  readonly repeatedAcks: boolean;
  readonly mixedAcks: boolean;
  readonly repeatedPushes: boolean;
  readonly sharedIds: boolean;
  readonly mintedIds: boolean;
  readonly largePayloads: boolean;
  readonly delays: boolean;
  readonly quietTimes: boolean;
  readonly retryDelays: boolean;
  readonly ttls: boolean;
  readonly maxSizes: boolean;
  readonly dedupWindows: boolean;
  readonly encryption: boolean;
  readonly reconfigures: boolean;
  readonly deletes: boolean;
  readonly reads: boolean;
  readonly seeks: boolean;
  readonly groupDeletes: boolean;
  readonly groupMoves: boolean;
  readonly pauses: boolean;
  readonly dueMessages: boolean;
  readonly deadLetterChanges: boolean;
  readonly deliveryLimits: boolean;
  readonly leaseCeilings: boolean;
  readonly groupLimits: boolean;
  readonly edges: boolean;
}

/** What goes wrong in a world. */
export interface Faults {
  readonly powerCuts: boolean;
  readonly kills: boolean;
  readonly stops: boolean;
  readonly failingOperations: boolean;
  readonly fullDisk: boolean;
  readonly flippedBits: boolean;
  readonly sleeps: boolean;
  readonly wallClockSteps: boolean;
}

export interface WorldOptions {
  readonly seed: number;
  /** The first phase ends after this time, or after this many records. */
  readonly durationMs: number;
  readonly recordsMax: number;
  readonly queues: number;
  readonly partitions: number;
  readonly producers: number;
  readonly consumers: number;
  readonly groups: number;
  /** Mean time between two actions of one client. */
  readonly thinkMs: number;
  readonly itemsPerPushMax: number;
  readonly batchMax: number;
  readonly leaseSecondsMax: number;
  readonly payloadBytesMax: number;
  readonly diskLatencyMsMax: number;
  /** How long a turn of the broker's loop may take to come. */
  readonly turnDelayMsMax: number;
  readonly networkDelayMsMax: number;
  readonly lossShare: number;
  /** Mean time between two faults. */
  readonly faultEveryMs: number;
  readonly features: Features;
  readonly faults: Faults;
  /** Weights of completed, failed, retry, dlq and of no result for a delivered record. */
  readonly resultWeights: readonly number[];
  readonly segmentBytes: number;
  readonly slabBytes: number;
  readonly tailBytes: number;
  readonly coldBytes: number;
  readonly coldPageBytes: number;
  readonly zeroStepBytes: number;
  readonly largeWriteBytes: number;
  readonly openSegmentsMax: number;
  readonly indexCacheBytes: number;
  readonly rememberedBlocksMax: number;
  readonly keptRowBytes: number;
  readonly snapshotLogBytes: number;
  readonly retention: RetentionWorld;
}

const featureNames: readonly (keyof Features)[] = [
  'pinnedPops',
  'discoverPops',
  'autopilot',
  'longPolls',
  'manyPartitionsPerPop',
  'commitOnDelivery',
  'conflation',
  'subscriptionModes',
  'cancelledPops',
  'extensions',
  'failures',
  'retries',
  'givingUp',
  'expiries',
  'acksWithoutLease',
  'wrongAcks',
  'repeatedAcks',
  'mixedAcks',
  'repeatedPushes',
  'sharedIds',
  'mintedIds',
  'largePayloads',
  'delays',
  'quietTimes',
  'retryDelays',
  'ttls',
  'maxSizes',
  'dedupWindows',
  'encryption',
  'reconfigures',
  'deletes',
  'reads',
];

/** Drawn apart, so that the rest of a seed's world is what it was before there were these. */
const groupFeatureNames: readonly (keyof Features)[] = ['seeks', 'groupDeletes', 'groupMoves', 'pauses'];
/** Drawn apart, so that worlds of seeds that were known before differ in these only. */
const laterFeatureNames: readonly (keyof Features)[] = [
  'deadLetterChanges',
  'deliveryLimits',
  'leaseCeilings',
  'groupLimits',
];

const faultNames: readonly (keyof Faults)[] = [
  'powerCuts',
  'kills',
  'stops',
  'failingOperations',
  'fullDisk',
  'flippedBits',
  'sleeps',
  'wallClockSteps',
];

export function drawWorld(seed: number): WorldOptions {
  const random = new SimulatedRandom(seed, 7);
  const one = <Value>(...values: Value[]): Value => values[random.integer(values.length)];
  const between = (low: number, high: number): number => low + random.integer(high - low + 1);
  // How much is on at all differs from world to world.
  const featureShare = one(0.15, 0.4, 0.6, 0.85);
  const features = {} as Record<keyof Features, boolean>;
  for (const name of featureNames) features[name] = random.chance(featureShare);
  const groupRandom = new SimulatedRandom(seed, 11);
  const groupShare = [0, 0.3, 0.7][groupRandom.integer(3)];
  for (const name of groupFeatureNames) features[name] = groupRandom.chance(groupShare);
  const later = new SimulatedRandom(seed, 12);
  for (const name of laterFeatureNames) features[name] = later.chance(0.4);
  features.dueMessages = new SimulatedRandom(seed, 13).chance(0.5);
  features.edges = new SimulatedRandom(seed, 14).chance(0.3);
  const faultShare = one(0, 0.25, 0.5, 0.8);
  const faults = {} as Record<keyof Faults, boolean>;
  for (const name of faultNames) faults[name] = random.chance(faultShare);
  const slabBytes = one(512, 1024, 4096, 16_384);
  return {
    seed,
    durationMs: between(2, 10) * 1000,
    recordsMax: one(100, 300, 1000, 3000),
    queues: between(1, 3),
    partitions: one(1, 2, 5, 20, 60),
    producers: between(1, 4),
    consumers: between(1, 8),
    groups: between(1, 4),
    thinkMs: one(5, 20, 60, 200),
    itemsPerPushMax: one(1, 3, 10, 40),
    batchMax: one(1, 3, 10, 100, 1000),
    leaseSecondsMax: one(1, 2, 5),
    payloadBytesMax: one(10, 100, 400),
    diskLatencyMsMax: one(0.2, 1, 1, 5),
    turnDelayMsMax: one(0, 1, 10),
    networkDelayMsMax: one(0, 1, 10),
    lossShare: one(0, 0, 0.02, 0.2),
    faultEveryMs: one(300, 1000, 3000),
    features,
    faults,
    resultWeights: [one(1, 10, 40), one(0, 1, 5), one(0, 1, 5), one(0, 1, 5), one(0, 1, 5)],
    segmentBytes: one(1024, 4096, 16_384, 65_536),
    slabBytes,
    tailBytes: one(256, 4096, 16_384, 262_144),
    coldBytes: one(0, 2048, 65_536),
    coldPageBytes: one(128, 512, 4096),
    zeroStepBytes: one(1024, 16_384),
    openSegmentsMax: one(1, 3, 64),
    snapshotLogBytes: one(2048, 8192, 65_536, 1_000_000_000),
    indexCacheBytes: one(4096, 65_536, 1_000_000),
    rememberedBlocksMax: one(128, 10_000),
    keptRowBytes: one(0, 65_536, 262_144, 16 * 1024 * 1024),
    largeWriteBytes: one(128, 1024, 65_536),
    retention: drawRetention(seed),
  };
}

/** The names of what is on, for people. */
export function describeWorld({ features, faults, retention }: WorldOptions): string {
  const on = (names: readonly string[], from: object): string =>
    names.filter((name) => (from as Record<string, boolean>)[name]).join(' ') || 'none';
  const kept =
    (retention.isOn ? ' retention' : '') +
    (features.dueMessages ? ' dueMessages' : '') +
    (features.edges ? ' edges' : '');
  const names = [...featureNames, ...groupFeatureNames, ...laterFeatureNames];
  return `features: ${on(names, features)}${kept}; faults: ${on(faultNames, faults)}`;
}
