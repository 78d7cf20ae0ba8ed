/** Commands of sessions: started once, recorded on the host, readable by cursor during and after. */
import type { Channel } from "../ports/channel.ts";
import type { ExecRow } from "../ports/session-store.ts";
import type { ExecObservation, Telemetry, TraceContext } from "../ports/telemetry.ts";
import { NewExecs, inSession } from "./new-execs.ts";
import type { NewExecsParts } from "./new-execs.ts";
import { checkCommand, hasTerminal } from "./exec-command.ts";
import { isLoss, outcomeOf } from "./exec-end.ts";
import { ExecFinder } from "./exec-finder.ts";
import { FoundExecHandle } from "./exec-handle.ts";
import { execOptions } from "./exec-options.ts";
import { ExecOutput } from "./exec-output.ts";
import { runtimeOf } from "./exec-runtime.ts";
import { LateOutputs } from "./late-outputs.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputPattern } from "./output-pattern.ts";
import { Recording } from "./recording.ts";
import type { Caller } from "./services/caller.ts";
import type {
  ExecHandle,
  ExecPage,
  ExecService,
  StartExecOptions,
} from "./services/exec-service.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Sessions } from "./sessions.ts";
import { DEFAULT_SHELL } from "./shell-queues.ts";
import { restoredRequest } from "./stored-request.ts";

/** Finished commands that a sandbox remembers; only older ones may have run and yet be unknown to it. */
const REMEMBERED_BY_SANDBOX = 256;

export interface ExecsParts extends NewExecsParts {
  readonly table: LiveSessions;
  readonly sessions: Sessions;
  readonly telemetry: Telemetry;
}

export class Execs implements ExecService {
  readonly #parts: ExecsParts;
  readonly #late: LateOutputs;
  readonly #output: ExecOutput;
  readonly #finder: ExecFinder;
  readonly #newExecs: NewExecs;
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: ExecsParts) {
    this.#parts = parts;
    this.#late = new LateOutputs(parts);
    this.#output = new ExecOutput(parts, this.#late);
    this.#finder = new ExecFinder(parts);
    this.#newExecs = new NewExecs(parts, () => this.endsWritten());
  }

  async start(
    caller: Caller,
    sessionId: string,
    options: StartExecOptions,
    trace?: TraceContext,
  ): Promise<ExecHandle> {
    checkCommand(options.command);
    const session = await this.#parts.sessions.enterLive(caller, sessionId);
    let begun: Recording | ExecRow;
    try {
      begun = await this.#newExecs.admit(caller, session, options);
    } catch (error) {
      await session.leave();
      throw error;
    }
    if (begun instanceof Recording) {
      this.#keep(begun, this.#run(session, begun, options, trace));
      return this.#handle(begun);
    }
    await session.leave();
    return this.#handle(this.#finder.recording(caller, sessionId, begun.id) ?? begun);
  }

  /** Takes over the commands that an earlier daemon left unfinished, in their order. */
  async adopt(session: LiveSession, rows: readonly ExecRow[]): Promise<void> {
    for (const row of rows) await this.#adopt(session, row);
    void session.earlierEnds.learn(() => session.channel(), this.#parts.log);
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

  /** Continues a command, or starts it if the earlier daemon had not. */
  async #adopt(session: LiveSession, { request, ...row }: ExecRow): Promise<void> {
    const options = request === undefined ? undefined : restoredRequest(request);
    const mayHaveRun = row.status === "running";
    const isTerminal = options !== undefined && hasTerminal(options.command);
    const recording = new Recording(
      row,
      {
        ...inSession(session, this.#parts.settings),
        isTerminal,
        mayHaveRun,
        runtime: options?.runtime,
      },
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
}
