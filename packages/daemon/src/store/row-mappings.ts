/** The columns of each table, the same in every database. */
import { endReasonSchema, SESSION_STATUSES } from "@sandkasten/protocol";
import { z } from "zod";
import { limitsSchema } from "../limits-schema.ts";
import type {
  ExecRow,
  GatewayNetwork,
  SessionNetwork,
  SessionRow,
  SideSandboxRow,
  WorkspaceMount,
  WorkspaceRow,
} from "../ports/session-store.ts";
import { flag, json, number, oneOf, optional, text } from "./columns.ts";
import type { Column } from "./columns.ts";
import { RowMapping } from "./row-mapping.ts";

const mounts = z.array(z.object({ id: z.string(), path: z.string(), readOnly: z.boolean() }));

const gatewayNetwork = json<GatewayNetwork>(
  z.object({
    allow: z.array(z.string()),
    secrets: z
      .object({
        sealed: z.string(),
        headers: z.array(
          z.object({ host: z.string(), header: z.string(), name: z.string().exactOptional() }),
        ),
      })
      .exactOptional(),
  }),
);

/** Before the gateway existed, `full` was the engine's network. */
const network: Column<SessionNetwork> = {
  write: (value) =>
    value === "engine" ? "full" : value === "none" ? value : gatewayNetwork.write(value),
  read: (stored) =>
    stored === "full" ? "engine" : stored === "none" ? stored : gatewayNetwork.read(stored),
};

export const sessionMapping = new RowMapping<SessionRow>("sessions", {
  id: text,
  owner: text,
  status: oneOf(SESSION_STATUSES),
  fence: number,
  key: optional(text),
  requestedImage: text,
  image: text,
  imageDigest: optional(text),
  backend: text,
  place: text,
  sandboxId: optional(text),
  profile: oneOf(["restricted", "root"]),
  network,
  isolation: oneOf(["standard", "strong"]),
  limits: json(limitsSchema),
  metadata: json(z.record(z.string(), z.string())),
  workspaceId: optional(text),
  workspaces: json<readonly WorkspaceMount[]>(mounts),
  acquireSource: oneOf(["pool", "cold"]),
  cwd: text,
  ttlMs: number,
  createdAtMs: number,
  lastActivityAtMs: number,
  endedAtMs: optional(number),
  endReason: optional(text),
  leaseEndsMs: number,
  lifetimeEndsMs: number,
  idempotencyKey: optional(text),
  requestHash: optional(text),
});

export const execMapping = new RowMapping<ExecRow>("execs", {
  id: text,
  sessionId: text,
  owner: text,
  status: oneOf(["queued", "running", "done"]),
  mode: oneOf(["shell", "process"]),
  shell: optional(text),
  command: json<ExecRow["command"]>(z.union([z.string(), z.array(z.string())])),
  startedAtMs: number,
  endedAtMs: optional(number),
  exitCode: optional(number),
  signal: optional(number),
  endReason: optional(oneOf(endReasonSchema.options)),
  cwd: optional(text),
  durationMs: optional(number),
  stdoutBytes: number,
  stderrBytes: number,
  droppedBytes: number,
  shellRestarted: flag,
  background: flag,
  backgroundBytes: number,
  timeoutMs: optional(number),
  timeoutClamped: flag,
  idempotencyKey: optional(text),
  requestHash: optional(text),
  request: optional({ ...text, write: (value) => (value === "" ? null : value) }),
});

export const workspaceMapping = new RowMapping<WorkspaceRow>("workspaces", {
  id: text,
  owner: text,
  backend: text,
  place: text,
  diskId: text,
  createdAtMs: number,
  lastUsedAtMs: number,
  endingFence: optional(number),
});

export const sideSandboxMapping = new RowMapping<SideSandboxRow>("side_sandboxes", {
  id: text,
  fence: number,
  place: text,
  purpose: oneOf(["pool", "workspace"]),
});

/** The statuses in which a session holds its key and counts against the quota. */
export const OPEN = "('creating', 'running', 'paused')";
export const ENDED = "('destroyed', 'expired', 'crashed', 'failed')";
/** A command that was not started releases its key, so a repeated request can start it. */
export const HOLDS_KEY = "(end_reason IS NULL OR end_reason <> 'not_started')";
