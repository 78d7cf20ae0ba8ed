/** Waits for a command as requested: to its end, for a time, or until its output matches. */
import type { OutputConditionBody } from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import type { ExecRow } from "../../../../ports/session-store.ts";
import type { ExecHandle, PatternMatch } from "../../../../sessions/services/exec-service.ts";
import { whenClosed } from "../../../http/responses/when-closed.ts";
import type { NativeContext } from "../../context.ts";

export interface ExecWait {
  /** Until the end when absent. */
  readonly waitMs?: number | undefined;
  readonly until?: OutputConditionBody | undefined;
}

export interface Waited {
  readonly row: ExecRow;
  /** Absent if the request asked for no match. */
  readonly matched?: { readonly match: PatternMatch | undefined };
}

export async function waitForExec(
  { shutdown }: NativeContext,
  reply: FastifyReply,
  exec: ExecHandle,
  { waitMs, until }: ExecWait,
): Promise<Waited> {
  const what = `the command ${exec.id}`;
  if (until === undefined) return { row: await shutdown.orStop(exec.wait(waitMs), what) };
  const gone = new AbortController();
  whenClosed(reply.raw, () => gone.abort());
  const { pattern, stream } = until;
  const match = await shutdown.orStop(
    exec.waitFor(
      { pattern, ...(stream !== undefined && { stream }) },
      { signal: gone.signal, ...(waitMs !== undefined && { timeoutMs: waitMs }) },
    ),
    what,
  );
  return { row: exec.row, matched: { match } };
}
