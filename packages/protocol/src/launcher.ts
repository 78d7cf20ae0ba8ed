/**
 * The daemon's requests to the native launcher, and its answers. The launcher has the same types,
 * and the tests of both read the examples in fixtures/launcher.json.
 */
import { z } from "zod";

/** An OCI runtime and its state directory. */
const runtimeSchema = z.strictObject({
  kind: z.enum(["crun", "runc", "runsc"]),
  path: z.string(),
  root: z.string(),
  /** Options before the runtime's command. */
  args: z.array(z.string()).readonly().default([]),
});

/** The parameters of a new disk. */
const diskSchema = z.strictObject({
  bytes: z.number(),
  inodes: z.number(),
  templates_dir: z.string(),
});

const workspaceSchema = z.strictObject({
  id: z.string(),
  workspaces_dir: z.string(),
  /** Used if the disk does not exist. */
  disk: diskSchema,
});

/** The sandbox that a request is about, and its directories. */
const identityShape = {
  id: z.string(),
  state_dir: z.string(),
  ids_dir: z.string(),
  cgroup_parent: z.string(),
};

const createSchema = z.strictObject({
  ...identityShape,
  runtime: runtimeSchema,
  rootfs: z.strictObject({
    path: z.string(),
    binds: z.array(z.strictObject({ from: z.string(), to: z.string() })).readonly(),
    writable: z.boolean(),
    /** Stand over those of the image, in this sandbox alone. The paths have no links in the image. */
    files: z
      .array(z.strictObject({ path: z.string(), content: z.string() }))
      .readonly()
      .default([]),
  }),
  runner: z.string(),
  disk: diskSchema,
  workspace: workspaceSchema.optional(),
  /** In addition to the one at /workspace. */
  workspaces: z
    .array(z.strictObject({ workspace: workspaceSchema, path: z.string(), read_only: z.boolean() }))
    .readonly(),
  limits: z.strictObject({
    memory_bytes: z.number(),
    cpu_millicores: z.number(),
    pids: z.number(),
  }),
  /** Whether addresses that represent other hosts are routed back into the sandbox. */
  network: z.boolean(),
  /** The OCI configuration; the launcher fills in its placeholders. */
  config: z.record(z.string(), z.unknown()),
  /** Metadata that the daemon wants to find in the record. */
  meta: z.record(z.string(), z.unknown()),
  /** Keeps the runtime's files, its state at `runtime.root`, until the sandbox is destroyed. */
  keep_runtime_files: z.boolean().optional(),
  /** For tests: fail, or die, right after this step. */
  fail_after: z.string().optional(),
  die_after: z.string().optional(),
});

/** The record of a sandbox: the answer to its create, and a file in its state directory. */
export const launcherRecordSchema = z.object({
  id: z.string(),
  pid: z.number().int().positive(),
  start_time: z.number(),
  /** First host id of the sandbox's range; 0 without root. */
  base: z.number(),
  cgroups: z.record(z.string(), z.string()),
  mode: z.enum(["root", "rootless"]),
  not_enforced: z.array(z.string()),
  created_at_ms: z.number(),
  runtime: runtimeSchema,
  workspace: z.object({ id: z.string(), bytes: z.number() }).optional(),
  meta: z.record(z.string(), z.unknown()),
});

const checkSchema = z.object({
  name: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  remedy: z.string().optional(),
});

/** Each command with its request, if any, and its answer. */
export const launcherCommands = {
  create: { request: createSchema, answer: launcherRecordSchema },
  destroy: {
    /** Without a runtime, the launcher's own notes determine it. */
    request: z.strictObject({ ...identityShape, runtime: runtimeSchema.optional() }),
    answer: z.object({ ok: z.literal(true) }),
  },
  list: {
    request: z.strictObject({
      sandboxes_dir: z.string(),
      ids_dir: z.string(),
      cgroup_parent: z.string(),
    }),
    answer: z.object({
      sandboxes: z.array(
        z.object({
          id: z.string(),
          /** `partial`: it was never completely created. */
          state: z.enum(["running", "paused", "dead", "partial"]),
          pid: z.number().optional(),
        }),
      ),
    }),
  },
  "list-workspaces": {
    request: z.strictObject({ workspaces_dir: z.string() }),
    answer: z.object({ workspaces: z.array(z.object({ id: z.string(), bytes: z.number() })) }),
  },
  "destroy-workspace": {
    request: z.strictObject({
      id: z.string(),
      workspaces_dir: z.string(),
      sandboxes_dir: z.string(),
    }),
    answer: z.discriminatedUnion("destroyed", [
      z.object({ destroyed: z.literal(true) }),
      z.object({ destroyed: z.literal(false), in_use_by: z.array(z.string()) }),
    ]),
  },
  "repair-devices": {
    request: z.strictObject({ dev_dir: z.string() }),
    answer: z.object({ repaired: z.array(z.string()) }),
  },
  check: { request: z.undefined(), answer: z.array(checkSchema) },
  /** The names of the steps of create, in order. */
  steps: { request: z.undefined(), answer: z.array(z.string()) },
} as const;

/** Why a request failed; the daemon only evaluates this, never the message. */
export const launcherFailureKindSchema = z.enum([
  "invalid_request",
  "already_exists",
  "no_space",
  "no_loop_device",
  "unusable_image",
  "incompatible_workspace",
  "internal",
]);

/** A request that failed, or whose process ended without an answer. */
export const launcherFailureSchema = z.union([
  z.strictObject({
    error: z.strictObject({
      /** The step of a create, or the command. */
      step: z.string(),
      kind: launcherFailureKindSchema,
      message: z.string(),
    }),
  }),
  z.strictObject({ died: z.strictObject({ how: z.string(), said: z.string() }) }),
]);

type Commands = typeof launcherCommands;

export type LauncherCommand = keyof Commands;
export type LauncherRequest<C extends LauncherCommand> = z.input<Commands[C]["request"]>;
export type LauncherAnswer<C extends LauncherCommand> = z.infer<Commands[C]["answer"]>;
export type LauncherFailure = z.infer<typeof launcherFailureSchema>;
export type LauncherFailureKind = z.infer<typeof launcherFailureKindSchema>;
