/** What callers can do with sessions. */
import type { SessionStatus, ShownStatus } from "@sandkasten/protocol";
import type { SecretRequest } from "../../network/edge-secrets.ts";
import type { NetworkRequest } from "../../network/plan-network.ts";
import type {
  IsolationReport,
  SandboxIsolation,
  SandboxLimits,
  SandboxProfile,
  SandboxStats,
} from "../../ports/backend.ts";
import type { Channel } from "../../ports/channel.ts";
import type { Page, SessionRow, WorkspaceMount } from "../../ports/session-store.ts";
import type { TraceContext } from "../../ports/telemetry.ts";
import type { Caller } from "./caller.ts";

export interface CreateSessionOptions {
  /** Name of the backend; the daemon's default when absent. */
  readonly backend?: string;
  readonly image?: string;
  /** 0 for the default. */
  readonly ttlMs?: number;
  readonly workspaceId?: string;
  /** In addition to the one at /workspace. */
  readonly workspaces?: readonly WorkspaceMount[];
  readonly key?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly limits?: Partial<SandboxLimits>;
  readonly network?: NetworkRequest;
  /** Secrets that the gateway adds to requests. */
  readonly secrets?: readonly SecretRequest[];
  readonly profile?: SandboxProfile;
  readonly isolation?: SandboxIsolation;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly idempotencyKey?: string;
}

export interface SessionQuery {
  /** Only an administrator may name another owner; when absent, an administrator gets all owners' sessions. */
  readonly owner?: string;
  readonly status?: SessionStatus;
  readonly key?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit?: number;
  readonly cursor?: string;
}

/** The current state of a session, with its lease in wall time. */
export interface SessionView extends Omit<SessionRow, "status"> {
  /** `unreachable` while its backend does not respond and the state is unknown. */
  readonly status: ShownStatus;
  readonly expiresAtMs: number;
  readonly maxExpiresAtMs: number;
}

/** Access to the inside of a sandbox. Until it is disposed, the session does not expire. */
export interface SandboxAccess extends Disposable {
  readonly channel: Channel;
}

/**
 * Every method rejects with SESSION_NOT_FOUND for an id that is not one of the caller's sessions.
 * Methods that need a running sandbox renew the lease, and reject with SESSION_EXPIRED (lease
 * over), SESSION_NOT_FOUND (destroyed) or CONFLICT (creating, paused, crashed, failed). While the
 * session's backend does not respond, they reject with ENGINE_UNREACHABLE.
 */
export interface SessionService {
  /**
   * Creates a session, or returns the active session for the key, or the one that the same request
   * created before.
   */
  create(
    caller: Caller,
    options: CreateSessionOptions,
    /** The trace of the request that creates the session. */
    trace?: TraceContext,
  ): Promise<{ readonly session: SessionView; readonly created: boolean }>;
  /** One of the caller's own sessions, including ended ones. */
  get(caller: Caller, id: string): Promise<SessionView>;
  /** Like `get`, but an administrator also sees sessions of other owners, though nothing inside them. */
  look(caller: Caller, id: string): Promise<SessionView>;
  list(caller: Caller, query: SessionQuery): Promise<Page<SessionView>>;
  /** Ends the session; an administrator can end any. Idempotent; waits for one that is being created. */
  destroy(caller: Caller, id: string): Promise<void>;
  pause(caller: Caller, id: string): Promise<SessionView>;
  resume(caller: Caller, id: string): Promise<SessionView>;
  renew(caller: Caller, id: string, ttlMs?: number): Promise<SessionView>;
  stats(caller: Caller, id: string): Promise<SandboxStats>;
  isolation(caller: Caller, id: string): Promise<IsolationReport>;
}
