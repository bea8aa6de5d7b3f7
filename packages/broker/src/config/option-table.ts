/**
 * Every option of a broker process: its flag, its environment variables, its unit, default, bounds and meaning.
 * The parser, `lanemq serve --help` and docs/options.md derive from this table; a new option is a new row and nothing
 * else, unless it has to agree with another one (see `crossCheck` in parse.ts).
 */

import { limits } from '@lanemq/protocol';

/** What all kinds of options have in common. */
interface CommonFacts {
  /** Command line flag, with its dashes. */
  readonly flag: string;
  /** Environment variable. */
  readonly variable: string;
  /** Environment variable under which operators of Queen brokers know the option; asked last. */
  readonly alias?: string;
  readonly meaning: string;
}

/** A number without a fraction. `bytes` may be written with KiB, MiB or GiB. */
export interface IntegerFacts extends CommonFacts {
  readonly kind: 'integer' | 'bytes';
  readonly unit: string;
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** A share of a whole, written as a decimal fraction. */
export interface ShareFacts extends CommonFacts {
  readonly kind: 'share';
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

export interface TextFacts extends CommonFacts {
  readonly kind: 'text';
  readonly default: string;
}

export interface ChoiceFacts extends CommonFacts {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default: string;
}

/** A secret of a fixed number of bytes, written as hexadecimal digits. Its value never appears in a message. */
export interface KeyFacts extends CommonFacts {
  readonly kind: 'key';
  readonly bytes: number;
  readonly default: null;
}

export type OptionFacts = IntegerFacts | ShareFacts | TextFacts | ChoiceFacts | KeyFacts;

const kiB = 1024;
const miB = 1024 * kiB;
const giB = 1024 * miB;

export const optionTable = {
  port: {
    kind: 'integer',
    flag: '--port',
    variable: 'LANEMQ_PORT',
    unit: 'port',
    default: 6632,
    min: 0,
    max: 65_535,
    meaning: 'TCP port for HTTP; 0 = any free one, named in the start-up line.',
  },
  host: {
    kind: 'text',
    flag: '--host',
    variable: 'LANEMQ_HOST',
    alias: 'QUEEN_BIND_ADDR',
    default: '127.0.0.1',
    meaning: 'Address to listen on. 0.0.0.0 lets other machines in; there is no authentication yet.',
  },
  dataFolder: {
    kind: 'text',
    flag: '--data',
    variable: 'LANEMQ_DATA',
    default: './lanemq-data',
    meaning: 'Folder of the log, its indexes and snapshots. Created when missing; used by one broker at a time.',
  },
  defaultSubscriptionMode: {
    kind: 'choice',
    flag: '--default-subscription-mode',
    variable: 'LANEMQ_DEFAULT_SUBSCRIPTION_MODE',
    alias: 'DEFAULT_SUBSCRIPTION_MODE',
    choices: ['new', 'all'],
    default: 'new',
    meaning: 'Where a named group starts when its first pop gives no hint: after the backlog (new) or before it (all).',
  },
  encryptionKey: {
    kind: 'key',
    flag: '--encryption-key',
    variable: 'LANEMQ_ENCRYPTION_KEY',
    alias: 'QUEEN_ENCRYPTION_KEY',
    bytes: 32,
    default: null,
    meaning:
      'Key for queues with encryptionEnabled. Prefer the variable: other users of the machine can read command lines.',
  },
  maxBodyBytes: {
    kind: 'bytes',
    flag: '--max-body-bytes',
    variable: 'LANEMQ_MAX_BODY_BYTES',
    alias: 'QUEEN_MAX_BODY_BYTES',
    unit: 'bytes',
    default: limits.bodyBytesMax,
    min: kiB,
    max: limits.appendBytesMax,
    meaning: 'Largest request body, after decompression.',
  },
  admissionBytes: {
    kind: 'bytes',
    flag: '--admission-bytes',
    variable: 'LANEMQ_ADMISSION_BYTES',
    unit: 'bytes',
    default: limits.admissionBytes,
    min: 1,
    max: 64 * giB,
    meaning:
      'Request bytes of pushes in flight. Beyond it a push waits its turn; one that is larger than all of it runs alone.',
  },
  admissionWaitMs: {
    kind: 'integer',
    flag: '--admission-wait-ms',
    variable: 'LANEMQ_ADMISSION_WAIT_MS',
    unit: 'ms',
    default: limits.admissionWaitMs,
    min: 0,
    max: 60_000,
    meaning: 'How long a push waits for room, give or take a quarter, before it is refused with overloaded.',
  },
  answerBytes: {
    kind: 'bytes',
    flag: '--answer-bytes',
    variable: 'LANEMQ_ANSWER_BYTES',
    unit: 'bytes',
    default: 256 * miB,
    min: miB,
    max: 64 * giB,
    meaning:
      'Answer bytes that clients have not read yet. Beyond it the slowest readers are cut, and pops answer 503 until there is room.',
  },
  slowReaderSeconds: {
    kind: 'integer',
    flag: '--slow-reader-seconds',
    variable: 'LANEMQ_SLOW_READER_SECONDS',
    unit: 's',
    default: 30,
    min: 1,
    max: 3600,
    meaning: 'A client must read its answer within this time, plus one second per 256 KiB, or its connection is cut.',
  },
  requestTimeoutMs: {
    kind: 'integer',
    flag: '--request-timeout-ms',
    variable: 'LANEMQ_REQUEST_TIMEOUT_MS',
    unit: 'ms',
    default: 30_000,
    min: 100,
    max: 60_000,
    meaning: 'A request other than a pop that is not durable by then is answered outcome_unknown.',
  },
  receiveTimeoutMs: {
    kind: 'integer',
    flag: '--receive-timeout-ms',
    variable: 'LANEMQ_RECEIVE_TIMEOUT_MS',
    unit: 'ms',
    default: 120_000,
    min: 1000,
    max: 3_600_000,
    meaning: 'A client must have sent its whole request by then, and its headers in a quarter of it.',
  },
  keepAliveMs: {
    kind: 'integer',
    flag: '--keep-alive-ms',
    variable: 'LANEMQ_KEEP_ALIVE_MS',
    unit: 'ms',
    default: 75_000,
    min: 1000,
    max: 3_600_000,
    meaning: 'An idle connection is closed after this time.',
  },
  maxConnections: {
    kind: 'integer',
    flag: '--max-connections',
    variable: 'LANEMQ_MAX_CONNECTIONS',
    unit: 'connections',
    default: 100_000,
    min: 1,
    max: 1_000_000,
    meaning: 'Open connections; further ones are closed at once.',
  },
  maxHeaderBytes: {
    kind: 'bytes',
    flag: '--max-header-bytes',
    variable: 'LANEMQ_MAX_HEADER_BYTES',
    unit: 'bytes',
    default: 16 * kiB,
    min: 4 * kiB,
    max: miB,
    meaning: 'Request line and headers of one request; more is answered 431.',
  },
  maxParkedPops: {
    kind: 'integer',
    flag: '--max-parked-pops',
    variable: 'LANEMQ_MAX_PARKED_POPS',
    unit: 'pops',
    default: limits.parkedPopsMax,
    min: 1,
    max: 10_000_000,
    meaning: 'Pops that wait for messages; further ones are refused with retry.',
  },
  stopGraceMs: {
    kind: 'integer',
    flag: '--stop-grace-ms',
    variable: 'LANEMQ_STOP_GRACE_MS',
    unit: 'ms',
    default: 3000,
    min: 0,
    max: 60_000,
    meaning: 'How long a stopping broker lets clients read their last answers before it cuts the connections.',
  },
  segmentBytes: {
    kind: 'bytes',
    flag: '--segment-bytes',
    variable: 'LANEMQ_SEGMENT_BYTES',
    unit: 'bytes',
    default: 64 * miB,
    min: 64 * kiB,
    max: giB,
    meaning: 'A segment file that has grown to this size is sealed and the next one begun.',
  },
  tailBytes: {
    kind: 'bytes',
    flag: '--tail-bytes',
    variable: 'LANEMQ_TAIL_BYTES',
    unit: 'bytes',
    default: 32 * miB,
    min: miB,
    max: 64 * giB,
    meaning: 'Memory for the newest messages: consumers that keep up are served from it without touching the disk.',
  },
  coldBytes: {
    kind: 'bytes',
    flag: '--cold-bytes',
    variable: 'LANEMQ_COLD_BYTES',
    unit: 'bytes',
    default: 32 * miB,
    min: miB,
    max: 64 * giB,
    meaning: 'Memory for older messages that were read from disk.',
  },
  snapshotLogBytes: {
    kind: 'bytes',
    flag: '--snapshot-log-bytes',
    variable: 'LANEMQ_SNAPSHOT_LOG_BYTES',
    unit: 'bytes',
    default: 256 * miB,
    min: 64 * kiB,
    max: 1024 * giB,
    meaning: 'Log written since the last snapshot that triggers the next one. A restart reads at least this much.',
  },
  partitionCleanupDays: {
    kind: 'integer',
    flag: '--partition-cleanup-days',
    variable: 'LANEMQ_PARTITION_CLEANUP_DAYS',
    alias: 'PARTITION_CLEANUP_DAYS',
    unit: 'days',
    default: 30,
    min: 0,
    max: 36_500,
    meaning:
      'An empty partition that was neither written nor consumed from for this long, and has no dead letters, is deleted; 0 = never.',
  },
  diskFullShare: {
    kind: 'share',
    flag: '--disk-full-share',
    variable: 'LANEMQ_DISK_FULL_SHARE',
    default: 0.85,
    min: 0.01,
    max: 1,
    meaning: 'Used share of the disk from which pushes are refused with storage_full.',
  },
  diskFreeShare: {
    kind: 'share',
    flag: '--disk-free-share',
    variable: 'LANEMQ_DISK_FREE_SHARE',
    default: 0.8,
    min: 0.01,
    max: 1,
    meaning: 'Used share of the disk below which they are accepted again.',
  },
  logLevel: {
    kind: 'choice',
    flag: '--log-level',
    variable: 'LANEMQ_LOG_LEVEL',
    choices: ['error', 'warn', 'info', 'debug'],
    default: 'info',
    meaning: 'Least important kind of line that is written to stderr.',
  },
} as const satisfies Record<string, OptionFacts>;

export type OptionName = keyof typeof optionTable;

type OptionValue<Facts> = Facts extends { kind: 'integer' | 'bytes' | 'share' }
  ? number
  : Facts extends { kind: 'choice'; choices: readonly (infer Choice)[] }
    ? Choice
    : Facts extends { kind: 'key' }
      ? Uint8Array | null
      : string;

/** What a broker is started with. Frozen; keys and meanings are those of the option table. */
export type BrokerConfig = { readonly [Name in OptionName]: OptionValue<(typeof optionTable)[Name]> };

export type LogLevel = BrokerConfig['logLevel'];

/** One line for the operator. */
export interface LogLine {
  readonly level: LogLevel;
  readonly text: string;
}
