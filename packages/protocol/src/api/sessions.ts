/** Sessions in the HTTP API. */
import { z } from "zod";
import {
  networkRequestSchema,
  networkSchema,
  secretHeadersSchema,
  secretsRequestSchema,
} from "./networks.ts";
import { workspaceMountsSchema } from "./workspace-mounts.ts";
import { backendName, count, pageSizeInQuery, plainText, timestamp, variables } from "./common.ts";

/**
 * A session has exactly one of these; the last five are final, except that `destroying` leads to
 * `destroyed` or `expired`.
 */
export const SESSION_STATUSES = [
  "creating",
  "running",
  "paused",
  "destroying",
  "destroyed",
  "expired",
  "crashed",
  "failed",
] as const;
const sessionStatusSchema = z.enum(SESSION_STATUSES);
export type SessionStatus = z.output<typeof sessionStatusSchema>;

/** The status shown to clients; `unreachable` if the session is up but its backend does not respond. */
const shownStatusSchema = z.enum([...SESSION_STATUSES, "unreachable"]);
export type ShownStatus = z.output<typeof shownStatusSchema>;

/** `namespace:id:name`, as in `workflow:run_123:default`. Two parts get the name `default`. */
const sessionKeySchema = z
  .string()
  .max(256)
  .regex(
    /^(workflow|agent|user):[A-Za-z0-9_.-]{1,128}(:[A-Za-z0-9_.-]{1,64})?$/,
    "must be `namespace:id:name` with the namespace workflow, agent or user",
  )
  .transform((key) => (key.split(":").length === 2 ? `${key}:default` : key));

/** The prefix that other programs use for a workspace's storage, and clients for the workspace. */
const WORKSPACE_PREFIX = /^sandkasten-ws-(?=..)/;

export const workspaceIdSchema = z
  .string()
  .regex(
    /^(sandkasten-ws-)?[a-z0-9][a-z0-9-]{0,62}[a-z0-9]$/,
    "must be 2 to 64 lower-case letters, digits and inner dashes",
  )
  .transform((id) => id.replace(WORKSPACE_PREFIX, ""));

/** The minimum and maximum that a session may request. */
const LIMIT_RANGES = {
  memory_mb: [16, 8_388_608],
  cpu_millicores: [10, 1_000_000],
  pids: [16, 4_000_000],
  disk_mb: [4, 8_388_608],
  disk_inodes: [64, 2_147_483_648],
} as const;

const limit = ([min, max]: readonly [number, number]) => z.number().int().min(min).max(max);

export const limitsSchema = z
  .object({
    memory_mb: limit(LIMIT_RANGES.memory_mb),
    cpu_millicores: limit(LIMIT_RANGES.cpu_millicores),
    pids: limit(LIMIT_RANGES.pids),
    disk_mb: limit(LIMIT_RANGES.disk_mb),
    disk_inodes: limit(LIMIT_RANGES.disk_inodes),
  })
  .meta({ id: "Limits" });
export type Limits = z.output<typeof limitsSchema>;

/** 0 means the default, as clients with zero values send it. */
const limitOrDefault = ([min, max]: readonly [number, number]) =>
  z
    .number()
    .int()
    .min(0)
    .max(max)
    .refine((limit) => limit === 0 || limit >= min, `must be at least ${min}, or 0 for the default`)
    .optional()
    .meta({ description: `At least ${min}. 0 or absent means the daemon's default` });

const limitsRequestSchema = z.object({
  memory_mb: limitOrDefault(LIMIT_RANGES.memory_mb),
  cpu_millicores: limitOrDefault(LIMIT_RANGES.cpu_millicores),
  pids: limitOrDefault(LIMIT_RANGES.pids),
  disk_mb: limitOrDefault(LIMIT_RANGES.disk_mb),
  disk_inodes: limitOrDefault(LIMIT_RANGES.disk_inodes),
});

const metadata = z
  .record(
    z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "must be 1 to 64 of A–Z a–z 0–9 _ . -"),
    plainText(1024),
  )
  .refine((all) => Object.keys(all).length <= 32, "must have at most 32 entries");

const isolationLevelSchema = z.enum(["standard", "strong"]).meta({
  description: "`standard` runs code on the host's kernel, `strong` on a separate kernel (gVisor)",
});

export const createSessionSchema = z
  .object({
    backend: backendName.optional().meta({
      description: "The backend that runs the sandbox. The default backend if absent",
    }),
    image: z.string().min(1).max(512).optional().meta({
      description: "Reference or short name of an image. The daemon's default if absent",
    }),
    ttl_seconds: z.number().int().min(0).max(86_400).optional().meta({
      description:
        "The session expires after this time without use. 0 or absent means the daemon's default",
    }),
    workspace_id: workspaceIdSchema.optional().meta({
      description: "A persistent workspace to mount at /workspace. Created if it does not exist",
    }),
    workspaces: workspaceMountsSchema(workspaceIdSchema).optional().meta({
      description:
        "Additional persistent workspaces, each at a separate path. Created if they do not exist",
    }),
    key: sessionKeySchema.optional().meta({
      description:
        "Get or create: if an active session has this key, it is returned instead of a new one",
    }),
    env: variables.optional(),
    limits: limitsRequestSchema.optional(),
    network: networkRequestSchema.optional(),
    secrets: secretsRequestSchema.optional(),
    allow_network: z
      .boolean()
      .optional()
      .meta({ description: "Deprecated: `true` means `network: true`" }),
    profile: z.enum(["restricted", "root"]).optional(),
    isolation: isolationLevelSchema.optional(),
    metadata: metadata.optional(),
  })
  .refine(
    ({ workspace_id, workspaces = [] }) => workspaces.every(({ id }) => id !== workspace_id),
    { path: ["workspaces"], message: "must not name the workspace that is at /workspace" },
  )
  .meta({ id: "CreateSession" });
export type CreateSession = z.input<typeof createSessionSchema>;

export const sessionSchema = z
  .object({
    id: z.string(),
    session_id: z.string().meta({ description: "The same as `id`" }),
    sandbox_id: z.string().meta({ description: "The same as `id`" }),
    owner: z.string().optional().meta({ description: "The owner" }),
    image: z.string().meta({ description: "The image in use" }),
    requested_image: z
      .string()
      .optional()
      .meta({ description: "The requested image, if it differs" }),
    status: shownStatusSchema,
    backend: z.string().meta({ description: "The backend that runs the sandbox" }),
    cwd: z.string(),
    acquire_source: z.enum(["pool", "cold"]),
    workspace_id: z.string().optional(),
    workspaces: z
      .array(z.object({ id: z.string(), path: z.string(), read_only: z.boolean() }))
      .optional()
      .meta({ description: "Additional workspaces and their mount paths" }),
    key: z.string().optional(),
    session_alias: z
      .string()
      .optional()
      .meta({ description: "The key as `{namespace}_{id}_sandbox`" }),
    profile: z.enum(["restricted", "root"]),
    network: networkSchema,
    network_via: z.enum(["gateway", "engine"]).optional().meta({
      description:
        "What enforces the network rules: the daemon's `gateway`, or the container `engine` with a network that the administrator configured",
    }),
    secrets: secretHeadersSchema
      .optional()
      .meta({ description: "Headers that the gateway adds to requests, without their values" }),
    isolation_level: isolationLevelSchema,
    limits: limitsSchema,
    metadata: z.record(z.string(), z.string()),
    ttl_seconds: count,
    created_at: timestamp,
    expires_at: timestamp.meta({ description: "When the session expires unless it is used" }),
    max_expires_at: timestamp.meta({ description: "When the session ends even if it is used" }),
    last_activity_at: timestamp,
    ended_at: timestamp.optional(),
    end_reason: z.string().optional().meta({ description: "Why the session ended, as text" }),
  })
  .meta({ id: "Session" });
export type SessionBody = z.output<typeof sessionSchema>;

export const listSessionsQuery = z.object({
  owner: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .meta({ description: "Only sessions of this owner. Requires an administrator's key" }),
  status: sessionStatusSchema.optional(),
  key: sessionKeySchema.optional(),
  limit: pageSizeInQuery.optional(),
  cursor: z.string().min(1).max(256).optional(),
  metadata: z
    .union([z.string().max(2048), z.array(z.string().max(2048)).max(32)])
    .optional()
    .meta({ description: "`name=value`. Repeat it to require several" }),
});

export const renewSessionSchema = z.object({
  ttl_seconds: z.number().int().min(0).max(86_400).optional().meta({
    description: "A new time to live for this session. 0 or absent keeps the current one",
  }),
});

export const statsSchema = z
  .object({
    memory_bytes: count,
    memory_limit: count,
    cpu_usage_usec: count,
    pids: count,
    pids_limit: count,
    disk_bytes: count,
    disk_limit: count,
    oom_kills: count,
  })
  .meta({ id: "Stats" });
export type StatsBody = z.output<typeof statsSchema>;

export const isolationSchema = z
  .object({
    tier: z.enum(["strong", "standard", "weak"]),
    runtime: z.string(),
    facts: z.array(z.object({ name: z.string(), enforced: z.boolean(), measured: z.string() })),
  })
  .meta({ id: "Isolation" });
export type IsolationBody = z.output<typeof isolationSchema>;

export const workspaceSchema = z
  .object({
    id: z.string(),
    backend: z.string().meta({ description: "The backend that stores the files" }),
    created_at: timestamp,
    last_used_at: timestamp,
    sessions: z.array(z.string()).meta({ description: "Active sessions that mount it" }),
  })
  .meta({ id: "Workspace" });
export type WorkspaceBody = z.output<typeof workspaceSchema>;
export const workspaceListSchema = z.object({ workspaces: z.array(workspaceSchema) });
