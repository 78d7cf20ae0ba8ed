/** Checks requests against the schemas of the API and says what is wrong with them in words. */
import { SandboxError } from "@sandkasten/protocol";
import type { FastifySchemaCompiler } from "fastify";
import { z } from "zod";
import { nearestName } from "../config/nearest-name.ts";

type Issue = z.core.$ZodIssue;

const PLACES: Readonly<Record<string, string>> = {
  body: "the body",
  querystring: "the query",
  params: "the path",
  headers: "the headers",
};
const MAX_ISSUES = 10;

export const compileValidator: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart }) => {
  const place = PLACES[httpPart ?? "body"] ?? "the request";
  const isBody = httpPart === "body";
  const isHeaders = httpPart === "headers";
  return (data: unknown) => {
    // Fastify gives null for a body that is not there.
    const result = schema.safeParse(isBody && data === null ? {} : data, { reportInput: true });
    if (!result.success) return { error: invalid(place, schema, result.error.issues) };
    return { value: isHeaders ? data : result.data };
  };
};

function invalid(place: string, schema: z.ZodType, issues: readonly Issue[]): SandboxError {
  const problems = issues.slice(0, MAX_ISSUES).flatMap((issue) => problemsOf(issue, schema));
  const sentences = problems.map(({ field, problem }) =>
    field === "" ? problem : `\`${field}\` ${problem}`,
  );
  return new SandboxError(
    "INVALID_REQUEST",
    `${place} is not as it must be: ${sentences.join("; ")}`,
    {
      details: { issues: problems },
    },
  );
}

interface Problem {
  readonly field: string;
  readonly problem: string;
}

function problemsOf(issue: Issue, schema: z.ZodType): Problem[] {
  const path = issue.path.map(String);
  const field = path.join(".");
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(schema, path);
    return issue.keys.map((key) => ({
      field: shownName([...path, key]),
      problem: unknownField(key, known),
    }));
  }
  if (issue.code === "invalid_key")
    return [{ field, problem: issue.issues[0]?.message ?? "is no name" }];
  if (issue.code === "invalid_union")
    return [{ field, problem: "has none of the forms it may have" }];
  if (issue.code === "invalid_type" && issue.input === undefined) {
    return [{ field, problem: `is missing; it must be ${article(issue.expected)}` }];
  }
  if (issue.code === "invalid_type")
    return [{ field, problem: `must be ${article(issue.expected)}` }];
  // zod's own sentences begin with a capital, ours go on after the field's name.
  return [
    { field, problem: issue.message.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase()) },
  ];
}

function unknownField(key: string, known: readonly string[]): string {
  if (known.length === 0) return "is not known";
  const nearest = nearestName(
    key,
    known.map((name) => ({ compared: name, shown: name })),
  );
  return `is not known; the nearest that is known is \`${nearest}\``;
}

/** Names come from the client: no more of them than is needed to find them again. */
function shownName(path: readonly string[]): string {
  return path.join(".").slice(0, 128);
}

/** The fields that an object has at a place inside a schema. */
function fieldsAt(schema: z.ZodType, path: readonly string[]): string[] {
  let at: unknown = unwrapped(schema);
  for (const name of path) {
    if (!(at instanceof z.ZodObject)) return [];
    at = unwrapped(at.shape[name]);
  }
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

function unwrapped(schema: unknown): unknown {
  return schema instanceof z.ZodOptional ? unwrapped(schema.unwrap()) : schema;
}

function article(expected: string): string {
  if (expected === "int") return "a whole number";
  return `${/^[aeiou]/.test(expected) ? "an" : "a"} ${expected}`;
}
