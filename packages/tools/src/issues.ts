/** Describes what is wrong with a value, in words that a model or a person can act on. */
import { z } from "zod";
import { nearestName } from "./nearest-name.ts";

const MAX_ISSUES = 5;
const MAX_NAME_CHARS = 64;

/** The first problems, in one sentence each. */
export function describeIssues(error: z.ZodError, schema: z.ZodType): string {
  const { issues } = error;
  const shown = issues.slice(0, MAX_ISSUES);
  const rest = issues.length - shown.length;
  return [
    ...shown.map((issue) => describeIssue(issue, keysAt(schema, issue.path))),
    ...(rest > 0 ? [`and ${rest} more`] : []),
  ].join("; ");
}

/** One problem. `known` are the names that the object at its path can have. */
export function describeIssue(issue: z.core.$ZodIssue, known: readonly string[]): string {
  const place = issue.path.map((part) => short(String(part))).join(".");
  if (issue.code === "unrecognized_keys") return unknownNames(issue.keys, place, known);
  const message = messageOf(issue);
  return place === "" ? message : `\`${place}\`: ${message}`;
}

function messageOf(issue: z.core.$ZodIssue): string {
  const message = issue.message.replace(/^Invalid input: /, "");
  if (issue.code !== "invalid_union") return message;
  // "Invalid input" does not say how to fix it. The deepest problem belongs to the form that was
  // meant.
  const firsts = issue.errors.flatMap(([first]) => (first === undefined ? [] : [first]));
  const deepest = firsts.toSorted((one, other) => other.path.length - one.path.length)[0];
  if (deepest === undefined) return message;
  if (deepest.path.length > 0) return describeIssue(deepest, []);
  return [...new Set(firsts.map(messageOf))].join(", or ");
}

/** A name can be as long as the model likes; the message cannot. */
function short(name: string): string {
  return name.length > MAX_NAME_CHARS ? `${name.slice(0, MAX_NAME_CHARS)}…` : name;
}

function unknownNames(keys: readonly string[], place: string, known: readonly string[]): string {
  return keys
    .slice(0, MAX_ISSUES)
    .map((key) => {
      const nearest = nearestName(key, known);
      const shown = place === "" ? short(key) : `${place}.${short(key)}`;
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

/** The schema without the wrappers for optional and transformed values. */
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
