/** Fields that several tools accept, and the only place that unifies their spellings. */
import { z } from "zod";

/** The names of a sandbox. */
export const sandboxFields = {
  sandbox_id: z
    .string()
    .min(1)
    .optional()
    .describe("From sandbox_open. Leave it out to use the run's own sandbox."),
  session_id: z.string().min(1).optional().describe("= sandbox_id"),
  id: z.string().min(1).optional().describe("= sandbox_id"),
};

export const timeoutFields = {
  timeout_seconds: z.number().positive().max(86_400).optional(),
  timeout_ms: z.int().min(1).max(86_400_000).optional().describe("= timeout_seconds, in ms"),
};

/** Where a schema reports that an input contradicts itself. */
type Context = z.core.$RefinementCtx;

/**
 * The value given under several names. Two different values are an error that names both, and the
 * first one is used.
 */
export function oneOf<Value>(
  context: Context,
  names: Readonly<Record<string, Value | undefined>>,
): Value | undefined {
  const given = Object.entries(names).filter(
    (entry): entry is [string, Value] => entry[1] !== undefined,
  );
  const [first] = given;
  const other = given.find(([, value]) => JSON.stringify(value) !== JSON.stringify(first?.[1]));
  if (first !== undefined && other !== undefined)
    context.addIssue({
      code: "custom",
      message: `\`${first[0]}\` and \`${other[0]}\` are two names for the same thing, and their values differ; give one of them`,
    });
  return first?.[1];
}

export function sandboxIdOf(
  context: Context,
  { sandbox_id, session_id, id }: Partial<Record<keyof typeof sandboxFields, string | undefined>>,
): string | undefined {
  return oneOf(context, { sandbox_id, session_id, id });
}

/** `timeout_ms` takes precedence. */
export function timeoutMsOf(input: {
  readonly timeout_seconds?: number | undefined;
  readonly timeout_ms?: number | undefined;
}): number | undefined {
  const { timeout_seconds: seconds, timeout_ms: ms } = input;
  return ms ?? (seconds === undefined ? undefined : Math.ceil(seconds * 1000));
}
