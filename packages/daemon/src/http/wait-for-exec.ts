/** Waits for a command as a request asks: to its end, for a time, or until its output matches. */
import type { OutputConditionBody } from "@sandkasten/protocol";
import type { FastifyReply } from "fastify";
import type { ExecRow } from "../ports/session-store.ts";
import type { PatternMatch } from "../sessions/services.ts";
import type { HttpContext } from "./context.ts";

export interface ExecWait {
  readonly sessionId: string;
  readonly execId: string;
  /** Until the end when absent. */
  readonly waitMs?: number | undefined;
  readonly until?: OutputConditionBody | undefined;
}

export interface Waited {
  readonly row: ExecRow;
  /** Absent when the request asked for no match. */
  readonly matched?: { readonly match: PatternMatch | undefined };
}

export async function waitForExec(
  { services, shutdown }: HttpContext,
  reply: FastifyReply,
  { sessionId, execId, waitMs, until }: ExecWait,
): Promise<Waited> {
  const { execs } = services;
  const { caller } = reply.request;
  const what = `the command ${execId}`;
  if (until === undefined)
    return { row: await shutdown.orStop(execs.wait(caller, sessionId, execId, waitMs), what) };
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  const { pattern, stream } = until;
  const match = await shutdown.orStop(
    execs.waitFor(
      caller,
      sessionId,
      execId,
      { pattern, ...(stream !== undefined && { stream }) },
      { signal: gone.signal, ...(waitMs !== undefined && { timeoutMs: waitMs }) },
    ),
    what,
  );
  return { row: await execs.get(caller, sessionId, execId), matched: { match } };
}
