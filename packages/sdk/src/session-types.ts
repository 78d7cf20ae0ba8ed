/** Sessions and workspaces, as the SDK shows them. */
import type {
  CreateSession,
  IsolationBody,
  SessionBody,
  StatsBody,
  WorkspaceBody,
} from "@sandkasten/protocol";
import { camelKeys } from "./camel-keys.ts";
import type { AcquireSource, IsolationTier, SandboxProfile, SessionStatus } from "./wire-names.ts";

/** What a sandbox may use at most. */
export interface Limits {
  readonly memoryMb: number;
  readonly cpuMillicores: number;
  readonly pids: number;
  readonly diskMb: number;
  readonly diskInodes: number;
}

/** What a new session shall be like. The daemon's defaults stand in for what is absent. */
export interface CreateSessionOptions {
  /** Reference or short name of an image. */
  readonly image?: string | undefined;
  /** How long the session lives without use. */
  readonly ttlSeconds?: number | undefined;
  /** A workspace to have at /workspace; made when there is none of this id. */
  readonly workspaceId?: string | undefined;
  /** Get-or-create: a living session of this key is answered instead of a new one. */
  readonly key?: string | undefined;
  /** Variables of every command. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly limits?: Partial<Limits> | undefined;
  /** Asking for a network is refused unless the daemon can give one. */
  readonly network?: boolean | "none" | "full" | undefined;
  readonly profile?: SandboxProfile | undefined;
  /** Words of your own, to find the session by. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Two calls with the same key make one session. The SDK makes one for each call. */
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Which sessions to list. */
export interface SessionFilter {
  readonly status?: SessionStatus | undefined;
  readonly key?: string | undefined;
  /** All of these must fit. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** Which page of which sessions to list. */
export interface ListSessionsOptions extends SessionFilter {
  /** At most so many. */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What is known of a session. */
export interface SessionInfo {
  readonly id: string;
  /** The image that is used. */
  readonly image: string;
  /** What was asked for, where it differs. */
  readonly requestedImage?: string | undefined;
  readonly status: SessionStatus;
  /** The shell's directory. */
  readonly cwd: string;
  readonly acquireSource: AcquireSource;
  readonly workspaceId?: string | undefined;
  readonly key?: string | undefined;
  /** The key as `{namespace}_{id}_sandbox`. */
  readonly sessionAlias?: string | undefined;
  readonly profile: SandboxProfile;
  readonly network: "none";
  readonly limits: Limits;
  readonly metadata: Readonly<Record<string, string>>;
  readonly ttlSeconds: number;
  /** ISO 8601, like all times here. */
  readonly createdAt: string;
  /** When it ends unless it is used before. */
  readonly expiresAt: string;
  /** When it ends, used or not. */
  readonly maxExpiresAt: string;
  readonly lastActivityAt: string;
  readonly endedAt?: string | undefined;
  /** Why it ended, for people. */
  readonly endReason?: string | undefined;
}

/** A page of sessions, newest first. */
export interface SessionPage extends ReadonlyArray<SessionInfo> {
  /** What to pass as `cursor` for the next page; absent when this is the last. */
  readonly nextCursor?: string | undefined;
}

/** What a sandbox uses now. */
export interface SessionStats {
  readonly memoryBytes: number;
  readonly memoryLimit: number;
  readonly cpuUsageUsec: number;
  readonly pids: number;
  readonly pidsLimit: number;
  readonly diskBytes: number;
  readonly diskLimit: number;
  readonly oomKills: number;
}

/** One wall of a sandbox. */
export interface IsolationFact {
  readonly name: string;
  readonly enforced: boolean;
  /** What was looked at, and what was seen. */
  readonly measured: string;
}

/** How well a sandbox is shut off, as measured inside it. */
export interface IsolationReport {
  readonly tier: IsolationTier;
  readonly runtime: string;
  readonly facts: readonly IsolationFact[];
}

/** What is known of a workspace. */
export interface WorkspaceInfo {
  readonly id: string;
  readonly createdAt: string;
  readonly lastUsedAt: string;
  /** Living sessions that have it. */
  readonly sessions: readonly string[];
}

export function toCreateSession(options: CreateSessionOptions): CreateSession {
  const { limits } = options;
  return {
    image: options.image,
    ttl_seconds: options.ttlSeconds,
    workspace_id: options.workspaceId,
    key: options.key,
    env: options.env,
    limits: limits && {
      memory_mb: limits.memoryMb,
      cpu_millicores: limits.cpuMillicores,
      pids: limits.pids,
      disk_mb: limits.diskMb,
      disk_inodes: limits.diskInodes,
    },
    network: options.network,
    profile: options.profile,
    metadata: options.metadata,
  };
}

export function toSessionInfo(body: SessionBody): SessionInfo {
  const { session_id: _, sandbox_id: __, limits, ...rest } = body;
  return { ...camelKeys(rest), limits: camelKeys(limits) };
}

export function toSessionStats(body: StatsBody): SessionStats {
  return camelKeys(body);
}

export function toIsolationReport(body: IsolationBody): IsolationReport {
  return camelKeys(body);
}

export function toWorkspaceInfo(body: WorkspaceBody): WorkspaceInfo {
  return camelKeys(body);
}
