/** The port through which the core remembers sessions, commands and workspaces, and learns who serves which. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecEndReason, SessionStatus } from "@sandkasten/protocol";
import type { SandboxLimits, SandboxProfile, SandboxIsolation } from "./backend.ts";

/** `engine`: that of the container engine, which the daemon does not control. Else what the gateway allows. */
export type SessionNetwork = "none" | "engine" | GatewayNetwork;

export interface GatewayNetwork {
  readonly allow: readonly string[];
  /** Added to requests by the gateway. What they are is encrypted, what they are for is not. */
  readonly secrets?: {
    readonly sealed: string;
    readonly headers: readonly {
      readonly host: string;
      readonly header: string;
      readonly name?: string;
    }[];
  };
}

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
  /** The fencing token of the daemon that serves it. */
  readonly fence: number;
  /** Name of the backend that its sandbox is of. */
  readonly backend: string;
  /** Where its sandbox is: a daemon that reaches this place can serve it. */
  readonly place: string;
  /** The backend's name for it; absent until one was chosen. */
  readonly sandboxId?: string;
  readonly profile: SandboxProfile;
  readonly network: SessionNetwork;
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
  /** In the store's time: when the lease ends, and when the session ends in any case. */
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
    | "network"
    | "acquireSource"
    | "cwd"
    | "ttlMs"
    | "lastActivityAtMs"
    | "endedAtMs"
    | "endReason"
    | "leaseEndsMs"
    | "lifetimeEndsMs"
  >
>;

export interface SessionFilter {
  /** All owners' when absent. */
  readonly owner?: string;
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
  /** Where its disk is. */
  readonly place: string;
  /** What the backend calls it; unique for ever. */
  readonly diskId: string;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number;
}

/** Either the row went in, or this one stands in its way. */
export type Inserted<T> =
  | { readonly inserted: true }
  | { readonly inserted: false; readonly existing: T };

/** As `Inserted`, where the owner may have only so many: `overQuota` says that there are as many already. */
export type Admitted<T> = Inserted<T> | { readonly inserted: false; readonly overQuota: true };

/** A sandbox that belongs to no session: one made in advance, or one that serves file calls on a workspace. */
export interface SideSandboxRow {
  /** The backend's name for it. */
  readonly id: string;
  /** The fencing token of the daemon that made it. */
  readonly fence: number;
  readonly place: string;
  readonly purpose: "pool" | "workspace";
}

/** The clocks of one machine, read at the same moment. */
export interface ClockReading {
  readonly bootId: string;
  /** Time since that boot. */
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** A run of a daemon. */
export interface DaemonRow {
  /** Its fencing token; a later run has a greater one. */
  readonly fence: number;
  /** Where other daemons reach it; absent when they cannot. */
  readonly address?: string;
}

/** What `join` answers. */
export interface Joined {
  readonly fence: number;
  readonly storeMs: number;
}

/**
 * What survives the daemon, and what daemons that share it agree on. When a promise resolves, the
 * change survives a kill -9 of the daemon. Rejects with `SandboxError`: STORAGE_FULL when the disk is,
 * INTERNAL_ERROR for all else.
 *
 * Ownership: a session is served by the daemon whose fencing token its row has. Every change of a
 * session, its commands and its output carries the token, and has no effect with another one.
 *
 * The store's time is the time in which leases are counted. It goes on with the monotonic clocks of
 * the daemons, so that no clock that is set moves it, and it is carried over boots.
 */
export interface SessionStore {
  /** Nothing was here before, and no daemon has come up on it yet: `settle` was never called. */
  readonly isNew: boolean;
  /** How often `beat` is to be called, and after how long without it a daemon is held for dead; several daemons can have the store open when the latter is there. */
  readonly heartbeat: { readonly intervalMs: number; readonly deadAfterMs?: number };
  /** A daemon has come up on it: what it does not know of does not exist. */
  settle(): Promise<void>;

  /** Begins a run of a daemon. */
  join(address: string | undefined, reading: ClockReading): Promise<Joined>;
  /** Says that the daemon lives; answers the store's time, at least `storeMs`. Undefined when the others hold it for dead: nothing is its own any more. */
  beat(fence: number, storeMs: number, reading: ClockReading): Promise<number | undefined>;
  /** Ends the run: what it served may be claimed at once. */
  leave(fence: number): Promise<void>;
  /** The daemon of a fencing token, unless it has left or is held for dead. */
  livingDaemon(fence: number): Promise<DaemonRow | undefined>;
  /**
   * Holds daemons for dead that have not said for too long that they live, and makes what they served
   * at these places this daemon's: answers the sessions, which have the new token already. Their
   * sandboxes that belong to no session are forgotten. Sessions that have ended are among them if a
   * command of theirs has not. Rejects when the daemon is held for dead. A store that only one daemon can have open
   * looks at no places: all is that daemon's.
   */
  claim(fence: number, places: readonly string[]): Promise<readonly SessionRow[]>;
  /** All sandboxes at a place that belong to a session which has not ended, or are side sandboxes. */
  sandboxesAt(place: string): Promise<ReadonlySet<string>>;
  /** Before it is made. Rejects when the daemon is held for dead. */
  insertSideSandbox(row: SideSandboxRow): Promise<void>;
  /** After it is gone. */
  deleteSideSandbox(id: string): Promise<void>;

  /**
   * Refused when a session of the owner that is creating, running or paused has the key, or any that
   * has not failed has the idempotency key, or the owner has `maxSessions` that are creating, running
   * or paused. Rejects when the daemon is held for dead.
   */
  insertSession(row: SessionRow, maxSessions: number): Promise<Admitted<SessionRow>>;
  getSession(id: string): Promise<SessionRow | undefined>;
  /** The living session of this key. */
  findByKey(owner: string, key: string): Promise<SessionRow | undefined>;
  /** Those that have not ended before all others, and the newest first among both. */
  listSessions(filter: SessionFilter): Promise<Page<SessionRow>>;
  /** Of the owner, or of all: those that have not ended: creating, running, paused, destroying. */
  livingSessions(owner?: string): Promise<readonly SessionRow[]>;
  /**
   * Changes a session, given it is in one of these states and served with this token; answers it as it
   * is afterwards, or nothing. Also works when the disk is full if the new status is `destroying` or a
   * final one.
   */
  updateSession(
    id: string,
    fence: number,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined>;
  /** Gives a session that is being created a sandbox of the pool, which is no side sandbox any more. Nothing when one of the two is not there for this token. */
  giveSandbox(id: string, fence: number, sandboxId: string): Promise<SessionRow | undefined>;
  /** Forgets ended sessions, and their commands, that ended before; answers their ids. */
  forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]>;

  /**
   * Refused when the session has a command with the idempotency key, unless that ended as
   * `not_started`, or the owner has `maxRunning` that have not ended. Rejects with `lostOwnership` when
   * the session is served with another token.
   */
  insertExec(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>>;
  /** Rejects with `lostOwnership` when the session is served with another token, or unknown. */
  updateExec(sessionId: string, id: string, fence: number, patch: ExecPatch): Promise<void>;
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
  /** Of sessions that are served with this token: all that are running, then all that are queued, each oldest first. */
  unfinishedExecs(fence: number): Promise<readonly ExecRow[]>;

  /** Refused when the owner has it, or has `maxWorkspaces`. */
  insertWorkspace(row: WorkspaceRow, maxWorkspaces: number): Promise<Admitted<WorkspaceRow>>;
  touchWorkspace(owner: string, id: string, lastUsedAtMs: number): Promise<void>;
  getWorkspace(owner: string, id: string): Promise<WorkspaceRow | undefined>;
  listWorkspaces(owner: string): Promise<readonly WorkspaceRow[]>;
  /** Of all owners, for cleaning up. */
  allWorkspaces(): Promise<readonly WorkspaceRow[]>;
  deleteWorkspace(owner: string, id: string): Promise<void>;

  close(): void;
}

/** Another daemon serves the session: this one may change nothing of it any more. */
export function lostOwnership(sessionId: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    `the session ${sessionId} is served by another daemon by now; try again`,
    { details: { reason: "moved" }, cause },
  );
}

/** Another daemon may serve what this one did: it has not said for too long that it lives. */
export function heldForDead(cause?: unknown): SandboxError {
  return new SandboxError(
    "SANDBOX_UNREACHABLE",
    "the other daemons hold this one for dead; try again in a moment",
    { details: { reason: "moved" }, cause },
  );
}

/** Whether something failed because another daemon serves it. */
export function isLostOwnership(error: unknown): boolean {
  return error instanceof SandboxError && error.details?.["reason"] === "moved";
}
