/** The events for changes of sessions and commands. */
import type { SessionStatus } from "@sandkasten/protocol";
import type { Events, ReportedEvent } from "../events/recorder.ts";
import type { ExecRow, SessionRow } from "../ports/session-store.ts";
import { runtimeOf } from "./exec-runtime.ts";

export function sessionCreated({ id, owner, image, backend, key }: SessionRow): ReportedEvent {
  const data = { image, backend, ...(key !== undefined && { key }) };
  return { type: "session.created", owner, sessionId: id, data };
}

export function sessionRunning(
  { id, owner, acquireSource }: SessionRow,
  durationMs?: number,
): ReportedEvent {
  const data = {
    acquire_source: acquireSource,
    ...(durationMs !== undefined && { duration_ms: durationMs }),
  };
  return { type: "session.running", owner, sessionId: id, data };
}

/** Event data that is not in the row. */
export interface MoreOfSession {
  /** How long the creation took. */
  readonly createdInMs: number;
  /** Why the creation failed. */
  readonly errorCode?: string | undefined;
}

/** Records a session's new status. Await the end of a session, which must be written before clients see it. */
export function recordSessionChange(
  events: Events,
  before: SessionStatus,
  row: SessionRow,
  { createdInMs, errorCode }: MoreOfSession,
): Promise<void> | undefined {
  const { id: sessionId, owner, status, endReason, createdAtMs, endedAtMs = createdAtMs } = row;
  if (status === before) return undefined;
  switch (status) {
    case "running":
      events.record(
        before === "creating"
          ? sessionRunning(row, createdInMs)
          : { type: "session.resumed", owner, sessionId, data: {} },
      );
      break;
    case "paused":
      events.record({ type: "session.paused", owner, sessionId, data: {} });
      break;
    case "destroyed":
    case "expired":
    case "crashed":
    case "failed":
      return events.recordNow({
        type: "session.ended",
        owner,
        sessionId,
        data: {
          status,
          ...(endReason !== undefined && { reason: endReason }),
          ...(errorCode !== undefined && { error_code: errorCode }),
          lifetime_ms: Math.max(0, endedAtMs - createdAtMs),
        },
      });
    case "creating":
    case "destroying":
      break;
  }
  return undefined;
}

export function execStarted({ id, owner, sessionId, mode, shell }: ExecRow): ReportedEvent {
  const data = { exec_id: id, mode, ...(shell !== undefined && { shell }) };
  return { type: "exec.started", owner, sessionId, data };
}

export function execEnded(row: ExecRow, runtime = runtimeOf(row.command)): ReportedEvent {
  const { id, owner, sessionId, mode, exitCode, signal, stdoutBytes, stderrBytes } = row;
  return {
    type: "exec.ended",
    owner,
    sessionId,
    data: {
      exec_id: id,
      mode,
      end_reason: row.endReason ?? "unknown",
      ...(exitCode !== undefined && { exit_code: exitCode }),
      ...(signal !== undefined && { signal }),
      duration_ms: row.durationMs ?? 0,
      stdout_bytes: stdoutBytes,
      stderr_bytes: stderrBytes,
      runtime,
    },
  };
}
