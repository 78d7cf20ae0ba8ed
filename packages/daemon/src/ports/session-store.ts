/**
 * The port through which the core stores sessions, commands and workspaces, and learns which daemon
 * serves which session.
 */
import type { ExecEndReason, SessionStatus } from "@sandkasten/protocol";
import type { SandboxLimits, SandboxProfile, SandboxIsolation } from "./backend.ts";

/**
 * `engine`: the container engine's network, which the daemon does not control. Otherwise what the
 * gateway allows.
 */
export type SessionNetwork = "none" | "engine" | GatewayNetwork;

export interface GatewayNetwork {
  readonly allow: readonly string[];
  /** Added to requests by the gateway. Their values are encrypted; the hosts they are for are not. */
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
  /** Name of the API key that owns it. */
  readonly owner: string;
  readonly status: SessionStatus;
  /**
   * `namespace:id:name`. At most one session of an owner that is creating, running or paused has
   * it.
   */
  readonly key?: string;
  /** The image that was requested and the one that is used. */
  readonly requestedImage: string;
  readonly image: string;
  readonly imageDigest?: string;
  /** The fencing token of the daemon that serves the session. */
  readonly fence: number;
  /** Name of the backend that runs the sandbox. */
  readonly backend: string;
  /** Where the sandbox is: a daemon that can reach this place can serve it. */
  readonly place: string;
  /** The backend's id for it; differs from `id` only for sessions of daemons before 0.2, else absent. */
  readonly sandboxId?: string;
  readonly profile: SandboxProfile;
  readonly network: SessionNetwork;
  readonly isolation: SandboxIsolation;
  readonly limits: SandboxLimits;
  readonly metadata: Readonly<Record<string, string>>;
  /** The persistent workspace at /workspace, if any. */
  readonly workspaceId?: string;
  /** Workspaces mounted elsewhere. */
  readonly workspaces: readonly WorkspaceMount[];
  readonly acquireSource: "pool" | "cold";
  readonly cwd: string;
  readonly ttlMs: number;
  readonly createdAtMs: number;
  readonly lastActivityAtMs: number;
  readonly endedAtMs?: number;
  readonly endReason?: string;
  /** In the store's time: when the lease ends, and when the session ends regardless. */
  readonly leaseEndsMs: number;
  readonly lifetimeEndsMs: number;
  readonly idempotencyKey?: string;
  /** Distinguishes a repeated request from a different one with the same idempotency key. */
  readonly requestHash?: string;
}

/** A workspace of the session's owner, and where it is mounted. */
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
    | "network"
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
  /** All owners when absent. */
  readonly owner?: string;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit: number;
  /** As returned by the previous page. */
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
  /** The command as requested, truncated. */
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
  /** The command has ended, and its background processes held its output when last seen. */
  readonly background: boolean;
  /** How much they have printed since the command ended; not part of the other counts. */
  readonly backgroundBytes: number;
  /** The effective timeout; absent if there is none. */
  readonly timeoutMs?: number;
  /** The request asked for a longer timeout than is allowed. */
  readonly timeoutClamped: boolean;
  readonly idempotencyKey?: string;
  readonly requestHash?: string;
  /** The whole request, so another daemon can start it; `""` in a patch removes it. */
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
  /** The owner's id for it. */
  readonly id: string;
  readonly owner: string;
  /** Name of the backend that has it. */
  readonly backend: string;
  /** Where its disk is. */
  readonly place: string;
  /** The backend's id for it; never reused. */
  readonly diskId: string;
  readonly createdAtMs: number;
  readonly lastUsedAtMs: number;
  /** The fencing token of the daemon that is destroying it: it must not be used any more. */
  readonly endingFence?: number;
}

/** Either the row was inserted, or `existing` prevented it. */
export type Inserted<T> =
  | { readonly inserted: true }
  | { readonly inserted: false; readonly existing: T };

/** Like `Inserted`, but limited: `overQuota` means that the owner has reached the quota. */
export type Admitted<T> = Inserted<T> | { readonly inserted: false; readonly overQuota: true };

/** `sandboxLost`: the side sandbox that the session was to replace does not exist for its token. */
export type AdmittedSession =
  | Admitted<SessionRow>
  | { readonly inserted: false; readonly sandboxLost: true };

/** A sandbox without a session: from the pool, or one that serves file calls on a workspace. */
export interface SideSandboxRow {
  /** The backend's id for it; from the pool, also the id of the session that gets it. */
  readonly id: string;
  /** The fencing token of the daemon that created it. */
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

/** One run of a daemon. */
export interface DaemonRow {
  /** Its fencing token; a later run has a greater one. */
  readonly fence: number;
  /** Where other daemons reach it; absent if they cannot. */
  readonly address?: string;
}

/** The result of `join`. */
export interface Joined {
  readonly fence: number;
  readonly storeMs: number;
}

/** The result of `claim`. */
export interface Claimed {
  readonly sessions: readonly SessionRow[];
  /**
   * What their sandboxes are shown: greater than the fencing token of every daemon that served them
   * before, which the claiming daemon's token need not be. Absent if there are none, or if one
   * daemon alone can open the store.
   */
  readonly sandboxFence?: number;
}

/**
 * State that outlives the daemon, and that daemons sharing the store agree on. When a promise resolves,
 * the change survives a kill -9 of the daemon. Rejects with `SandboxError`: STORAGE_FULL when the disk
 * is full, INTERNAL_ERROR for everything else.
 *
 * Ownership: a session is served by the daemon whose fencing token its row has. Every change to a
 * session, its commands and its output carries the token, and has no effect with any other token.
 *
 * Leases are measured in the store's time. It advances with the monotonic clocks of the daemons, so
 * setting a clock does not move it, and it carries over reboots.
 */
export interface SessionStore {
  /**
   * The store was empty when opened, and no daemon has started on it yet: `settle` was never
   * called.
   */
  readonly isNew: boolean;
  /**
   * How often to call `beat`, and how long after the last beat a daemon is declared dead.
   * `deadAfterMs` is present if several daemons can open the store.
   */
  readonly heartbeat: { readonly intervalMs: number; readonly deadAfterMs?: number };
  /**
   * Records that a daemon has started on the store: from now on, sandboxes that it does not list
   * are orphans.
   */
  settle(): Promise<void>;

  /** Starts a run of a daemon. */
  join(address: string | undefined, reading: ClockReading): Promise<Joined>;
  /**
   * Reports that the daemon is alive; returns the store's time, at least `storeMs`. Undefined if
   * the other daemons declared it dead: it then owns nothing.
   */
  beat(fence: number, storeMs: number, reading: ClockReading): Promise<number | undefined>;
  /** Ends the run: other daemons may claim what it served at once. */
  leave(fence: number): Promise<void>;
  /** The daemon with this fencing token, unless it has left or was declared dead. */
  livingDaemon(fence: number): Promise<DaemonRow | undefined>;
  /**
   * Declares daemons dead that missed their heartbeats, and takes over what they served at these
   * places. Returns those sessions, which already have the new token; ended sessions are included
   * if one of their commands has not ended. Side sandboxes of dead daemons are forgotten. Rejects
   * if this daemon was declared dead. A store that only one daemon can open ignores places:
   * everything belongs to that daemon.
   */
  claim(fence: number, places: readonly string[]): Promise<Claimed>;
  /**
   * All sandboxes at a place that belong to a session that has not ended, or are side sandboxes.
   */
  sandboxesAt(place: string): Promise<ReadonlySet<string>>;
  /** Call before creating it. Rejects if the daemon was declared dead. */
  insertSideSandbox(row: SideSandboxRow): Promise<void>;
  /** Call after it is destroyed. */
  deleteSideSandbox(id: string): Promise<void>;

  /**
   * Refused if another session of the owner that is creating, running or paused has the key, if one
   * that has not failed has the idempotency key, or if the owner has `maxSessions` that are
   * creating, running or paused. Rejects if the daemon was declared dead.
   *
   * With `acquireSource: "pool"`, the row also replaces the side sandbox with its id and token, in
   * one step; refused if there is none.
   */
  insertSession(row: SessionRow, maxSessions: number): Promise<AdmittedSession>;
  getSession(id: string): Promise<SessionRow | undefined>;
  /** The active session with this key. */
  findByKey(owner: string, key: string): Promise<SessionRow | undefined>;
  /** Sessions that have not ended come first; both groups are ordered newest first. */
  listSessions(filter: SessionFilter): Promise<Page<SessionRow>>;
  /**
   * Sessions of the owner, or of all owners, that have not ended: creating, running, paused,
   * destroying.
   */
  livingSessions(owner?: string): Promise<readonly SessionRow[]>;
  /**
   * Changes a session if it is in one of these states and served with this token; returns the
   * changed row, or undefined. Works on a full disk if the new status is `destroying` or a final
   * one.
   */
  updateSession(
    id: string,
    fence: number,
    from: readonly SessionStatus[],
    patch: SessionPatch,
  ): Promise<SessionRow | undefined>;
  /** Deletes sessions that ended before this time, and their commands; returns their ids. */
  forgetSessionsEndedBefore(wallMs: number): Promise<readonly string[]>;

  /**
   * Refused if the session has a command with the idempotency key that did not end as
   * `not_started`, or if the owner has `maxRunning` commands that have not ended. Rejects with
   * `lostOwnership` if the session is served with another token.
   */
  insertExec(row: ExecRow, fence: number, maxRunning: number): Promise<Admitted<ExecRow>>;
  /** Rejects with `lostOwnership` if the session is served with another token, or is unknown. */
  updateExec(sessionId: string, id: string, fence: number, patch: ExecPatch): Promise<void>;
  getExec(sessionId: string, id: string): Promise<ExecRow | undefined>;
  /** The session's command with this idempotency key, unless it ended as `not_started`. */
  findExec(sessionId: string, idempotencyKey: string): Promise<ExecRow | undefined>;
  /**
   * How many other commands of the session are newer than this one, or had not ended when it began.
   */
  countExecsAfter(row: ExecRow): Promise<number>;
  /** Newest first: by id, which begins with the time. */
  listExecs(
    sessionId: string,
    options: { readonly limit: number; readonly cursor?: string },
  ): Promise<Page<ExecRow>>;
  /**
   * Of sessions served with this token: all running commands, then all queued ones, each oldest
   * first.
   */
  unfinishedExecs(fence: number): Promise<readonly ExecRow[]>;

  /** Refused if the owner already has it, or has `maxWorkspaces`. */
  insertWorkspace(row: WorkspaceRow, maxWorkspaces: number): Promise<Admitted<WorkspaceRow>>;
  /**
   * Notes a use, which is always later than the creation. False if the workspace with this disk is gone
   * or being destroyed.
   */
  touchWorkspace(diskId: string, lastUsedAtMs: number): Promise<boolean>;
  getWorkspace(owner: string, id: string): Promise<WorkspaceRow | undefined>;
  listWorkspaces(owner: string): Promise<readonly WorkspaceRow[]>;
  /** Of all owners, for cleanup. */
  allWorkspaces(): Promise<readonly WorkspaceRow[]>;
  /** The one with this disk: a newer one may have its name by now. */
  deleteWorkspace(diskId: string): Promise<void>;
  /**
   * Marks a workspace as being destroyed, so no use is noted any more. `inherited` if it was marked
   * already, by this daemon or one that is dead by now. Undefined if there is no workspace with this
   * disk, if another living daemon destroys it, if this daemon was declared dead, or, with
   * `ifUnused`, if any daemon has noted a use after its creation.
   */
  endWorkspace(
    diskId: string,
    fence: number,
    options?: { readonly ifUnused?: boolean },
  ): Promise<"begun" | "inherited" | undefined>;
  /** Takes back what `endWorkspace` marked with this token. */
  keepWorkspace(diskId: string, fence: number): Promise<void>;

  close(): void;
}
