/** Validates requests against the schemas of the API and describes errors in words. */
import { SandboxError } from "@sandkasten/protocol";
import type { FastifySchemaCompiler } from "fastify";
import { z } from "zod";
import type { App } from "../../http/app.ts";
import { reportIgnored } from "./ignored-fields.ts";
import { lenient } from "./lenient-fields.ts";
import { problemOf } from "./problem-words.ts";

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
  /** Keyed by the validated value, the only thing that a check can pass on. */
  readonly #ignored = new WeakMap<object, readonly string[]>();

  readonly compile: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart }) => {
    const place = PLACES[httpPart ?? "body"] ?? "request";
    const isHeaders = httpPart === "headers";
    const understand = lenient(schema);
    const optionalHeaders = isHeaders ? optionalNames(schema) : undefined;
    return (input: unknown) => {
      if (optionalHeaders?.every((name) => !Object.hasOwn(input as Headers, name)) === true)
        return { value: input };
      // Fastify passes null for a missing body.
      const { data, ignored } = understand(input ?? {});
      const result = schema.safeParse(data, { reportInput: true });
      if (!result.success) return { error: invalid(place, result.error.issues) };
      if (isHeaders) return { value: headersMeant(input as Headers, data as Headers, ignored) };
      if (ignored.length > 0) this.#ignored.set(result.data as object, ignored);
      return { value: result.data };
    };
  };

  /** The unknown fields of a validated body or query. */
  ignoredIn(value: unknown): readonly string[] {
    return typeof value === "object" && value !== null ? (this.#ignored.get(value) ?? []) : [];
  }
}

/** Reports a request's unknown fields in a response header. */
export function reportIgnoredFields(app: App, validation: Validation): void {
  app.addHook("preHandler", (request, reply, done) => {
    for (const part of [request.query, request.body])
      reportIgnored(reply, validation.ignoredIn(part));
    done();
  });
}

type Headers = Readonly<Record<string, unknown>>;

/** The names of a schema's fields if all of them may be absent. */
function optionalNames(schema: z.ZodType): readonly string[] | undefined {
  if (!(schema instanceof z.ZodObject) || !schema.safeParse({}).success) return undefined;
  return Object.keys(schema.shape);
}

/**
 * Headers unknown to the route are kept for others. An empty one counts as absent and must be set
 * explicitly, since Fastify keeps omitted ones.
 */
function headersMeant(sent: Headers, meant: Headers, others: readonly string[]): Headers {
  const kept = new Set([...Object.keys(meant), ...others]);
  const absent = Object.keys(sent).filter((name) => !kept.has(name));
  return { ...sent, ...Object.fromEntries(absent.map((name) => [name, undefined])) };
}

/**
 * Limits the number of problems and the length of names, so no request gets a response much larger
 * than itself.
 */
function invalid(place: string, issues: readonly Issue[]): SandboxError {
  const problems = issues.slice(0, MAX_ISSUES).map((issue) => {
    const { path, words } = problemOf(issue);
    return { field: path.map(String).join(".").slice(0, MAX_FIELD_LENGTH), problem: words };
  });
  const sentences = new Set(
    problems.map(({ field, problem }) => (field === "" ? problem : `\`${field}\` ${problem}`)),
  );
  return new SandboxError("INVALID_REQUEST", `invalid ${place}: ${[...sentences].join("; ")}`, {
    details: { issues: problems },
  });
}
