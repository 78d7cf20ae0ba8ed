/** The OpenAI Agents SDK identifies processes by numbers, the daemon by ids. */
import { createHash } from "node:crypto";
import type { Exec, Session } from "@sandkasten/sdk";

/** A number derived only from the id, so that a resumed run finds its processes again. */
export function numberOf(execId: string): number {
  return createHash("sha256").update(execId).digest().readUInt32BE(0);
}

export async function execOfNumber(session: Session, number: number): Promise<Exec | undefined> {
  for await (const { execId } of session.execs())
    if (numberOf(execId) === number) return session.getExec(execId);
  return undefined;
}
