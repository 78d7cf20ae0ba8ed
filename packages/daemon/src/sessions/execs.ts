/** Commands of sessions: started once, recorded on the host, read by cursor during and after. */
import { SandboxError } from "@sandkasten/protocol";
import type { Channel, ExecCommand, ExecOptions } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow, Page } from "../ports/session-store.ts";
import { checkCommand, commandOf, shownCommand } from "./exec-command.ts";
import { ExecControl } from "./exec-control.ts";
import { ExecFinder } from "./exec-finder.ts";
import { ExecOutput } from "./exec-output.ts";
import { effectiveTimeout } from "./exec-timeout.ts";
import { ExecIds } from "./ids.ts";
import { LateOutputs } from "./late-outputs.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputBudget } from "./output-budget.ts";
import { OutputPattern } from "./output-pattern.ts";
import { Recording } from "./recording.ts";
import type { RecordingOptions, RecordingParts } from "./recording.ts";
import type {
  Caller,
  CollectedOutput,
  ExecService,
  FollowOptions,
  OutputPage,
  PatternMatch,
  ReadOutputOptions,
  ShellView,
  StartExecOptions,
} from "./services.ts";
import { hashOf } from "./session-plan.ts";
import type { SessionTable } from "./session-table.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import { DEFAULT_SHELL } from "./shell-lines.ts";
import { restoredRequest, storedRequest } from "./stored-request.ts";
import { within } from "./within.ts";

/** The longest that a timer can wait, more than 24 days. */
const MAX_TIMER_MS = 0x7fff_ffff;
/** Commands of one session that may wait for the shell. */
const MAX_QUEUED = 1024;
/** Finished commands that a sandbox remembers; only older ones can be unknown to it although they ran. */
const REMEMBERED_BY_SANDBOX = 256;

export interface ExecsParts extends RecordingParts {
  readonly table: SessionTable;
  readonly sessions: Sessions;
  readonly settings: SessionSettings;
}

export class Execs implements ExecService {
  readonly #parts: ExecsParts;
  readonly #late: LateOutputs;
  readonly #output: ExecOutput;
  readonly #finder: ExecFinder;
  readonly #control: ExecControl;
  readonly #ids = new ExecIds();
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: ExecsParts) {
    this.#parts = parts;
    this.#late = new LateOutputs(parts);
    this.#output = new ExecOutput(parts, this.#late);
    this.#finder = new ExecFinder(parts);
    this.#control = new ExecControl(parts.sessions, this.#finder);
  }

  async start(caller: Caller, sessionId: string, options: StartExecOptions): Promise<ExecRow> {
    checkCommand(options.command);
    const session = await this.#parts.sessions.enterLive(caller, sessionId);
    const requestHash = options.idempotencyKey === undefined ? "" : hashOf(options);
    let begun: Recording | ExecRow;
    try {
      begun =
        (await this.#repeated(session, options.idempotencyKey)) ??
        (await this.#writeDown(caller, session, options, requestHash));
    } catch (error) {
      await session.leave();
      throw error;
    }
    if (begun instanceof Recording) {
      this.#keep(begun, this.#run(session, begun, options));
      return begun.row;
    }
    await session.leave();
    return sameRequest(begun, requestHash);
  }

  /** Goes on with a command that an earlier daemon began, or starts it when that did not get to it. */
  async adopt(session: LiveSession, { request, ...row }: ExecRow): Promise<void> {
    const options = request === undefined ? undefined : restoredRequest(request);
    const mayHaveRun = row.status === "running";
    const isTerminal = options !== undefined && hasTerminal(options.command);
    const recording = new Recording(
      row,
      { isTerminal, mayHaveRun, ...this.#watch(session) },
      this.#parts,
    );
    session.recordings.add(recording);
    await session.enter();
    const resumed = this.#inTurn(session, recording, async () => {
      const channel = await session.channel();
      if (mayHaveRun) {
        if (await recording.resume(channel)) return;
        // The sandbox forgets commands that ended long ago; then nobody knows whether this one ran.
        if ((await this.#parts.store.countExecsAfter(row)) >= REMEMBERED_BY_SANDBOX)
          return await recording.abandon("unknown");
      }
      if (options === undefined) await recording.abandon("not_started");
      else await this.#perform(channel, recording, options);
    });
    this.#keep(recording, resumed);
  }

  /** Resolves when nothing is being recorded any more. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#late.settled();
  }

  #keep(recording: Recording, work: Promise<void>): void {
    recording.settled = work;
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async get(caller: Caller, sessionId: string, execId: string): Promise<ExecRow> {
    await this.#finder.settling(sessionId);
    return this.#late.shown(await this.#finder.row(caller, sessionId, execId));
  }

  async list(
    caller: Caller,
    sessionId: string,
    page: { readonly limit?: number; readonly cursor?: string },
  ): Promise<Page<ExecRow>> {
    await this.#parts.sessions.get(caller, sessionId);
    const { rows, ...rest } = await this.#parts.store.listExecs(sessionId, {
      limit: page.limit ?? 100,
      ...(page.cursor !== undefined && { cursor: page.cursor }),
    });
    const live = (row: ExecRow): ExecRow =>
      this.#late.shown(this.#finder.recording(caller, sessionId, row.id)?.row ?? row);
    return { rows: rows.map(live), ...rest };
  }

  async wait(
    caller: Caller,
    sessionId: string,
    execId: string,
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<ExecRow> {
    await this.#finder.settling(sessionId);
    const recording = this.#finder.recording(caller, sessionId, execId);
    if (recording === undefined) return await this.get(caller, sessionId, execId);
    await within(recording.ended, timeoutMs, signal);
    const { endReason } = recording.row;
    // Whoever hears that the sandbox is gone shall find the session so, too.
    if (isLoss(endReason)) await recording.settled;
    return this.#late.shown(recording.row);
  }

  checkPattern(pattern: string): void {
    new OutputPattern(pattern);
  }

  async waitFor(
    ...[caller, sessionId, execId, condition, options]: Parameters<ExecService["waitFor"]>
  ): Promise<PatternMatch | undefined> {
    const pattern = new OutputPattern(condition.pattern);
    const over = new AbortController();
    const timer =
      options.timeoutMs === undefined
        ? undefined
        : setTimeout(() => over.abort(), Math.min(options.timeoutMs, MAX_TIMER_MS));
    const signal = AbortSignal.any([options.signal, over.signal]);
    const { stream } = condition;
    const from = { offset: 0, until: "closed", signal, ...(stream && { stream }) } as const;
    try {
      for await (const { chunks } of this.follow(caller, sessionId, execId, from))
        for (const chunk of chunks) {
          const match = await pattern.find(chunk);
          if (match !== undefined) return match;
          signal.throwIfAborted();
        }
    } catch (error) {
      if (!over.signal.aborted || options.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
    return undefined;
  }

  async collect(
    caller: Caller,
    sessionId: string,
    execId: string,
    budgetBytes?: number,
  ): Promise<CollectedOutput> {
    const recording = this.#finder.recording(caller, sessionId, execId);
    const row = this.#late.shown(recording?.row ?? (await this.get(caller, sessionId, execId)));
    const budget = recording?.budget;
    // What was kept in memory ends where the command did.
    const isKept = row.backgroundBytes === 0;
    if (
      isKept &&
      budget !== undefined &&
      (budgetBytes ?? budget.budgetBytes) === budget.budgetBytes
    )
      return budget.collect();
    return await this.#output.collect(row, budgetBytes ?? this.#parts.settings.outputBudgetBytes);
  }

  async read(
    caller: Caller,
    sessionId: string,
    execId: string,
    options: ReadOutputOptions,
  ): Promise<OutputPage> {
    await this.#finder.settling(sessionId);
    return await this.#output.read(await this.#finder.find(caller, sessionId, execId), options);
  }

  async *follow(
    caller: Caller,
    sessionId: string,
    execId: string,
    options: FollowOptions,
  ): AsyncIterable<JournalPage> {
    const settling = this.#finder.settling(sessionId);
    if (settling !== undefined) await settling;
    // The follower is registered before anything else is awaited, so that no output is dropped before it.
    const running = this.#finder.recording(caller, sessionId, execId);
    const exec = running ?? (await this.#finder.stored(caller, sessionId, execId));
    yield* this.#output.follow(exec, options);
  }

  signal(...args: Parameters<ExecService["signal"]>): Promise<number> {
    return this.#control.signal(...args);
  }

  cancel(...args: Parameters<ExecService["cancel"]>): Promise<boolean> {
    return this.#control.cancel(...args);
  }

  shells(...args: Parameters<ExecService["shells"]>): Promise<readonly ShellView[]> {
    return this.#control.shells(...args);
  }

  closeShell(...args: Parameters<ExecService["closeShell"]>): Promise<void> {
    return this.#control.closeShell(...args);
  }

  writeStdin(...args: Parameters<ExecService["writeStdin"]>): Promise<void> {
    return this.#control.writeStdin(...args);
  }

  closeStdin(...args: Parameters<ExecService["closeStdin"]>): Promise<void> {
    return this.#control.closeStdin(...args);
  }

  resize(...args: Parameters<ExecService["resize"]>): Promise<void> {
    return this.#control.resize(...args);
  }

  /** The command that the same request started; looked for before any quota is. */
  async #repeated(session: LiveSession, key: string | undefined): Promise<ExecRow | undefined> {
    return key === undefined ? undefined : await this.#parts.store.findExec(session.row.id, key);
  }

  /** A recording to be run, or the row that is in its way. */
  async #writeDown(
    caller: Caller,
    session: LiveSession,
    options: StartExecOptions,
    requestHash: string,
  ): Promise<Recording | ExecRow> {
    const { store, table, settings } = this.#parts;
    const overQuota = table.runningExecsOf(caller.owner) >= caller.maxRunningExecs;
    if (overQuota || session.recordings.size >= MAX_QUEUED) throw tooMany(caller);
    const row = this.#newRow(session, options, requestHash);
    const budget = new OutputBudget(options.outputBudgetBytes ?? settings.outputBudgetBytes);
    const isTerminal = hasTerminal(options.command);
    const recording = new Recording(
      row,
      { budget, isTerminal, ...this.#watch(session) },
      this.#parts,
    );
    // Counted before the first wait, so that no number of requests at once gets past the quota.
    session.recordings.add(recording);
    try {
      const request = storedRequest(options);
      const written = await store.insertExec({ ...row, ...(request !== undefined && { request }) });
      if (written.inserted) return recording;
      session.recordings.delete(recording);
      return written.existing;
    } catch (error) {
      session.recordings.delete(recording);
      throw error;
    }
  }

  async #run(session: LiveSession, recording: Recording, options: StartExecOptions): Promise<void> {
    await this.#inTurn(session, recording, async () => {
      await this.#perform(await session.channel(), recording, options);
    });
  }

  /** Commands of a shell wait for those before them. */
  async #inTurn(
    session: LiveSession,
    recording: Recording,
    work: () => Promise<void>,
  ): Promise<void> {
    await this.#settle(session, recording, async () => {
      const { shell } = recording.row;
      const leave =
        shell === undefined
          ? undefined
          : await session.shellLines.enter(shell, recording.queue.signal);
      try {
        await work();
      } finally {
        leave?.();
      }
    });
  }

  async #perform(channel: Channel, recording: Recording, options: StartExecOptions): Promise<void> {
    const running = recording.run(channel, options.command, this.#execOptions(recording, options));
    if (options.stdin instanceof Uint8Array) void this.#feed(recording, options.stdin);
    await running;
  }

  /** Whatever happens to a command, it ends up done, and its session is left. */
  async #settle(
    session: LiveSession,
    recording: Recording,
    work: () => Promise<void>,
  ): Promise<void> {
    const { log, sessions } = this.#parts;
    try {
      await work();
    } catch (error) {
      if (!recording.queue.signal.aborted) {
        log.error({ err: error, exec: recording.row.id }, "a command could not be run");
        await recording.fail(error);
      }
    }
    session.recordings.delete(recording);
    this.#finder.finished.add(recording);
    this.#late.record(recording.row);
    const { endReason, cwd, shell } = recording.row;
    try {
      // The session's directory is that of its default shell.
      await session.leave(shell === DEFAULT_SHELL ? cwd : undefined);
    } catch (error) {
      log.error({ err: error, session: session.row.id }, "cannot renew a lease");
    }
    if (isLoss(endReason)) await sessions.lookAfter(session);
  }

  /** Everything the command gets as its input; it may end before it has read it all. */
  async #feed(recording: Recording, bytes: Uint8Array): Promise<void> {
    try {
      const stream = await recording.begun;
      await stream.writeStdin(bytes);
      await stream.closeStdin();
    } catch (error) {
      this.#parts.log.info(
        { err: error, exec: recording.row.id },
        "a command did not take all input",
      );
    }
  }

  /** How a command of this session is watched by the daemon itself. */
  #watch(session: LiveSession): Pick<RecordingOptions, "isFrozen" | "deadlineTimes"> {
    const { deadlineTimes } = this.#parts.settings;
    return { isFrozen: () => session.row.status !== "running", deadlineTimes };
  }

  #execOptions(recording: Recording, options: StartExecOptions): ExecOptions {
    const { id, timeoutMs } = recording.row;
    return {
      execId: id,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      ...(options.env !== undefined && { env: options.env }),
      ...(options.stdin !== undefined && { stdin: true }),
      ...(options.merge !== undefined && { merge: options.merge }),
      ...(options.idleTimeoutMs !== undefined &&
        options.idleTimeoutMs > 0 && {
          idleTimeoutMs: Math.min(options.idleTimeoutMs, this.#parts.settings.maxExecTimeoutMs),
        }),
    };
  }

  #newRow(session: LiveSession, options: StartExecOptions, requestHash: string): ExecRow {
    const { command, idempotencyKey } = options;
    const now = this.#parts.clock.nowMs();
    const shell = command.kind === "shell" ? (command.shell ?? DEFAULT_SHELL) : undefined;
    const waits = shell !== undefined && !session.shellLines.isFree(shell);
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

/** Whether the sandbox may be dead, given how a command of it ended. */
function isLoss(reason: ExecRow["endReason"]): boolean {
  return reason === "sandbox_gone" || reason === "not_started" || reason === "unknown";
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

function tooMany(caller: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `${caller.maxRunningExecs} commands may run at once; wait for some to end`,
    { details: { max_running_execs: caller.maxRunningExecs } },
  );
}
