/** Cancels a command when the client that waits for it goes away, where the request asks for that. */
import type { FastifyReply } from "fastify";
import { failureForLog } from "../../../../failure-for-log.ts";
import type { ExecHandle } from "../../../../sessions/services.ts";
import type { NativeContext } from "../../context.ts";

/** Must be called before the answer begins. */
export function cancelWhenGone(
  { shutdown }: NativeContext,
  reply: FastifyReply,
  exec: ExecHandle,
): void {
  reply.raw.once("close", () => {
    // A connection that a stopping daemon closes says nothing about its client.
    if (reply.raw.writableFinished || shutdown.begun) return;
    exec.cancel().catch((error: unknown) => {
      reply.log.warn({ err: failureForLog(error), exec: exec.id }, "cannot cancel a command");
    });
  });
}
