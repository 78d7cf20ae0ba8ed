/** One value of one key, its source, and its errors. */
import type { z } from "zod";
import { innerSchema } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import { nearestName } from "./nearest-name.ts";

export type SourceKind = "default" | "file" | "env" | "flag";

export interface Source {
  readonly kind: SourceKind;
  /** `default`, `file:line:column`, or the name of the variable or flag. */
  readonly name: string;
}

export interface Setting {
  readonly key: ConfigKey;
  readonly value: unknown;
  readonly source: Source;
  /** The original text, if it differs from the value. */
  readonly written?: string;
  /** The position of a part of the value, or of that part's name, in a file. */
  readonly locate?: (part: readonly PropertyKey[], which?: "value" | "name") => string;
}

/** The settings of one configuration source. */
export interface Layer {
  readonly settings: readonly Setting[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  /** The source has more content that could not be parsed. */
  readonly unreadable?: boolean;
}

/** Every error of a value, each as a sentence that says where it is and what is allowed. */
export function problemsOf(setting: Setting): string[] {
  const result = setting.key.schema.safeParse(setting.value);
  const issues = result.success ? [] : result.error.issues;
  // -1.5 violates two rules with the same message.
  return [...new Set(issues.flatMap((issue) => describe(setting, issue)))];
}

function describe(setting: Setting, issue: z.core.$ZodIssue): string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((name) => unknownField(setting, issue.path, name));
  }
  const subject = subjectOf(setting, issue.path);
  // SECURITY: a refused key must not reach a log through its error message (threat: leaked secrets
  // and descriptors: no keys where they do not belong). Guarded by load-config.test.ts, "never
  // repeats a key".
  if (setting.key.secret) return [`${subject} ${issue.message}`];
  const written = issue.path.length === 0 ? setting.written : undefined;
  const shown = show(written ?? partOf(setting.value, issue.path));
  return [`${subject} is ${shown}; it ${issue.message}`];
}

function unknownField(setting: Setting, part: readonly PropertyKey[], name: string): string {
  const known = fieldNames(setting.key.schema).map((field) => ({ compared: field, shown: field }));
  const subject = subjectOf(setting, [...part, name], "name");
  return `${subject} is not known; the nearest known name is ${nearestName(name, known)}`;
}

/** The position and the name, as in `/etc/x.yaml:3:5: pool[0].size` or `SANDKASTEN_POOL: pool[0].size`. */
function subjectOf(
  { key, source, locate }: Setting,
  part: readonly PropertyKey[],
  which: "value" | "name" = "value",
): string {
  const name = key.name + part.map(step).join("");
  if (locate !== undefined) return `${locate(part, which)}: ${name}`;
  if (part.length > 0) return `${source.name}: ${name}`;
  const isOlderName = source.kind === "env" && source.name !== key.variable;
  return isOlderName ? `${source.name} (${key.name})` : source.name;
}

function step(name: PropertyKey): string {
  return typeof name === "number" ? `[${name}]` : `.${String(name)}`;
}

/** The names of the fields of a list's elements. */
function fieldNames(schema: z.ZodType): string[] {
  const inner = innerSchema(schema) as Partial<z.ZodArray<z.ZodObject>>;
  return Object.keys(inner.element?.shape ?? {});
}

function partOf(value: unknown, part: readonly PropertyKey[]): unknown {
  let found = value;
  for (const name of part) found = (found as Record<PropertyKey, unknown> | undefined)?.[name];
  return found;
}

const SHOWN_CHARACTERS = 80;

/** A value for display: short, and without content if it is more than a word. */
export function show(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a mapping";
  const shown = JSON.stringify(value);
  return shown.length > SHOWN_CHARACTERS ? `${shown.slice(0, SHOWN_CHARACTERS)}…` : shown;
}
