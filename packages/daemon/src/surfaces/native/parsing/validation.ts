/** Checks requests against the schemas of the API and says what is wrong with them in words. */
import { SandboxError } from "@sandkasten/protocol";
import type { FastifySchemaCompiler } from "fastify";
import type { z } from "zod";
import type { App } from "../../http/app.ts";
import { tellIgnored } from "./ignored-fields.ts";
import { lenient } from "./lenient-fields.ts";

type Issue = z.core.$ZodIssue;

const PLACES: Readonly<Record<string, string>> = {
  body: "request body",
  querystring: "query",
  params: "path",
  headers: "headers",
};
const MAX_ISSUES = 10;
const MAX_FIELD_LENGTH = 128;

export class Validation {
  /** By the value that was checked, which is all that a check can leave behind. */
  readonly #ignored = new WeakMap<object, readonly string[]>();

  readonly compile: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart }) => {
    const place = PLACES[httpPart ?? "body"] ?? "request";
    const isHeaders = httpPart === "headers";
    const understand = lenient(schema);
    return (input: unknown) => {
      // Fastify gives null for a body that is not there.
      const { data, ignored } = understand(input ?? {});
      const result = schema.safeParse(data, { reportInput: true });
      if (!result.success) return { error: invalid(place, result.error.issues) };
      if (isHeaders) return { value: headersMeant(input as Headers, data as Headers, ignored) };
      if (ignored.length > 0) this.#ignored.set(result.data as object, ignored);
      return { value: result.data };
    };
  };

  /** The fields of a checked body or query that its schema does not have. */
  ignoredIn(value: unknown): readonly string[] {
    return typeof value === "object" && value !== null ? (this.#ignored.get(value) ?? []) : [];
  }
}

/** Names the fields that a request's schema does not have in a header of the response. */
export function tellIgnoredFields(app: App, validation: Validation): void {
  app.addHook("preHandler", (request, reply, done) => {
    for (const part of [request.query, request.body])
      tellIgnored(reply, validation.ignoredIn(part));
    done();
  });
}

type Headers = Readonly<Record<string, unknown>>;

/**
 * All headers that the route does not know stay, for others. One that is empty counts as absent, and is
 * said to be so: Fastify keeps what is left out.
 */
function headersMeant(sent: Headers, meant: Headers, others: readonly string[]): Headers {
  const kept = new Set([...Object.keys(meant), ...others]);
  const absent = Object.keys(sent).filter((name) => !kept.has(name));
  return { ...sent, ...Object.fromEntries(absent.map((name) => [name, undefined])) };
}

/** Few problems and short names, so that no request gets an answer much larger than itself. */
function invalid(place: string, issues: readonly Issue[]): SandboxError {
  const problems = issues.slice(0, MAX_ISSUES).map(problemOf);
  const sentences = problems.map(({ field, problem }) =>
    field === "" ? problem : `\`${field}\` ${problem}`,
  );
  return new SandboxError("INVALID_REQUEST", `invalid ${place}: ${sentences.join("; ")}`, {
    details: { issues: problems },
  });
}

interface Problem {
  readonly field: string;
  readonly problem: string;
}

function problemOf(issue: Issue): Problem {
  const field = issue.path.map(String).join(".").slice(0, MAX_FIELD_LENGTH);
  return { field, problem: wordsFor(issue) };
}

function wordsFor(issue: Issue): string {
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? "is no name";
  if (issue.code === "invalid_union") return "has none of the forms it may have";
  if (issue.code === "invalid_type" && issue.input === undefined)
    return `is missing; it must be ${article(issue.expected)}`;
  if (issue.code === "invalid_type") return `must be ${article(issue.expected)}`;
  // zod's own sentences begin with a capital, ours go on after the field's name.
  return issue.message.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}

function article(expected: string): string {
  if (expected === "int") return "an integer";
  return `${/^[aeiou]/.test(expected) ? "an" : "a"} ${expected}`;
}
