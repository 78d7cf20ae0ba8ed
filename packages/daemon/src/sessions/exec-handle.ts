/** One command, looked up once, and all operations on it. */
import { ObservedDeadline } from "../observed-deadline.ts";
import type { ExecStream, TerminalSize } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecRow, SessionStore } from "../ports/session-store.ts";
import { isLoss } from "./exec-end.ts";
import type { ExecOutput } from "./exec-output.ts";
import type { LateOutputs } from "./late-outputs.ts";
import type { LiveSession } from "./live-session.ts";
import { OutputPattern } from "./output-pattern.ts";
import { hasEnded, Recording } from "./recording.ts";
import type {
  CollectedOutput,
  ExecHandle,
  FollowOptions,
  OutputCondition,
  OutputPage,
  PatternMatch,
  ReadOutputOptions,
} from "./services/exec-service.ts";
import type { Sessions } from "./sessions.ts";
import { waitAtMost } from "./wait-at-most.ts";

/** HUP, INT, QUIT, KILL and TERM, as for the runner: the signals that end a command of a shell. */
const ENDING_SIGNALS: ReadonlySet<number> = new Set([1, 2, 3, 9, 15]);

export interface ExecHandleParts {
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly settings: { readonly outputBudgetBytes: number };
  readonly output: ExecOutput;
  readonly late: LateOutputs;
}

/** A command as found: in memory while running or recently ended, otherwise from the store. */
export interface FoundExec {
  readonly exec: Recording | ExecRow;
  /** Absent if the session has ended. */
  readonly session?: LiveSession | undefined;
  /** The caller has read-only access. */
  readonly isReadOnly?: boolean;
}

export class FoundExecHandle implements ExecHandle {
  readonly id: string;
  readonly sessionId: string;
  readonly #exec: Recording | ExecRow;
  readonly #session: LiveSession | undefined;
  readonly #isReadOnly: boolean;
  readonly #parts: ExecHandleParts;

  constructor({ exec, session, isReadOnly = false }: FoundExec, parts: ExecHandleParts) {
    this.#isReadOnly = isReadOnly;
    this.#exec = exec;
    this.#session = session;
    this.#parts = parts;
    ({ id: this.id, sessionId: this.sessionId } = this.row);
  }

  get row(): ExecRow {
    const row = this.#recording?.row ?? (this.#exec as ExecRow);
    return this.#parts.late.shown(row);
  }

  async shellCwd(): Promise<string> {
    const { cwd } = this.row;
    if (cwd !== undefined) return cwd;
    const session = this.#session?.row ?? (await this.#parts.store.getSession(this.sessionId));
    return session?.cwd ?? "";
  }

  async wait(timeoutMs?: number, signal?: AbortSignal): Promise<ExecRow> {
    const recording = this.#recording;
    if (recording === undefined) return this.row;
    await waitAtMost(recording.ended, timeoutMs, signal);
    // A client that learns that the sandbox is gone must also find the session ended.
    if (isLoss(recording.row.endReason)) await recording.settled;
    return this.row;
  }

  async waitFor(
    condition: OutputCondition,
    options: { readonly timeoutMs?: number; readonly signal: AbortSignal },
  ): Promise<PatternMatch | undefined> {
    const pattern = new OutputPattern(condition.pattern);
    const over = new AbortController();
    const deadline =
      options.timeoutMs === undefined
        ? undefined
        : new ObservedDeadline(options.timeoutMs, () => over.abort());
    const signal = AbortSignal.any([options.signal, over.signal]);
    const { stream } = condition;
    const from = { offset: 0, until: "closed", signal, ...(stream && { stream }) } as const;
    try {
      for await (const { chunks } of this.follow(from))
        for (const chunk of chunks) {
          const match = await pattern.find(chunk);
          if (match !== undefined) return match;
          signal.throwIfAborted();
        }
    } catch (error) {
      if (!over.signal.aborted || options.signal.aborted) throw error;
    } finally {
      deadline?.stop();
    }
    return undefined;
  }

  async collect(budgetBytes?: number): Promise<CollectedOutput> {
    const { row } = this;
    const budget = this.#recording?.budget;
    // The output kept in memory ends with the command.
    const isKept = row.backgroundBytes === 0;
    if (
      isKept &&
      budget !== undefined &&
      (budgetBytes ?? budget.budgetBytes) === budget.budgetBytes
    )
      return budget.collect();
    const { output, settings } = this.#parts;
    return await output.collect(row, budgetBytes ?? settings.outputBudgetBytes);
  }

  async read(options: ReadOutputOptions): Promise<OutputPage> {
    return await this.#parts.output.read(this.#exec, options);
  }

  follow(options: FollowOptions): AsyncIterable<JournalPage> {
    const isPassive = this.#isReadOnly;
    return this.#parts.output.follow(this.#exec, { ...options, isPassive });
  }

  async signal(signal: number, options?: { readonly tree?: boolean }): Promise<number> {
    const recording = this.#recording;
    if (recording?.row.status === "queued") {
      // No process is there to get another signal, and none of them ends what has not begun. 0 only asks.
      if (!ENDING_SIGNALS.has(signal)) return signal === 0 ? 1 : 0;
      await recording.abandon("killed");
      return 1;
    }
    return await this.#inside(async (session) =>
      (await session.channel()).signal(this.id, signal, options),
    );
  }

  async cancel(): Promise<boolean> {
    const recording = this.#recording;
    if (recording?.row.status === "queued") {
      await recording.abandon("cancelled");
      return true;
    }
    if (this.row.status === "done") return false;
    return await this.#inside(async (session) => (await session.channel()).cancel(this.id));
  }

  async writeStdin(bytes: Uint8Array): Promise<void> {
    await this.#inside(async () => await (await this.#input()).writeStdin(bytes));
  }

  async closeStdin(): Promise<void> {
    await this.#inside(async () => await (await this.#input()).closeStdin());
  }

  async resize(size: TerminalSize): Promise<void> {
    await this.#inside(async (session) => (await session.channel()).resize(this.id, size));
  }

  get #recording(): Recording | undefined {
    return this.#exec instanceof Recording ? this.#exec : undefined;
  }

  /**
   * With the session alive and its lease renewed. Acts as the owner: the handle's holder is already
   * authorized.
   */
  async #inside<T>(work: (session: LiveSession) => Promise<T>): Promise<T> {
    const session = await this.#parts.sessions.enterLive(this.row, this.sessionId);
    try {
      return await work(session);
    } finally {
      await session.leave();
    }
  }

  async #input(): Promise<ExecStream> {
    const recording = this.#recording;
    if (recording === undefined || recording.row.status === "done") throw hasEnded(this.id);
    return await recording.begun;
  }
}
