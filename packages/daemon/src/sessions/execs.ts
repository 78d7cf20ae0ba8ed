/** Commands of sessions: started once, recorded on the host, readable by cursor during and after. */
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecCommand } from "../ports/channel.ts";
import type { Admitted, ExecRow, Inserted } from "../ports/session-store.ts";
import type { ExecObservation, Telemetry, TraceContext } from "../ports/telemetry.ts";
import { checkCommand, commandOf, shownCommand } from "./exec-command.ts";
import { isLoss, outcomeOf } from "./exec-end.ts";
import { ExecFinder } from "./exec-finder.ts";
import { FoundExecHandle } from "./exec-handle.ts";
import { execOptions } from "./exec-options.ts";
import { ExecOutput } from "./exec-output.ts";
import { runtimeOf } from "./exec-runtime.ts";
import { effectiveTimeout } from "./exec-timeout.ts";
import { ExecIds } from "./ids.ts";
import { LateOutputs } from "./late-outputs.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputBudget } from "./output-budget.ts";
import { OutputPattern } from "./output-pattern.ts";
import { Recording } from "./recording.ts";
import type { RecordingOptions, RecordingParts } from "./recording.ts";
import type { Caller } from "./services/caller.ts";
import type {
  ExecHandle,
  ExecPage,
  ExecService,
  StartExecOptions,
} from "./services/exec-service.ts";
import { execStarted } from "./session-events.ts";
import { hashOf } from "./session-plan.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import { DEFAULT_SHELL } from "./shell-queues.ts";
import { restoredRequest, storedRequest } from "./stored-request.ts";

/** Commands of one session that may wait for a shell. */
const MAX_QUEUED = 1024;
/** Finished commands that a sandbox remembers; only older ones may have run and yet be unknown to it. */
const REMEMBERED_BY_SANDBOX = 256;

export interface ExecsParts extends RecordingParts {
  readonly table: LiveSessions;
  readonly sessions: Sessions;
  readonly settings: SessionSettings;
  readonly telemetry: Telemetry;
}

export class Execs implements ExecService {
  readonly #parts: ExecsParts;
  readonly #late: LateOutputs;
  readonly #output: ExecOutput;
  readonly #finder: ExecFinder;
  readonly #ids = new ExecIds();
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: ExecsParts) {
    this.#parts = parts;
    this.#late = new LateOutputs(parts);
    this.#output = new ExecOutput(parts, this.#late);
    this.#finder = new ExecFinder(parts);
  }

  async start(
    caller: Caller,
    sessionId: string,
    options: StartExecOptions,
    trace?: TraceContext,
  ): Promise<ExecHandle> {
    checkCommand(options.command);
    const session = await this.#parts.sessions.enterLive(caller, sessionId);
    const requestHash = options.idempotencyKey === undefined ? "" : hashOf(options);
    let begun: Recording | ExecRow;
    try {
      begun = await this.#begin(caller, session, options, requestHash);
    } catch (error) {
      await session.leave();
      throw error;
    }
    if (begun instanceof Recording) {
      this.#keep(begun, this.#run(session, begun, options, trace));
      return this.#handle(begun);
    }
    await session.leave();
    const repeated = sameRequest(begun, requestHash);
    return this.#handle(this.#finder.recording(caller, sessionId, repeated.id) ?? repeated);
  }

  /** Continues a command that an earlier daemon began, or starts it if that daemon had not. */
  async adopt(session: LiveSession, { request, ...row }: ExecRow): Promise<void> {
    const options = request === undefined ? undefined : restoredRequest(request);
    const mayHaveRun = row.status === "running";
    const isTerminal = options !== undefined && hasTerminal(options.command);
    const recording = new Recording(
      row,
      { ...this.#watch(session), isTerminal, mayHaveRun, runtime: options?.runtime },
      this.#parts,
    );
    session.recordings.add(recording);
    if (mayHaveRun) session.earlierEnds.add(recording);
    await session.enter();
    const observation = this.#observe(session, row, options);
    const resumed = this.#inTurn(session, recording, observation, async () => {
      const channel = await session.channel();
      if (mayHaveRun) {
        if (await recording.resume(channel)) return;
        // The sandbox forgets commands that ended long ago, so it is unknown whether this one ran.
        if ((await this.#parts.store.countExecsAfter(row)) >= REMEMBERED_BY_SANDBOX)
          return await recording.abandon("unknown");
      }
      if (options === undefined) await recording.abandon("not_started");
      else await this.#perform(channel, recording, options, observation.trace);
    });
    this.#keep(recording, resumed);
  }

  /** Resolves when all recordings have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#late.settled();
  }

  /** Resolves when all ends so far are stored, and reported as events. */
  async endsWritten(): Promise<void> {
    const recordings = this.#parts.table.all().flatMap((session) => [...session.recordings]);
    await Promise.all(recordings.map(({ written }) => written));
  }

  #keep(recording: Recording, work: Promise<void>): void {
    recording.settled = work;
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async get(caller: Caller, sessionId: string, execId: string): Promise<ExecHandle> {
    await this.#finder.settling(sessionId);
    return this.#handle(await this.#finder.find(caller, sessionId, execId), caller.isReadOnly);
  }

  async list(
    caller: Caller,
    sessionId: string,
    page: { readonly limit?: number; readonly cursor?: string },
  ): Promise<ExecPage> {
    const { cwd: shellCwd } = await this.#parts.sessions.get(caller, sessionId);
    const { rows, ...rest } = await this.#parts.store.listExecs(sessionId, {
      limit: page.limit ?? 100,
      ...(page.cursor !== undefined && { cursor: page.cursor }),
    });
    const live = (row: ExecRow): ExecRow =>
      this.#late.shown(this.#finder.recording(caller, sessionId, row.id)?.row ?? row);
    return { rows: rows.map(live), shellCwd, ...rest };
  }

  checkPattern(pattern: string): void {
    new OutputPattern(pattern);
  }

  #handle(exec: Recording | ExecRow, isReadOnly = false): ExecHandle {
    const { sessionId } = exec instanceof Recording ? exec.row : exec;
    const session = this.#parts.table.get(sessionId);
    return new FoundExecHandle(
      { exec, session, isReadOnly },
      { ...this.#parts, output: this.#output, late: this.#late },
    );
  }

  /** A request that is repeated finds its command, even if a new command would be refused. */
  async #begin(
    caller: Caller,
    session: LiveSession,
    options: StartExecOptions,
    requestHash: string,
  ): Promise<Recording | ExecRow> {
    const { idempotencyKey: key } = options;
    try {
      return await this.#writeDown(caller, session, options, requestHash);
    } catch (error) {
      const isRefusal = key !== undefined && isRefused(error);
      const repeated = isRefusal
        ? await this.#parts.store.findExec(session.row.id, key)
        : undefined;
      if (repeated === undefined) throw error;
      return repeated;
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
      { ...this.#watch(session), budget, isTerminal, runtime: options.runtime },
      this.#parts,
    );
    session.recordings.add(recording);
    try {
      const request = storedRequest(options);
      const complete = { ...row, ...(request !== undefined && { request }) };
      const written = await this.#insert(caller, session, complete);
      if (written.inserted) {
        session.events.tell(execStarted(row));
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
    await this.endsWritten();
    const second = await insert();
    if ("overQuota" in second) throw tooMany(caller);
    return second;
  }

  async #run(
    session: LiveSession,
    recording: Recording,
    options: StartExecOptions,
    parent: TraceContext | undefined,
  ): Promise<void> {
    const observation = this.#observe(session, recording.row, options, parent);
    await this.#inTurn(session, recording, observation, async () => {
      await this.#perform(await session.channel(), recording, options, observation.trace);
    });
  }

  #observe(
    session: LiveSession,
    { id, command, timeoutMs, startedAtMs }: ExecRow,
    options: StartExecOptions | undefined,
    parent?: TraceContext,
  ): ExecObservation {
    const { id: sessionId, image } = session.row;
    const runtime = options?.runtime ?? runtimeOf(command);
    const facts = { execId: id, sessionId, runtime, image, timeoutMs, startedAtMs };
    return this.#parts.telemetry.execStarted(facts, parent);
  }

  /** Commands of a shell wait for earlier ones. */
  async #inTurn(
    session: LiveSession,
    recording: Recording,
    observation: ExecObservation,
    work: () => Promise<void>,
  ): Promise<void> {
    await this.#settle(session, recording, observation, async () => {
      const { shell } = recording.row;
      const leave =
        shell === undefined ? undefined : await session.shellQueues.enter(shell, recording);
      // The next command need not wait until the store has this one's end: a daemon that finds both
      // unfinished asks the sandbox about each.
      void recording.ended.then(
        ({ endReason }) => {
          if (!isLoss(endReason)) leave?.();
        },
        () => undefined,
      );
      try {
        await work();
      } finally {
        leave?.();
      }
    });
  }

  async #perform(
    channel: Channel,
    recording: Recording,
    options: StartExecOptions,
    trace: TraceContext | undefined,
  ): Promise<void> {
    const { maxExecTimeoutMs } = this.#parts.settings;
    const given = execOptions(recording.row, options, trace, maxExecTimeoutMs);
    const running = recording.run(channel, options.command, given);
    if (options.stdin instanceof Uint8Array) void this.#feed(recording, options.stdin);
    await running;
  }

  /** Ensures that every command ends as done, and that its session is left. */
  async #settle(
    session: LiveSession,
    recording: Recording,
    observation: ExecObservation,
    work: () => Promise<void>,
  ): Promise<void> {
    const { log, sessions } = this.#parts;
    try {
      await work();
    } catch (error) {
      if (!recording.isCancelled) {
        log.error({ err: error, exec: recording.row.id }, "cannot run a command");
        await recording.fail(error);
      }
    }
    this.#late.record(recording.row);
    observation.ended(outcomeOf(recording.row));
    const { endReason, cwd, shell } = recording.row;
    try {
      // The session's directory is its default shell's.
      await session.leave(shell === DEFAULT_SHELL ? cwd : undefined);
    } catch (error) {
      log.error({ err: error, session: session.row.id }, "cannot renew a lease");
    }
    // Until its end is stored, those who end the session or read events wait for it.
    await recording.written;
    session.recordings.delete(recording);
    this.#finder.finished.add(recording);
    if (isLoss(endReason)) await sessions.lookAfter(session);
  }

  /** Sends the whole input; the command may end before it has read all of it. */
  async #feed(recording: Recording, bytes: Uint8Array): Promise<void> {
    try {
      const stream = await recording.begun;
      await stream.writeStdin(bytes);
      await stream.closeStdin();
    } catch (error) {
      this.#parts.log.info(
        { err: error, exec: recording.row.id },
        "a command did not read all of its input",
      );
    }
  }

  /** The daemon's own checks on commands of this session. */
  #watch(
    session: LiveSession,
  ): Pick<RecordingOptions, "fence" | "events" | "isFrozen" | "deadlineTimes"> {
    const { deadlineTimes } = this.#parts.settings;
    const { events } = session;
    const { fence } = session.row;
    return { fence, events, isFrozen: () => session.row.status !== "running", deadlineTimes };
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

function hasTerminal(command: ExecCommand): boolean {
  return command.kind === "process" && command.pty !== undefined;
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
