/** Says what is wrong with a value, in words that a model or a person can act on. */
import { z } from "zod";
import { nearestName } from "./nearest-name.ts";

/** All problems in one sentence each. */
export function describeIssues(error: z.ZodError, schema: z.ZodType): string {
  return error.issues.map((issue) => describeIssue(issue, keysAt(schema, issue.path))).join("; ");
}

/** One problem. `known` are the names that the object at its path can have. */
export function describeIssue(issue: z.core.$ZodIssue, known: readonly string[]): string {
  const place = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") return unknownNames(issue.keys, place, known);
  const message = issue.message.replace(/^Invalid input: /, "");
  return place === "" ? message : `\`${place}\`: ${message}`;
}

function unknownNames(keys: readonly string[], place: string, known: readonly string[]): string {
  return keys
    .map((key) => {
      const nearest = nearestName(key, known);
      const shown = place === "" ? key : `${place}.${key}`;
      const hint = nearest === undefined ? "" : `; the nearest known name is \`${nearest.name}\``;
      return `\`${shown}\` is not a known name${hint}`;
    })
    .join("; ");
}

/** The names of the object that the path leads to. */
export function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): readonly string[] {
  let inner = innerSchema(schema);
  for (const name of path) {
    if (!(inner instanceof z.ZodObject)) return [];
    inner = innerSchema(Reflect.get(inner.shape, name));
  }
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : [];
}

/** The schema without what says that a value may be absent or is changed afterwards. */
function innerSchema(schema: unknown): unknown {
  let inner = schema;
  for (;;) {
    if (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault) inner = inner.unwrap();
    else if (inner instanceof z.ZodPipe) inner = inner.in;
    else return inner instanceof z.ZodUnion ? objectOf(inner.options) : inner;
  }
}

function objectOf(options: readonly unknown[]): unknown {
  return options.map(innerSchema).find((option) => option instanceof z.ZodObject);
}
