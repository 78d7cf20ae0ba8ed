/** Checks a client's request against a schema, and reports what is wrong. */
import type { z } from "zod";
import { shortenedText } from "../runs/shorten.ts";
import { ServiceError } from "./service-error.ts";

const MAX_PROBLEMS = 10;
const MAX_PROBLEM_LENGTH = 300;

/** Throws ServiceError. */
export function parseBody<Output>(schema: z.ZodType<Output>, body: unknown): Output {
  return parse(schema, body ?? {}, "body");
}

/** Throws ServiceError. */
export function parseQuery<Output>(schema: z.ZodType<Output>, query: unknown): Output {
  return parse(schema, query, "query");
}

function parse<Output>(schema: z.ZodType<Output>, given: unknown, what: string): Output {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  // Messages quote the request, so an error could otherwise be as long as the request.
  const problems = result.error.issues
    .slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => `${path.length === 0 ? what : path.join(".")}: ${message}`)
    .map((problem) => shortenedText(problem, MAX_PROBLEM_LENGTH));
  throw new ServiceError("INVALID_REQUEST", `The ${what} is not valid: ${problems.join("; ")}.`);
}
