/** Sessions and workspaces in the SDK. */
import {
  type NetworkRequest,
  type NetworkRules,
  type Secret,
  type SecretHeader,
  toNetwork,
} from "./network-types.ts";
import type {
  CreateSession,
  IsolationBody,
  SessionBody,
  StatsBody,
  WorkspaceBody,
} from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import { toVariables, type Variables } from "./exec-types.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type {
  AcquireSource,
  IsolationTier,
  SandboxIsolation,
  SandboxProfile,
  SessionStatus,
  ShownStatus,
} from "./wire-names.ts";

interface LimitFields {
  readonly memoryMb: number;
  readonly cpuMillicores: number;
  readonly pids: number;
  readonly diskMb: number;
  readonly diskInodes: number;
}

/** Resource limits of a sandbox. */
export type Limits = WithSnakeNames<LimitFields>;

interface WorkspaceMountFields {
  readonly id: string;
  /** The absolute mount path. */
  readonly path: string;
  /** The mount is read-only. */
  readonly readOnly?: boolean | undefined;
}

/** A workspace and its mount path in a session. */
export type WorkspaceMount = WithSnakeNames<WorkspaceMountFields>;

interface CreateSessionOptionFields {
  /** The backend that runs the sandbox. */
  readonly backend?: string | undefined;
  /** Reference or short name of an image. */
  readonly image?: string | undefined;
  /** The session expires after this time without use. */
  readonly ttlSeconds?: number | undefined;
  /** A workspace to mount at /workspace. Created if it does not exist. */
  readonly workspaceId?: string | undefined;
  /** Additional workspaces, each at an absolute path. Created if they do not exist. */
  readonly workspaces?: readonly WorkspaceMount[] | undefined;
  /** Get or create: if an active session has this key, it is returned instead of a new one. */
  readonly key?: string | undefined;
  /** Environment variables for every command. */
  readonly env?: Variables | undefined;
  readonly limits?: Partial<Limits> | undefined;
  /** Which hosts programs can connect to. None by default. */
  readonly network?: NetworkRequest | undefined;
  /** Headers that the gateway adds to HTTPS requests, so their values never enter the sandbox. */
  readonly secrets?: readonly Secret[] | undefined;
  readonly profile?: SandboxProfile | undefined;
  /** `strong` requests a separate kernel (gVisor), if the daemon has it. */
  readonly isolation?: SandboxIsolation | undefined;
  /** Your own labels, for finding the session. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Two calls with the same key create one session. The SDK generates a key for each call. */
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Options for a new session. The daemon's defaults apply to everything that is absent. */
export type CreateSessionOptions = WithSnakeNames<CreateSessionOptionFields>;

/** Which sessions to list. */
export interface SessionFilter {
  /**
   * Only sessions of this owner. Only an administrator can name another owner, or sees all owners
   * without this.
   */
  readonly owner?: string | undefined;
  readonly status?: SessionStatus | undefined;
  readonly key?: string | undefined;
  /** Sessions must match all of these. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** Which page of which sessions to list. */
export interface ListSessionsOptions extends SessionFilter {
  /** The maximum number of results. */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the previous page. */
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface SessionFields {
  readonly id: string;
  readonly owner?: string | undefined;
  /** The image in use. */
  readonly image: string;
  /** The requested image, if it differs. */
  readonly requestedImage?: string | undefined;
  readonly status: ShownStatus;
  /** The backend that runs the sandbox. */
  readonly backend: string;
  /** The shell's directory. */
  readonly cwd: string;
  readonly acquireSource: AcquireSource;
  readonly workspaceId?: string | undefined;
  /** Additional workspaces; absent if there are none. */
  readonly workspaces?: readonly WorkspaceMount[] | undefined;
  readonly key?: string | undefined;
  /** The key as `{namespace}_{id}_sandbox`. */
  readonly sessionAlias?: string | undefined;
  readonly profile: SandboxProfile;
  /** `none` is only a loopback interface, `full` every public address, otherwise the allowed destinations. */
  readonly network: "none" | "full" | NetworkRules;
  /** What enforces the network rules: the daemon's gateway, or the container engine; absent for `none`. */
  readonly networkVia?: "gateway" | "engine" | undefined;
  /** Headers that the gateway adds to requests, without their values. */
  readonly secrets?: readonly SecretHeader[] | undefined;
  /** Whether code runs on the host's kernel or on a separate one. */
  readonly isolationLevel: SandboxIsolation;
  readonly limits: Limits;
  readonly metadata: Readonly<Record<string, string>>;
  readonly ttlSeconds: number;
  /** ISO 8601, like all times here. */
  readonly createdAt: string;
  /** When the session expires unless it is used. */
  readonly expiresAt: string;
  /** When the session ends even if it is used. */
  readonly maxExpiresAt: string;
  readonly lastActivityAt: string;
  readonly endedAt?: string | undefined;
  /** Why the session ended, as text. */
  readonly endReason?: string | undefined;
}

/** A session's fields. */
export type SessionInfo = WithSnakeNames<SessionFields>;

interface PageFields {
  /** The `cursor` of the next page; absent on the last page. */
  readonly nextCursor?: string | undefined;
}

/** A page of sessions: those that have not ended first, each group newest first. */
export type SessionPage = readonly SessionInfo[] & WithSnakeNames<PageFields>;

interface StatsFields {
  readonly memoryBytes: number;
  readonly memoryLimit: number;
  readonly cpuUsageUsec: number;
  readonly pids: number;
  readonly pidsLimit: number;
  readonly diskBytes: number;
  readonly diskLimit: number;
  readonly oomKills: number;
}

/** A sandbox's current resource usage. */
export type SessionStats = WithSnakeNames<StatsFields>;

/** One isolation property of a sandbox. */
export interface IsolationFact {
  readonly name: string;
  readonly enforced: boolean;
  /** What was measured. */
  readonly measured: string;
}

/** A sandbox's isolation, as measured inside it. */
export interface IsolationReport {
  readonly tier: IsolationTier;
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

interface WorkspaceFields {
  readonly id: string;
  readonly createdAt: string;
  readonly lastUsedAt: string;
  /** The backend that stores the files. */
  readonly backend: string;
  /** Active sessions that mount it. */
  readonly sessions: readonly string[];
}

/** A workspace's fields. */
export type WorkspaceInfo = WithSnakeNames<WorkspaceFields>;

export function toCreateSession(options: CreateSessionOptions): CreateSession {
  const limits = options.limits && camelOptions(options.limits);
  return {
    backend: options.backend,
    image: options.image,
    ttl_seconds: options.ttlSeconds,
    workspace_id: options.workspaceId,
    workspaces: options.workspaces?.map((mount) => {
      const { id, path, readOnly } = camelOptions(mount);
      return { id, path, read_only: readOnly };
    }),
    key: options.key,
    env: toVariables(options.env),
    limits: limits && {
      memory_mb: limits.memoryMb,
      cpu_millicores: limits.cpuMillicores,
      pids: limits.pids,
      disk_mb: limits.diskMb,
      disk_inodes: limits.diskInodes,
    },
    network: toNetwork(options.network),
    secrets: options.secrets && [...options.secrets],
    profile: options.profile,
    isolation: options.isolation,
    metadata: options.metadata,
  };
}

export function toSessionInfo(body: SessionBody): SessionInfo {
  const { session_id: _, sandbox_id: __, limits, workspaces, network, ...rest } = body;
  return withSnakeNames({
    ...camelKeys(rest),
    ...(workspaces && {
      workspaces: workspaces.map((mount) => withSnakeNames(camelKeys(mount))),
    }),
    network,
    limits: withSnakeNames(camelKeys(limits)),
  });
}

export function toSessionStats(body: StatsBody): SessionStats {
  return withSnakeNames(camelKeys(body));
}

export function toIsolationReport(body: IsolationBody): IsolationReport {
  return camelKeys(body);
}

export function toWorkspaceInfo(body: WorkspaceBody): WorkspaceInfo {
  return withSnakeNames(camelKeys(body));
}
