/** Says in words what is wrong with a value; each sentence continues after the field's name. */
import type { z } from "zod";

type Issue = z.core.$ZodIssue;
type Union = z.core.$ZodIssueInvalidUnion;
type Bound = z.core.$ZodIssueTooBig | z.core.$ZodIssueTooSmall;

/** How zod's own sentences begin; those of our schemas are kept. */
const DEFAULT_WORDS = /^(?:Invalid|Too (?:big|small)|Unrecognized)/;
const FORMATS: Readonly<Record<string, string>> = {
  base64: "must be base64",
  datetime: "must be a time like 2026-01-31T12:00:00Z",
  url: "must be a URL",
};

interface Problem {
  /** Below the value that the issue is about. */
  readonly path: readonly PropertyKey[];
  readonly words: string;
}

export function problemOf(issue: Issue): Problem {
  if (issue.code === "invalid_union") return problemOfUnion(issue);
  return { path: issue.path, words: wordsFor(issue) };
}

function wordsFor(issue: Issue): string {
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? "is not a valid name";
  if (issue.code === "invalid_type") return wordsForType(issue);
  if (!DEFAULT_WORDS.test(issue.message)) return issue.message;
  if (issue.code === "too_small" || issue.code === "too_big") return wordsForBound(issue);
  if (issue.code === "invalid_value")
    return `must be ${issue.values.length === 1 ? "" : "one of "}${issue.values.map(String).join(", ")}`;
  if (issue.code === "invalid_format")
    return FORMATS[issue.format] ?? `does not match ${issue.pattern ?? "the required format"}`;
  return issue.message.replace(/^[A-Z]/, (letter) => letter.toLowerCase());
}

function wordsForType({ expected, input }: z.core.$ZodIssueInvalidType): string {
  if (input === undefined) return `is missing; it must be ${article(expected)}`;
  if (Array.isArray(input) && expected === "string") return "must be a string, given once";
  return `must be ${article(expected)}`;
}

function wordsForBound(issue: Bound): string {
  const isSmall = issue.code === "too_small";
  const bound = isSmall ? issue.minimum : issue.maximum;
  const limit = `at ${isSmall ? "least" : "most"} ${bound}`;
  if (issue.origin === "string" || issue.origin === "array" || issue.origin === "set") {
    if (isSmall && bound === 1) return "must not be empty";
    return `must have ${limit} ${issue.origin === "string" ? "characters" : "items"}`;
  }
  return issue.inclusive === false
    ? `must be ${isSmall ? "more" : "less"} than ${bound}`
    : `must be ${limit}`;
}

/** The problem of the only form that has the type of the value, or what types there are. */
function problemOfUnion({ path, errors }: Union): Problem {
  const first = errors.flatMap(([issue]) => (issue === undefined ? [] : [issue]));
  const types = first.flatMap((issue) => (isOfOtherType(issue) ? [article(issue.expected)] : []));
  const near = first.find((issue) => !isOfOtherType(issue));
  if (near === undefined) return { path, words: `must be ${[...new Set(types)].join(" or ")}` };
  const { path: below, words } = problemOf(near);
  const others = near.code === "invalid_value" ? types.map((type) => ` or ${type}`) : [];
  return { path: [...path, ...below], words: words + others.join("") };
}

function isOfOtherType(issue: Issue): issue is z.core.$ZodIssueInvalidType {
  return issue.code === "invalid_type" && issue.path.length === 0;
}

function article(expected: string): string {
  if (expected === "int") return "an integer";
  if (expected === "array") return "a list";
  return `${/^[aeiou]/.test(expected) ? "an" : "a"} ${expected}`;
}
