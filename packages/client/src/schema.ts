/**
 * Payload types checked by a validator that the user brings: anything that implements Standard Schema, version 1
 * (https://standardschema.dev), as Zod, Valibot and ArkType do. The interfaces are that page's, as far as they are used.
 */
import { LaneError } from './errors.ts';

/** One thing that is wrong with a payload. */
export interface SchemaIssue {
  /** What is wrong, for people. */
  readonly message: string;
  /** Where in the payload; absent: the whole. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** A validator. `Input` is what producers push, `Output` what handlers get. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The payload as the schema gives it. @throws LaneError `bad_payload` with what the schema found. */
export async function validated<Output>(schema: StandardSchema<unknown, Output>, payload: unknown): Promise<Output> {
  const result = await schema['~standard'].validate(payload);
  if (result.issues === undefined) return result.value;
  const texts = result.issues.map(({ message, path = [] }) => {
    const place = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return place === '' ? message : `${place}: ${message}`;
  });
  const message = `the payload does not pass the schema: ${texts.join('; ')}`;
  throw new LaneError({ code: 'bad_payload', message, issues: result.issues });
}
