/** Converts sessions between the core's terms and the API's. */
import type {
  CreateSession,
  IsolationBody,
  Limits,
  SessionBody,
  StatsBody,
} from "@sandkasten/protocol";
import { SandboxError } from "@sandkasten/protocol";
import { askedNetwork, askedSecrets, networkBody } from "./network-body.ts";
import type { IsolationReport, SandboxLimits, SandboxStats } from "../../../ports/backend.ts";
import type {
  CreateSessionOptions,
  SessionQuery,
  SessionView,
} from "../../../sessions/services/session-service.ts";

const MEBIBYTE = 1_048_576;

export function sessionBody(session: SessionView): SessionBody {
  const { id, key } = session;
  return {
    id,
    session_id: id,
    sandbox_id: id,
    owner: session.owner,
    image: session.image,
    ...(session.requestedImage !== session.image && { requested_image: session.requestedImage }),
    status: session.status,
    backend: session.backend,
    cwd: session.cwd,
    acquire_source: session.acquireSource,
    ...(session.workspaceId !== undefined && { workspace_id: session.workspaceId }),
    ...(session.workspaces.length > 0 && {
      workspaces: session.workspaces.map(({ id: workspace, path, readOnly }) => ({
        id: workspace,
        path,
        read_only: readOnly,
      })),
    }),
    ...(key !== undefined && { key, session_alias: aliasOf(key) }),
    profile: session.profile,
    ...networkBody(session.network),
    isolation_level: session.isolation,
    limits: limitsBody(session.limits),
    metadata: session.metadata,
    ttl_seconds: Math.round(session.ttlMs / 1000),
    created_at: isoTime(session.createdAtMs),
    expires_at: isoTime(session.expiresAtMs),
    max_expires_at: isoTime(session.maxExpiresAtMs),
    last_activity_at: isoTime(session.lastActivityAtMs),
    ...(session.endedAtMs !== undefined && { ended_at: isoTime(session.endedAtMs) }),
    ...(session.endReason !== undefined && { end_reason: session.endReason }),
  };
}

export function isoTime(wallMs: number): string {
  return new Date(wallMs).toISOString();
}

function aliasOf(key: string): string {
  const [namespace = "", id = ""] = key.split(":");
  return `${namespace}_${id}_sandbox`;
}

function limitsBody(limits: SandboxLimits): Limits {
  return {
    memory_mb: Math.round(limits.memoryBytes / MEBIBYTE),
    cpu_millicores: limits.cpuMillicores,
    pids: limits.pids,
    disk_mb: Math.round(limits.diskBytes / MEBIBYTE),
    disk_inodes: limits.diskInodes,
  };
}

export function createOptions(body: CreateSession, idempotencyKey?: string): CreateSessionOptions {
  const { limits } = body;
  const network = askedNetwork(body);
  return {
    ...(body.backend !== undefined && { backend: body.backend }),
    ...(body.image !== undefined && { image: body.image }),
    ...(body.ttl_seconds !== undefined && { ttlMs: body.ttl_seconds * 1000 }),
    ...(body.workspace_id !== undefined && { workspaceId: body.workspace_id }),
    ...(body.workspaces !== undefined && {
      workspaces: body.workspaces.map(({ id, path, read_only }) => ({
        id,
        path,
        readOnly: read_only === true,
      })),
    }),
    ...(body.key !== undefined && { key: body.key }),
    ...(body.env !== undefined && { env: body.env }),
    ...(limits !== undefined && { limits: limitsOf(limits) }),
    ...(network !== undefined && { network }),
    ...(body.secrets !== undefined && { secrets: askedSecrets(body.secrets) }),
    ...(body.profile !== undefined && { profile: body.profile }),
    ...(body.isolation !== undefined && { isolation: body.isolation }),
    ...(body.metadata !== undefined && { metadata: body.metadata }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  };
}

function limitsOf(limits: NonNullable<CreateSession["limits"]>): Partial<SandboxLimits> {
  return {
    ...(isGiven(limits.memory_mb) && { memoryBytes: limits.memory_mb * MEBIBYTE }),
    ...(isGiven(limits.cpu_millicores) && { cpuMillicores: limits.cpu_millicores }),
    ...(isGiven(limits.pids) && { pids: limits.pids }),
    ...(isGiven(limits.disk_mb) && { diskBytes: limits.disk_mb * MEBIBYTE }),
    ...(isGiven(limits.disk_inodes) && { diskInodes: limits.disk_inodes }),
  };
}

/** 0 requests the default, as absence does. */
function isGiven(limit: number | undefined): limit is number {
  return limit !== undefined && limit !== 0;
}

export interface ListSessionsInput {
  readonly owner?: string | undefined;
  readonly status?: SessionQuery["status"] | undefined;
  readonly key?: string | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly metadata?: string | readonly string[] | undefined;
}

export function sessionQuery(query: ListSessionsInput): SessionQuery {
  return {
    ...(query.owner !== undefined && { owner: query.owner }),
    ...(query.status !== undefined && { status: query.status }),
    ...(query.key !== undefined && { key: query.key }),
    ...(query.limit !== undefined && { limit: query.limit }),
    ...(query.cursor !== undefined && { cursor: query.cursor }),
    ...(query.metadata !== undefined && { metadata: metadataFilter([query.metadata].flat()) }),
  };
}

/** `name=value` pairs, all of which must match. `""` counts as absent. */
function metadataFilter(pairs: readonly string[]): Readonly<Record<string, string>> {
  const given = pairs.filter((pair) => pair !== "");
  return Object.fromEntries(
    given.map((pair) => {
      const equals = pair.indexOf("=");
      if (equals < 1)
        throw new SandboxError("INVALID_REQUEST", "the query's `metadata` must be `name=value`");
      return [pair.slice(0, equals), pair.slice(equals + 1)];
    }),
  );
}

export function statsBody(stats: SandboxStats): StatsBody {
  return {
    memory_bytes: stats.memoryBytes,
    memory_limit: stats.memoryLimitBytes,
    cpu_usage_usec: stats.cpuUsageUsec,
    pids: stats.pids,
    pids_limit: stats.pidsLimit,
    disk_bytes: stats.diskBytes,
    disk_limit: stats.diskLimitBytes,
    oom_kills: stats.oomKills,
  };
}

export function isolationBody(report: IsolationReport): IsolationBody {
  return {
    tier: report.tier,
    runtime: report.runtime,
    facts: report.facts.map(({ name, enforced, measured }) => ({ name, enforced, measured })),
  };
}
