/** Commands of sessions: started once, recorded on the host, read by cursor during and after. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecOptions, TerminalSize } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow, Page } from "../ports/session-store.ts";
import { checkCommand, shownCommand } from "./exec-command.ts";
import { ExecOutput } from "./exec-output.ts";
import { FinishedRecordings } from "./finished-recordings.ts";
import { newExecId } from "./ids.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputBudget } from "./output-budget.ts";
import { Recording } from "./recording.ts";
import type { RecordingParts } from "./recording.ts";
import type {
  Caller,
  CollectedOutput,
  ExecService,
  OutputPage,
  ReadOutputOptions,
  StartExecOptions,
} from "./services.ts";
import { hashOf } from "./session-plan.ts";
import type { SessionTable } from "./session-table.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import { within } from "./within.ts";

/** Commands of one session that may wait for the shell. */
const MAX_QUEUED = 1024;

export interface ExecsParts extends RecordingParts {
  readonly table: SessionTable;
  readonly sessions: Sessions;
  readonly settings: SessionSettings;
}

export class Execs implements ExecService {
  readonly #parts: ExecsParts;
  readonly #output: ExecOutput;
  readonly #finished = new FinishedRecordings();
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: ExecsParts) {
    this.#parts = parts;
    this.#output = new ExecOutput(parts);
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

  /** Goes on with a command that an earlier daemon began. */
  async adopt(session: LiveSession, row: ExecRow): Promise<void> {
    const recording = new Recording(row, { isTerminal: false }, this.#parts);
    session.recordings.add(recording);
    await session.enter();
    const resumed = this.#settle(session, recording, async () => {
      const serial = row.mode === "shell";
      const leave = serial ? await session.shellLine.enter(recording.queue.signal) : undefined;
      try {
        await recording.resume(await session.channel());
      } finally {
        leave?.();
      }
    });
    this.#keep(recording, resumed);
  }

  /** Resolves when nothing is being recorded any more. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  #keep(recording: Recording, work: Promise<void>): void {
    recording.settled = work;
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }

  async get(caller: Caller, sessionId: string, execId: string): Promise<ExecRow> {
    const exec = await this.#find(caller, sessionId, execId);
    return exec instanceof Recording ? exec.row : exec;
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
    const live = (row: ExecRow): ExecRow => this.#recording(caller, sessionId, row.id)?.row ?? row;
    return { rows: rows.map(live), ...rest };
  }

  async wait(
    caller: Caller,
    sessionId: string,
    execId: string,
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<ExecRow> {
    const recording = this.#recording(caller, sessionId, execId);
    if (recording === undefined) return await this.#stored(caller, sessionId, execId);
    await within(recording.ended, timeoutMs, signal);
    const { endReason } = recording.row;
    // Whoever hears that the sandbox is gone shall find the session so, too.
    if (endReason === "sandbox_gone" || endReason === "unknown") await recording.settled;
    return recording.row;
  }

  async collect(
    caller: Caller,
    sessionId: string,
    execId: string,
    budgetBytes?: number,
  ): Promise<CollectedOutput> {
    const budget = this.#recording(caller, sessionId, execId)?.budget;
    if (budget !== undefined && (budgetBytes ?? budget.budgetBytes) === budget.budgetBytes)
      return budget.collect();
    const row = await this.get(caller, sessionId, execId);
    return await this.#output.collect(row, budgetBytes ?? this.#parts.settings.outputBudgetBytes);
  }

  async read(
    caller: Caller,
    sessionId: string,
    execId: string,
    options: ReadOutputOptions,
  ): Promise<OutputPage> {
    return await this.#output.read(await this.#find(caller, sessionId, execId), options);
  }

  async *follow(
    caller: Caller,
    sessionId: string,
    execId: string,
    offset: number,
    signal?: AbortSignal,
  ): AsyncIterable<JournalPage> {
    // Somebody who follows from now on shall be known of now.
    const running = this.#recording(caller, sessionId, execId);
    const exec = running ?? (await this.#stored(caller, sessionId, execId));
    yield* this.#output.follow(exec, offset, signal);
  }

  async signal(
    caller: Caller,
    sessionId: string,
    execId: string,
    signal: number,
    options?: { readonly tree?: boolean },
  ): Promise<number> {
    const recording = this.#running(caller, sessionId, execId);
    if (recording?.row.status === "queued") {
      await recording.abandon("killed");
      return 1;
    }
    return await this.#inside(caller, sessionId, async (session) =>
      (await session.channel()).signal(execId, signal, options),
    );
  }

  async writeStdin(
    caller: Caller,
    sessionId: string,
    execId: string,
    bytes: Uint8Array,
  ): Promise<void> {
    await this.#inside(caller, sessionId, async () => {
      await (await this.#input(caller, sessionId, execId)).writeStdin(bytes);
    });
  }

  async closeStdin(caller: Caller, sessionId: string, execId: string): Promise<void> {
    await this.#inside(caller, sessionId, async () => {
      await (await this.#input(caller, sessionId, execId)).closeStdin();
    });
  }

  async resize(
    caller: Caller,
    sessionId: string,
    execId: string,
    size: TerminalSize,
  ): Promise<void> {
    await this.#inside(caller, sessionId, async (session) =>
      (await session.channel()).resize(execId, size),
    );
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
    const isTerminal = options.command.kind === "process" && options.command.pty !== undefined;
    const recording = new Recording(row, { budget, isTerminal }, this.#parts);
    // Counted before the first wait, so that no number of requests at once gets past the quota.
    session.recordings.add(recording);
    try {
      const written = await store.insertExec(row);
      if (written.inserted) return recording;
      session.recordings.delete(recording);
      return written.existing;
    } catch (error) {
      session.recordings.delete(recording);
      throw error;
    }
  }

  async #run(session: LiveSession, recording: Recording, options: StartExecOptions): Promise<void> {
    await this.#settle(session, recording, async () => {
      const serial = options.command.kind === "shell";
      const leave = serial ? await session.shellLine.enter(recording.queue.signal) : undefined;
      try {
        const channel = await session.channel();
        const running = recording.run(
          channel,
          options.command,
          this.#execOptions(recording, options),
        );
        if (options.stdin instanceof Uint8Array) void this.#feed(recording, options.stdin);
        await running;
      } finally {
        leave?.();
      }
    });
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
    this.#finished.add(recording);
    const { endReason, cwd } = recording.row;
    try {
      await session.leave(cwd);
    } catch (error) {
      log.error({ err: error, session: session.row.id }, "cannot renew a lease");
    }
    if (endReason === "sandbox_gone" || endReason === "unknown") await sessions.lookAfter(session);
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

  #execOptions(recording: Recording, options: StartExecOptions): ExecOptions {
    const { maxExecTimeoutMs } = this.#parts.settings;
    const asked = options.timeoutMs ?? 0;
    const isTerminal = options.command.kind === "process" && options.command.pty !== undefined;
    const timeoutMs = asked === 0 ? maxExecTimeoutMs : Math.min(asked, maxExecTimeoutMs);
    return {
      execId: recording.row.id,
      // Somebody sits at a terminal: it lives as long as the session does, unless they say otherwise.
      ...(!(isTerminal && asked === 0) && { timeoutMs }),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      ...(options.env !== undefined && { env: options.env }),
      ...(options.stdin !== undefined && { stdin: true }),
      ...(options.merge !== undefined && { merge: options.merge }),
      ...(options.idleTimeoutMs !== undefined &&
        options.idleTimeoutMs > 0 && { idleTimeoutMs: options.idleTimeoutMs }),
    };
  }

  #newRow(session: LiveSession, options: StartExecOptions, requestHash: string): ExecRow {
    const { command, idempotencyKey } = options;
    const now = this.#parts.clock.nowMs();
    const waits = command.kind === "shell" && !session.shellLine.free;
    return {
      id: newExecId(now),
      sessionId: session.row.id,
      owner: session.row.owner,
      status: waits ? "queued" : "running",
      mode: command.kind,
      command: shownCommand(command),
      startedAtMs: now,
      stdoutBytes: 0,
      stderrBytes: 0,
      droppedBytes: 0,
      shellRestarted: false,
      ...(idempotencyKey !== undefined && { idempotencyKey, requestHash }),
    };
  }

  async #inside<T>(
    caller: Caller,
    sessionId: string,
    work: (session: LiveSession) => Promise<T>,
  ): Promise<T> {
    const session = await this.#parts.sessions.enterLive(caller, sessionId);
    try {
      return await work(session);
    } finally {
      await session.leave();
    }
  }

  async #input(caller: Caller, sessionId: string, execId: string) {
    const recording = this.#running(caller, sessionId, execId);
    if (recording === undefined) {
      await this.#stored(caller, sessionId, execId);
      throw new SandboxError("CONFLICT", `the command ${execId} has ended and takes no input`);
    }
    return await recording.begun;
  }

  /** Of a command that runs. */
  #running(caller: Caller, sessionId: string, execId: string): Recording | undefined {
    const session = this.#parts.table.get(sessionId);
    if (session?.row.owner !== caller.owner) return undefined;
    return [...session.recordings].find(({ row }) => row.id === execId);
  }

  /** Of a command that runs or has just ended. */
  #recording(caller: Caller, sessionId: string, execId: string): Recording | undefined {
    const found = this.#running(caller, sessionId, execId) ?? this.#finished.get(execId);
    const { row } = found ?? {};
    return row?.owner === caller.owner && row.sessionId === sessionId ? found : undefined;
  }

  async #find(caller: Caller, sessionId: string, execId: string): Promise<Recording | ExecRow> {
    const recording = this.#recording(caller, sessionId, execId);
    return recording ?? (await this.#stored(caller, sessionId, execId));
  }

  async #stored(caller: Caller, sessionId: string, execId: string): Promise<ExecRow> {
    const row = await this.#parts.store.getExec(sessionId, execId);
    if (row !== undefined && row.owner === caller.owner) return row;
    await this.#parts.sessions.get(caller, sessionId);
    throw new SandboxError(
      "EXEC_NOT_FOUND",
      `the session ${sessionId} has no command ${execId}; list its commands to see which it has`,
    );
  }
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
