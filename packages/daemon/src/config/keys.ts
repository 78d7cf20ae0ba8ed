/** The configuration's keys as a list, each with its names. */
import { z } from "zod";
import { configSchema } from "./schema.ts";

export interface ConfigKey {
  /** As in `defaults.mem_limit_mb`. */
  readonly name: string;
  readonly path: readonly string[];
  /** As in `SANDKASTEN_DEFAULTS_MEM_LIMIT_MB`. */
  readonly variable: string;
  /** As in `--defaults.mem-limit-mb`. */
  readonly flag: string;
  readonly schema: z.ZodType;
  readonly description: string;
  /** Its value is never shown. */
  readonly secret: boolean;
  /** The effective behaviour without a value, for a key whose default depends on the machine. */
  readonly unset: string | undefined;
}

export const VARIABLE_PREFIX = "SANDKASTEN_";

export function configKeys(): readonly ConfigKey[] {
  return keysOf(configSchema, []);
}

function keysOf(group: z.ZodObject, above: readonly string[]): ConfigKey[] {
  return Object.entries(group.shape).flatMap(([name, schema]) => {
    const path = [...above, name];
    const inner = innerSchema(schema);
    return inner instanceof z.ZodObject ? keysOf(inner, path) : [keyOf(schema as z.ZodType, path)];
  });
}

function keyOf(schema: z.ZodType, path: readonly string[]): ConfigKey {
  const { description = "", secret, unset } = schema.meta() ?? {};
  return {
    name: path.join("."),
    path,
    variable: VARIABLE_PREFIX + path.join("_").toUpperCase(),
    flag: `--${path.join(".").replaceAll("_", "-")}`,
    schema,
    description,
    secret: secret === true,
    unset: typeof unset === "string" ? unset : undefined,
  };
}

/** The schema without its optional and default wrappers. */
export function innerSchema(schema: z.core.$ZodType): z.core.$ZodType {
  let inner = schema;
  while (
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault ||
    inner instanceof z.ZodOptional
  ) {
    inner = inner.unwrap();
  }
  return inner;
}
