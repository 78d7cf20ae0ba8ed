/** Checks responses against the schemas that the OpenAPI document is generated from. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

/** Returns a list that grows with every response that does not match its route's schema. */
export function checkAnswers(app: FastifyInstance): readonly string[] {
  const wrong: string[] = [];
  app.addHook("preSerialization", (request, reply, payload, done) => {
    const problem = problemOf(request, reply, payload);
    if (problem !== undefined)
      wrong.push(
        `${request.method} ${request.routeOptions.url ?? ""} ${reply.statusCode}: ${problem}`,
      );
    done(null, payload);
  });
  return wrong;
}

function problemOf(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
): string | undefined {
  const answers = request.routeOptions.schema?.response as Record<number, unknown> | undefined;
  // A 499 is never received.
  if (answers === undefined || reply.statusCode === 499) return undefined;
  const answer = answers[reply.statusCode] as
    | z.ZodType
    | { readonly content: Readonly<Record<string, { readonly schema: z.ZodType }>> }
    | undefined;
  if (answer === undefined) return "the route does not declare this status";
  const schema = answer instanceof z.ZodType ? answer : answer.content["application/json"]?.schema;
  if (schema === undefined) return "the route does not declare a JSON response";
  const sent: unknown = JSON.parse(JSON.stringify(payload));
  const parsed = schema.safeParse(sent);
  if (!parsed.success) return parsed.error.message;
  return isDeepStrictEqual(parsed.data, sent) ? undefined : "it has fields that its schema lacks";
}
