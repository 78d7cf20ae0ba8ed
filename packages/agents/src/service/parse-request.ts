/** Checks what a client sent against a schema, and says what is wrong. */
import type { z } from "zod";
import { isDeeperThan } from "../json-depth.ts";
import { ServiceError } from "./service-error.ts";

const MAX_BODY_DEPTH = 200;

/** Throws ServiceError. */
export function parseBody<Output>(schema: z.ZodType<Output>, body: unknown): Output {
  if (isDeeperThan(body, MAX_BODY_DEPTH))
    throw new ServiceError(
      "INVALID_REQUEST",
      `The body is nested more than ${MAX_BODY_DEPTH} levels deep.`,
    );
  return parse(schema, body ?? {}, "body");
}

/** Throws ServiceError. */
export function parseQuery<Output>(schema: z.ZodType<Output>, query: unknown): Output {
  return parse(schema, query, "query");
}

function parse<Output>(schema: z.ZodType<Output>, given: unknown, what: string): Output {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const problems = result.error.issues.map(
    ({ path, message }) => `${path.length === 0 ? what : path.join(".")}: ${message}`,
  );
  throw new ServiceError("INVALID_REQUEST", `The ${what} is not valid: ${problems.join("; ")}.`);
}
