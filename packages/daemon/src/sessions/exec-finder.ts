/** Finds commands: running and recently ended ones in memory, all others in the store. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecRow, SessionStore } from "../ports/session-store.ts";
import { FinishedRecordings } from "./finished-recordings.ts";
import type { Recording } from "./recording.ts";
import type { Caller } from "./services/caller.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Sessions } from "./sessions.ts";

export interface ExecFinderParts {
  readonly store: SessionStore;
  readonly table: LiveSessions;
  readonly sessions: Sessions;
}

export class ExecFinder {
  readonly finished = new FinishedRecordings();
  readonly #parts: ExecFinderParts;

  constructor(parts: ExecFinderParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when it is known which commands of an earlier daemon continue; undefined if that is
   * already known.
   */
  settling(sessionId: string): Promise<void> | undefined {
    const { table, sessions } = this.#parts;
    return table.get(sessionId)?.adoption === undefined
      ? undefined
      : sessions.finder.settled(sessionId);
  }

  /** The recording of a running command. */
  running(caller: Caller, sessionId: string, execId: string): Recording | undefined {
    const session = this.#parts.table.get(sessionId);
    if (session?.row.owner !== caller.owner) return undefined;
    return [...session.recordings].find(({ row }) => row.id === execId);
  }

  /** The recording of a command that is running or ended recently. */
  recording(caller: Caller, sessionId: string, execId: string): Recording | undefined {
    const found = this.running(caller, sessionId, execId) ?? this.finished.get(execId);
    const { row } = found ?? {};
    return row?.owner === caller.owner && row.sessionId === sessionId ? found : undefined;
  }

  async find(caller: Caller, sessionId: string, execId: string): Promise<Recording | ExecRow> {
    const recording = this.recording(caller, sessionId, execId);
    return recording ?? (await this.stored(caller, sessionId, execId));
  }

  async stored(caller: Caller, sessionId: string, execId: string): Promise<ExecRow> {
    const row = await this.#parts.store.getExec(sessionId, execId);
    if (row !== undefined && row.owner === caller.owner) return row;
    await this.#parts.sessions.get(caller, sessionId);
    throw new SandboxError(
      "EXEC_NOT_FOUND",
      `session ${sessionId} has no command ${execId}; list its commands to find the id`,
    );
  }
}
