/** The port through which the core remembers sessions, commands and workspaces. */
import type { ExecEndReason, SessionStatus } from "@sandkasten/protocol";
import type { SandboxLimits, SandboxNetwork, SandboxProfile, SandboxIsolation } from "./backend.ts";

export interface SessionRow {
  readonly id: string;
  /** Name of the API key that it belongs to. */
  readonly owner: string;
  readonly status: SessionStatus;
  /** `namespace:id:name`. At most one session of an owner that is creating, running or paused has it. */
  readonly key?: string;
  /** What was asked for and what is used. */
  readonly requestedImage: string;
  readonly image: string;
  readonly imageDigest?: string;
  /** Name of the backend that its sandbox is of. */
  readonly backend: string;
  /** The backend's name for it; absent until one was chosen. */
  readonly sandboxId?: string;
  readonly profile: SandboxProfile;
  readonly network: SandboxNetwork;
  readonly isolation: SandboxIsolation;
  readonly limits: SandboxLimits;
  readonly metadata: Readonly<Record<string, string>>;
  /** What it has at /workspace, unless that is its own. */
  readonly workspaceId?: string;
  /** What it has elsewhere. */
  readonly workspaces: readonly WorkspaceMount[];
  readonly acquireSource: "pool" | "cold";
  readonly cwd: string;
  readonly ttlMs: number;
  readonly createdAtMs: number;
  readonly lastActivityAtMs: number;
  readonly endedAtMs?: number;
  readonly endReason?: string;
  /** The boot, and the time since it, at which the lease ends, and at which it ends in any case. */
  readonly bootId: string;
  readonly leaseEndsMs: number;
  readonly lifetimeEndsMs: number;
  readonly idempotencyKey?: string;
  /** Tells a repeated request from another one with the same idempotency key. */
  readonly requestHash?: string;
}

/** A workspace of the session's owner, and where the session has it. */
export interface WorkspaceMount {
  readonly id: string;
  readonly path: string;
  readonly readOnly: boolean;
}

export type SessionPatch = Partial<
  Pick<
    SessionRow,
    | "status"
    | "image"
    | "imageDigest"
    | "sandboxId"
    | "acquireSource"
    | "cwd"
    | "ttlMs"
    | "lastActivityAtMs"
    | "endedAtMs"
    | "endReason"
    | "bootId"
    | "leaseEndsMs"
    | "lifetimeEndsMs"
  >
>;

export interface SessionFilter {
  readonly owner: string;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit: number;
  /** As given by the page before. */
  readonly cursor?: string;
}

export interface Page<T> {
  readonly rows: readonly T[];
  readonly nextCursor?: string;
}

export interface ExecRow {
  readonly id: string;
  readonly sessionId: string;
  readonly owner: string;
  readonly status: "queued" | "running" | "done";
  readonly mode: "shell" | "process";
  /** The shell that it runs in; absent for processes. */
  readonly shell?: string;
  /** The command as it was asked for, shortened. */
  readonly command: string | readonly string[];
  readonly startedAtMs: number;
  readonly endedAtMs?: number;
  readonly exitCode?: number;
  readonly signal?: number;
  readonly endReason?: ExecEndReason;
  readonly cwd?: string;
  readonly durationMs?: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly droppedBytes: number;
  readonly shellRestarted: boolean;
  /** It has ended, and processes that it left in the background held its output when last heard of. */
  readonly background: boolean;
  /** How much they have printed since its end; not part of the other counts. */
  readonly backgroundBytes: number;
  /** The timeout in effect; absent when it has none. */
  readonly timeoutMs?: number;
  /** The request asked for a longer timeout than is allowed. */
  readonly timeoutClamped: boolean;
  readonly idempotencyKey?: string;
  readonly requestHash?: string;
  /** All that was asked for, so that another daemon can start it; `""` in a patch removes it. */
  readonly request?: string;
}

export type ExecPatch = Partial<
  Omit<
    ExecRow,
    | "id"
    | "sessionId"
    | "owner"
    | "mode"
    | "shell"
    | "command"
    | "timeoutMs"
    | "timeoutClamped"
    | "idempotencyKey"
    | "requestHash"
  >
>;

export interface WorkspaceRow {
  /** As its owner calls it. */
  readonly id: string;
  readonly owner: string;
  /** Name of the backend that has it. */
  readonly backend: string;
  /** What the backend calls it; unique for ever. */
  readonly diskId: string;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number;
}

/** Either the row went in, or this one stands in its way. */
export type Inserted<T> =
  | { readonly inserted: true }
  | { readonly inserted: false; readonly existing: T };

/**
 * What survives the daemon. When a promise resolves, the change survives a kill -9. Rejects with
 * `SandboxError`: STORAGE_FULL when the disk is, INTERNAL_ERROR for all else.
 */
export interface SessionStore {
  /** Nothing was here before, and no daemon has come up on it yet: `settle` was never called. */
  readonly isNew: boolean;
  /** A daemon has come up on it: what it does not know of does not exist. */
  settle(): Promise<void>;
  /** Refused when a session of the owner that is creating, running or paused has the key, or any that has not failed has the idempotency key. */
  insertSession(row: SessionRow): Promise<Inserted<SessionRow>>;
  getSession(id: string): Promise<SessionRow | undefined>;
  /** The living session of this key. */
  findByKey(owner: string, key: string): Promise<SessionRow | undefined>;
  /** Those that have not ended before all others, and the newest first among both. */
  listSessions(filter: SessionFilter): Promise<Page<SessionRow>>;
  /** All that have not ended: creating, running, paused, destroying. */
  livingSessions(): Promise<readonly SessionRow[]>;
  /**
   * Changes a session, given it is in one of these states; answers it as it is afterwards, or nothing
   * when it is in another state or unknown. Also works when the disk is full if the new status is
   * `destroying` or a final one.
   */
  updateSession(
    id: string,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined>;
  /** Forgets ended sessions, and their commands, that ended before; answers their ids. */
  forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]>;

  /** Refused when the session has a command with the idempotency key, unless that ended as `not_started`. */
  insertExec(row: ExecRow): Promise<Inserted<ExecRow>>;
  updateExec(sessionId: string, id: string, patch: ExecPatch): Promise<void>;
  getExec(sessionId: string, id: string): Promise<ExecRow | undefined>;
  /** The session's command with this idempotency key, unless that ended as `not_started`. */
  findExec(sessionId: string, idempotencyKey: string): Promise<ExecRow | undefined>;
  /** How many other commands of its session are younger than this one, or had not ended when it began. */
  countExecsAfter(row: ExecRow): Promise<number>;
  /** Newest first: by id, which begins with the time. */
  listExecs(
    sessionId: string,
    options: { readonly limit: number; readonly cursor?: string },
  ): Promise<Page<ExecRow>>;
  /** All that are running, then all that are queued, each oldest first. */
  unfinishedExecs(): Promise<readonly ExecRow[]>;

  insertWorkspace(row: WorkspaceRow): Promise<Inserted<WorkspaceRow>>;
  touchWorkspace(owner: string, id: string, lastUsedAtMs: number): Promise<void>;
  getWorkspace(owner: string, id: string): Promise<WorkspaceRow | undefined>;
  listWorkspaces(owner: string): Promise<readonly WorkspaceRow[]>;
  /** Of all owners, for cleaning up. */
  allWorkspaces(): Promise<readonly WorkspaceRow[]>;
  deleteWorkspace(owner: string, id: string): Promise<void>;

  close(): void;
}
