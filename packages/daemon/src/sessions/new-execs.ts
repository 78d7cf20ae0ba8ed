/** Lets new commands in: within quotas, and once for each idempotency key. */
import { SandboxError } from "@sandkasten/protocol";
import type { Admitted, ExecRow, Inserted } from "../ports/session-store.ts";
import { commandOf, hasTerminal, shownCommand } from "./exec-command.ts";
import { effectiveTimeout } from "./exec-timeout.ts";
import { ExecIds } from "./ids.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputBudget } from "./output-budget.ts";
import { Recording } from "./recording.ts";
import type { RecordingOptions, RecordingParts } from "./recording.ts";
import type { Caller } from "./services/caller.ts";
import type { StartExecOptions } from "./services/exec-service.ts";
import { execStarted } from "./session-events.ts";
import { hashOf } from "./session-plan.ts";
import type { SessionSettings } from "./settings.ts";
import { DEFAULT_SHELL } from "./shell-queues.ts";
import { storedRequest } from "./stored-request.ts";

/** Commands of one session that may wait for a shell. */
const MAX_QUEUED = 1024;

export interface NewExecsParts extends RecordingParts {
  readonly settings: SessionSettings;
}

export class NewExecs {
  readonly #parts: NewExecsParts;
  readonly #endsWritten: () => Promise<void>;
  readonly #ids = new ExecIds();

  /** @param endsWritten - Resolves when the store has all ends that this daemon has reported. */
  constructor(parts: NewExecsParts, endsWritten: () => Promise<void>) {
    this.#parts = parts;
    this.#endsWritten = endsWritten;
  }

  /**
   * A recording to run, or the row of the command that the same request has begun already. A
   * repeated request finds its command, even if a new command would be refused.
   */
  async admit(
    caller: Caller,
    session: LiveSession,
    options: StartExecOptions,
  ): Promise<Recording | ExecRow> {
    const { idempotencyKey: key } = options;
    const requestHash = key === undefined ? "" : hashOf(options);
    try {
      const begun = await this.#writeDown(caller, session, options, requestHash);
      return begun instanceof Recording ? begun : sameRequest(begun, requestHash);
    } catch (error) {
      const isRefusal = key !== undefined && isRefused(error);
      const repeated = isRefusal
        ? await this.#parts.store.findExec(session.row.id, key)
        : undefined;
      if (repeated === undefined) throw error;
      return sameRequest(repeated, requestHash);
    }
  }

  /** A recording to run, or the existing row that conflicts. */
  async #writeDown(
    caller: Caller,
    session: LiveSession,
    options: StartExecOptions,
    requestHash: string,
  ): Promise<Recording | ExecRow> {
    const { settings, log } = this.#parts;
    await session.earlierEnds.learn(() => session.channel(), log);
    if (session.recordings.size >= MAX_QUEUED) throw tooMany(caller);
    const row = this.#newRow(session, options, requestHash);
    const budget = new OutputBudget(options.outputBudgetBytes ?? settings.outputBudgetBytes);
    const isTerminal = hasTerminal(options.command);
    const recording = new Recording(
      row,
      { ...inSession(session, settings), budget, isTerminal, runtime: options.runtime },
      this.#parts,
    );
    session.recordings.add(recording);
    try {
      const request = storedRequest(options);
      const complete = { ...row, ...(request !== undefined && { request }) };
      const written = await this.#insert(caller, session, complete);
      if (written.inserted) {
        session.events.record(execStarted(row));
        return recording;
      }
      session.recordings.delete(recording);
      return written.existing;
    } catch (error) {
      session.recordings.delete(recording);
      throw error;
    }
  }

  /**
   * The store counts running commands. Ends already reported by this daemon, but not yet stored,
   * are subtracted.
   */
  async #insert(caller: Caller, session: LiveSession, row: ExecRow): Promise<Inserted<ExecRow>> {
    const insert = (): Promise<Admitted<ExecRow>> =>
      this.#parts.store.insertExec(row, session.row.fence, caller.maxRunningExecs);
    const first = await insert();
    if (!("overQuota" in first)) return first;
    await this.#endsWritten();
    const second = await insert();
    if ("overQuota" in second) throw tooMany(caller);
    return second;
  }

  #newRow(session: LiveSession, options: StartExecOptions, requestHash: string): ExecRow {
    const { command, idempotencyKey } = options;
    const now = this.#parts.clock.nowMs();
    const shell = command.kind === "shell" ? (command.shell ?? DEFAULT_SHELL) : undefined;
    const waits = shell !== undefined && !session.shellQueues.isFree(shell);
    return {
      id: this.#ids.next(now),
      sessionId: session.row.id,
      owner: session.row.owner,
      status: waits ? "queued" : "running",
      mode: command.kind,
      ...(shell !== undefined && { shell }),
      command: shownCommand(options.asked ?? commandOf(command)),
      startedAtMs: now,
      stdoutBytes: 0,
      stderrBytes: 0,
      droppedBytes: 0,
      shellRestarted: false,
      background: false,
      backgroundBytes: 0,
      ...effectiveTimeout(command, options.timeoutMs, this.#parts.settings.maxExecTimeoutMs),
      ...(idempotencyKey !== undefined && { idempotencyKey, requestHash }),
    };
  }
}

/** What every recording of a command takes from its session. */
export function inSession(
  session: LiveSession,
  { deadlineTimes }: SessionSettings,
): Pick<RecordingOptions, "fence" | "placeOfEnd" | "isFrozen" | "deadlineTimes"> {
  return {
    fence: session.row.fence,
    placeOfEnd: (execId) => session.earlierEnds.placeOf(execId),
    isFrozen: () => session.row.status !== "running",
    deadlineTimes,
  };
}

function sameRequest(existing: ExecRow, requestHash: string): ExecRow {
  if (existing.requestHash === requestHash) return existing;
  throw new SandboxError(
    "CONFLICT",
    "this idempotency key was used for another command; use a new key for every new command",
    { details: { exec_id: existing.id } },
  );
}

/** Whether there was no room for another command. */
function isRefused(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "QUOTA_EXCEEDED" || error.code === "STORAGE_FULL")
  );
}

function tooMany(caller: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `at most ${caller.maxRunningExecs} commands may run at once; wait for some to end`,
    { details: { max_running_execs: caller.maxRunningExecs } },
  );
}
