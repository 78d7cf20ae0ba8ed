/** What the core offers to whoever serves it: every use of a session, in the core's own terms. */
import type { SessionStatus, ShownStatus } from "@sandkasten/protocol";
import type {
  IsolationReport,
  SandboxLimits,
  SandboxProfile,
  SandboxStats,
} from "../ports/backend.ts";
import type { Channel, ExecCommand, TerminalSize } from "../ports/channel.ts";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ImageStore } from "../ports/image-store.ts";
import type { ExecRow, Page, SessionRow, WorkspaceRow } from "../ports/session-store.ts";

/** Who asks. Sessions of one caller do not exist for another. */
export interface Caller {
  /** Name of the API key. */
  readonly owner: string;
  readonly maxSessions: number;
  readonly maxRunningExecs: number;
  readonly maxWorkspaces: number;
}

export interface CreateSessionOptions {
  /** Name of the backend; the daemon's usual one when absent. */
  readonly backend?: string;
  readonly image?: string;
  /** 0 for the default. */
  readonly ttlMs?: number;
  readonly workspaceId?: string;
  readonly key?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: Partial<SandboxLimits>;
  readonly network?: boolean;
  readonly profile?: SandboxProfile;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string;
}

export interface SessionQuery {
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A session as it can be seen now, with its lease in wall time. */
export interface SessionView extends Omit<SessionRow, "status"> {
  /** `unreachable` while its backend does not answer, so that nobody knows. */
  readonly status: ShownStatus;
  readonly expiresAtMs: number;
  readonly maxExpiresAtMs: number;
}

/** A stay inside a session: while it lasts the session does not expire for want of use. */
export interface Visit extends Disposable {
  readonly channel: Channel;
}

/**
 * Every method rejects with SESSION_NOT_FOUND for an id that the caller has no session of. What
 * needs a living sandbox rejects with SESSION_EXPIRED (lease over), SESSION_NOT_FOUND (destroyed) or
 * CONFLICT (creating, paused, crashed, failed), and renews the lease. While the session's backend
 * does not answer, ENGINE_UNREACHABLE.
 */
export interface SessionService {
  /** Makes a session, or answers the living one of the key, or the one that the same request made before. */
  create(
    caller: Caller,
    options: CreateSessionOptions,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }>;
  /** Also of sessions that have ended. */
  get(caller: Caller, id: string): Promise<SessionView>;
  list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>>;
  /** Ends the session. Idempotent; waits for one that is being made. */
  destroy(caller: Caller, id: string): Promise<void>;
  pause(caller: Caller, id: string): Promise<SessionView>;
  resume(caller: Caller, id: string): Promise<SessionView>;
  renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView>;
  stats(caller: Caller, id: string): Promise<SandboxStats>;
  isolation(caller: Caller, id: string): Promise<IsolationReport>;
  /** For file calls and ports. */
  enter(caller: Caller, id: string): Promise<Visit>;
  /** Digests of the images that living sandboxes and the pool use. */
  imagesInUse(): Promise<ReadonlySet<string>>;
}

export interface StartExecOptions {
  readonly command: ExecCommand;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** All of the input, or `open` for `writeStdin`. */
  readonly stdin?: Uint8Array | "open";
  readonly merge?: boolean;
  /** 0 or absent for the longest allowed, to which more is clamped. */
  readonly timeoutMs?: number;
  readonly idleTimeoutMs?: number;
  /** How much of the output `wait` shall be able to answer from memory. */
  readonly outputBudgetBytes?: number;
  readonly idempotencyKey?: string;
}

/** What the answer to a finished, or still running, command holds of its output. */
export interface CollectedOutput {
  readonly output: Uint8Array;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
}

export interface ReadOutputOptions {
  readonly offset: number;
  readonly maxBytes: number;
  /** How long to wait when there is no output yet. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

export interface OutputPage {
  readonly page: JournalPage;
  /** As it was before the page was read. */
  readonly exec: ExecRow;
  /** It has ended, and this is the last of its output. */
  readonly done: boolean;
}

export interface ExecService {
  /** Starts a command, or finds the one that the same idempotency key started. Resolves when it is written down, before it ends. */
  start(caller: Caller, sessionId: string, options: StartExecOptions): Promise<ExecRow>;
  /** As it is now. */
  get(caller: Caller, sessionId: string, execId: string): Promise<ExecRow>;
  list(
    caller: Caller,
    sessionId: string,
    page: { readonly limit?: number; readonly cursor?: string },
  ): Promise<Page<ExecRow>>;
  /** Resolves when it has ended or the time is up; look at `status`. */
  wait(
    caller: Caller,
    sessionId: string,
    execId: string,
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<ExecRow>;
  /** Head and tail of its output within a budget; after the end of the sandbox, too. */
  collect(
    caller: Caller,
    sessionId: string,
    execId: string,
    budgetBytes?: number,
  ): Promise<CollectedOutput>;
  /** Output from a cursor on. */
  read(
    caller: Caller,
    sessionId: string,
    execId: string,
    options: ReadOutputOptions,
  ): Promise<OutputPage>;
  /**
   * All output from a cursor on as it comes, page by page, until the command has ended and all of it
   * was delivered. While somebody follows, nothing that they have not read is dropped: the command waits.
   */
  follow(
    caller: Caller,
    sessionId: string,
    execId: string,
    offset: number,
    signal?: AbortSignal,
  ): AsyncIterable<JournalPage>;
  signal(
    caller: Caller,
    sessionId: string,
    execId: string,
    signal: number,
    options?: { readonly tree?: boolean },
  ): Promise<number>;
  writeStdin(caller: Caller, sessionId: string, execId: string, bytes: Uint8Array): Promise<void>;
  closeStdin(caller: Caller, sessionId: string, execId: string): Promise<void>;
  resize(caller: Caller, sessionId: string, execId: string, size: TerminalSize): Promise<void>;
}

export interface WorkspaceView extends WorkspaceRow {
  /** Living sessions that have it. */
  readonly sessionIds: readonly string[];
}

/** Persistent directories that outlive sessions. Unknown ones reject with FILE_NOT_FOUND. */
export interface WorkspaceService {
  list(caller: Caller): Promise<readonly WorkspaceView[]>;
  get(caller: Caller, id: string): Promise<WorkspaceView>;
  /** Removes it with its files. CONFLICT while a session has it. */
  destroy(caller: Caller, id: string): Promise<void>;
  /** For file calls: through a session that has it, else through a sandbox of its own. `make` creates an unknown one. */
  enter(caller: Caller, id: string, options?: { readonly make?: boolean }): Promise<Visit>;
}

/** Numbers about the daemon, for metrics. */
export interface ServiceCounts {
  readonly sessions: Readonly<Record<SessionStatus, number>>;
  readonly runningExecs: number;
  readonly pooled: number;
}

export interface Services {
  readonly sessions: SessionService;
  readonly execs: ExecService;
  readonly workspaces: WorkspaceService;
  /** The images of a backend, by its name, or of the usual one. INVALID_REQUEST when there is none of that name. */
  imagesOf(backend?: string): ImageStore;
  /** Whether the usual backend answers. */
  reachable(): Promise<boolean>;
  counts(): ServiceCounts;
}
