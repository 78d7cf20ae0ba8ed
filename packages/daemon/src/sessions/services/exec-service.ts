/** What callers can do with commands. */
import type { OutputStream } from "@sandkasten/protocol";
import type { ExecCommand, TerminalSize } from "../../ports/channel.ts";
import type { JournalPage } from "../../ports/exec-journal.ts";
import type { ExecRow, Page } from "../../ports/session-store.ts";
import type { TraceContext } from "../../ports/telemetry.ts";
import type { Caller } from "./caller.ts";

export interface StartExecOptions {
  readonly command: ExecCommand;
  /** The command as requested, if `command` is another form of it. */
  readonly asked?: string | readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The interpreter, for traces and metrics; guessed from the command when absent. */
  readonly runtime?: string;
  /** The whole input, or `open` for `writeStdin`. */
  readonly stdin?: Uint8Array | "open";
  readonly merge?: boolean;
  /**
   * 0 or absent for the longest allowed; longer values are clamped to it. The row has the effective
   * timeout.
   */
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  /** How much of the output `wait` can return from memory. */
  readonly outputBudgetBytes?: number;
  readonly idempotencyKey?: string;
}

/** The output in the response for a finished or running command. */
export interface CollectedOutput {
  readonly output: Uint8Array;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  /** Where to continue reading. */
  readonly endOffset: number;
}

/** The output to wait for. */
export interface OutputCondition {
  /** A regular expression in the syntax of RE2. */
  readonly pattern: string;
  readonly stream?: OutputStream;
}

export interface PatternMatch {
  readonly stream: OutputStream;
  readonly text: string;
  readonly groups: readonly (string | null)[];
  readonly line: string;
}

export interface ReadOutputOptions {
  readonly offset: number;
  readonly maxBytes: number;
  /** How long to wait if there is no output yet. */
  readonly waitMs?: number;
  /** Only output of this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
}

export interface FollowOptions {
  readonly offset: number;
  /** `closed` also follows background processes of the command; `done` when absent. */
  readonly until?: "done" | "closed";
  /** Only output of this stream. */
  readonly stream?: OutputStream;
  readonly signal?: AbortSignal;
  /** It does not count as use of the session, and the command does not wait for it. */
  readonly isPassive?: boolean;
  /** The bytes of a page are then valid only until the next page is requested. */
  readonly reusesMemory?: boolean;
}

export interface OutputPage {
  readonly page: JournalPage;
  /** The command before the page was read. */
  readonly exec: ExecRow;
  /** The command has ended, and this is the last of its output; background processes may print more. */
  readonly done: boolean;
  /** No more output can come. */
  readonly closed: boolean;
}

/** A command, looked up once for its caller. */
export interface ExecHandle {
  readonly id: string;
  readonly sessionId: string;
  /** As it is now. */
  readonly row: ExecRow;
  /** The directory of the session's shell, for a command that has none. */
  shellCwd(): Promise<string>;
  /** Resolves when the command has ended or the timeout expires; check `status`. */
  wait(timeoutMs?: number, signal?: AbortSignal): Promise<ExecRow>;
  /**
   * Resolves with the first match of a pattern in the output of the command or its background, or
   * with undefined if no more output can come or the timeout expires.
   */
  waitFor(
    condition: OutputCondition,
    options: { readonly timeoutMs?: number; readonly signal: AbortSignal },
  ): Promise<PatternMatch | undefined>;
  /** Head and tail of its output within a budget; also after the sandbox has ended. */
  collect(budgetBytes?: number): Promise<CollectedOutput>;
  /** Output from a cursor on. */
  read(options: ReadOutputOptions): Promise<OutputPage>;
  /**
   * All output from a cursor on, page by page, until the command has ended and everything was
   * delivered. Output that a follower has not read is not dropped: the command waits.
   */
  follow(options: FollowOptions): AsyncIterable<JournalPage>;
  signal(signal: number, options?: { readonly tree?: boolean }): Promise<number>;
  /**
   * Ends a command as a timeout does, with the reason `cancelled`. Resolves at once, to false if it
   * has already ended.
   */
  cancel(): Promise<boolean>;
  writeStdin(bytes: Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  resize(size: TerminalSize): Promise<void>;
}

export interface ExecPage extends Page<ExecRow> {
  /** The directory of the session's shell, for commands that have none. */
  readonly shellCwd: string;
}

export interface ExecService {
  /**
   * Starts a command, or finds the one that the same idempotency key started. Resolves when it is
   * recorded, before it ends.
   */
  start(
    caller: Caller,
    sessionId: string,
    options: StartExecOptions,
    /** The trace that the command belongs to. Not part of the request: a retry has another. */
    trace?: TraceContext,
  ): Promise<ExecHandle>;
  get(caller: Caller, sessionId: string, execId: string): Promise<ExecHandle>;
  list(
    caller: Caller,
    sessionId: string,
    page: { readonly limit?: number; readonly cursor?: string },
  ): Promise<ExecPage>;
  /** Throws INVALID_REQUEST for a pattern that `ExecHandle.waitFor` does not accept. */
  checkPattern(pattern: string): void;
}
