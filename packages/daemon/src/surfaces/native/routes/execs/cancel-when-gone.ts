/** Cancels a command when its waiting client disconnects, if the request asks for that. */
import type { FastifyReply } from "fastify";
import { failureForLog } from "../../../../failure-for-log.ts";
import type { ExecHandle } from "../../../../sessions/services/exec-service.ts";
import { whenClosed } from "../../../http/responses/when-closed.ts";
import type { NativeContext } from "../../context.ts";

/** Must be called before the response begins. */
export function cancelWhenGone(
  { shutdown }: NativeContext,
  reply: FastifyReply,
  exec: ExecHandle,
): void {
  whenClosed(reply.raw, () => {
    // A connection closed by a stopping daemon says nothing about its client.
    if (reply.raw.writableFinished || shutdown.begun) return;
    exec.cancel().catch((error: unknown) => {
      reply.log.warn({ err: failureForLog(error), exec: exec.id }, "cannot cancel a command");
    });
  });
}
