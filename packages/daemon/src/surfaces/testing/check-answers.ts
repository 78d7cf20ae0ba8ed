/** Holds answers against the schemas that the OpenAPI document is made from. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

/** Gives a list that grows by every answer that is not as its route says. */
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
  // Nobody is there any more to get a 499.
  if (answers === undefined || reply.statusCode === 499) return undefined;
  const answer = answers[reply.statusCode] as
    | z.ZodType
    | { readonly content: Readonly<Record<string, { readonly schema: z.ZodType }>> }
    | undefined;
  if (answer === undefined) return "the route does not say that it answers this";
  const schema = answer instanceof z.ZodType ? answer : answer.content["application/json"]?.schema;
  if (schema === undefined) return "the route does not say that it answers JSON";
  const sent: unknown = JSON.parse(JSON.stringify(payload));
  const parsed = schema.safeParse(sent);
  if (!parsed.success) return parsed.error.message;
  return isDeepStrictEqual(parsed.data, sent) ? undefined : "it has fields that its schema has not";
}
