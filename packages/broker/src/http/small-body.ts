/** Bodies of the routes that take a few settings: small, and read as a plain JSON value. */

import { limits } from '@lanemq/protocol';
import { checkJson } from '../codec/mod.ts';
import type { Admission } from './admission.ts';
import { BodyExchange } from './body-exchange.ts';

/** The largest lawful one is a few kilobytes of names and options; reading a giant would hold up everybody. */
const smallBodyBytesMax = 1024 * 1024;

export abstract class SmallBodyExchange extends BodyExchange {
  protected readonly badBodyCode = 'bad_request';

  protected override bodyBytesMax(): number {
    return Math.min(smallBodyBytesMax, this.services.options.maxBodyBytes);
  }

  protected admissionFor(): Admission | null {
    return null;
  }
}

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The JSON value of a body; undefined when it is none, or nested deeper than any body may be. */
export function parseJson(body: Uint8Array): unknown {
  if (checkJson(body, limits.jsonDepthMax) !== undefined) return undefined;
  // What is wrong with it does not matter: the callers say that it is not JSON, or take it for absent.
  return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8'));
}
