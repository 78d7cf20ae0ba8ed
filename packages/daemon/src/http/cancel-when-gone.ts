/** Cancels a command when the client that waits for it goes away, where the request asks for that. */
import type { FastifyReply } from "fastify";
import type { HttpContext } from "./context.ts";
import { failureForLog } from "./error-answer.ts";

export interface WaitedFor {
  readonly sessionId: string;
  readonly execId: string;
}

/** Must be called before the answer begins. */
export function cancelWhenGone(
  { services, shutdown }: HttpContext,
  reply: FastifyReply,
  { sessionId, execId }: WaitedFor,
): void {
  reply.raw.once("close", () => {
    // A connection that a stopping daemon closes says nothing about its client.
    if (reply.raw.writableFinished || shutdown.begun) return;
    services.execs.cancel(reply.request.caller, sessionId, execId).catch((error: unknown) => {
      reply.log.warn({ err: failureForLog(error), exec: execId }, "cannot cancel a command");
    });
  });
}
