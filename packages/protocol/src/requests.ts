/** The daemon's requests to the runner: the JSON of REQUEST frames. */
import { z } from "zod";
import { MAX_PAYLOAD_BYTES } from "./frames.ts";

/** A NUL byte cannot be part of a path, an argument or a variable. */
const plainText = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine((text) => !text.includes("\0"), "must not contain a NUL byte")
    .refine((text) => text.isWellFormed(), "must be valid Unicode");

const pathText = plainText(65_536).min(1);
/** A path as text, or as base64 of its bytes if they are not UTF-8. */
const path = z.union([pathText, z.strictObject({ raw: z.base64().min(1).max(87_384) })], {
  error: "must be a path without NUL bytes",
});
const version = z.string().min(1).max(256);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const permissionBits = z.number().int().min(0).max(0o7777);
const terminalSize = {
  rows: z.number().int().min(1).max(65_535),
  cols: z.number().int().min(1).max(65_535),
};

export const execIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 of A–Z a–z 0–9 _ -");

export const shellNameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/,
    "must be 1 to 64 letters, digits, _, . or -, and begin with a letter or digit",
  );

const environment = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be a valid variable name"),
  plainText(131_072),
);

const execFields = {
  op: z.literal("exec"),
  exec_id: execIdSchema,
  cwd: pathText.optional(),
  env: environment.optional(),
  stdin: z.boolean().optional(),
  merge: z.boolean().optional(),
  timeout_ms: count.optional(),
  idle_timeout_ms: count.optional(),
};

const execRequest = z.discriminatedUnion("mode", [
  z.strictObject({
    ...execFields,
    mode: z.literal("shell"),
    shell: shellNameSchema.optional(),
    pty: z.strictObject(terminalSize).optional(),
    cmd_bytes: z.number().int().min(0).max(MAX_PAYLOAD_BYTES),
  }),
  z.strictObject({
    ...execFields,
    mode: z.literal("process"),
    argv: z.array(plainText(131_072)).min(1).max(4096),
    user: z
      .string()
      .regex(
        /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/,
        'must be a user, or "user:group", each by name or id',
      )
      .optional(),
    pty: z.strictObject(terminalSize).optional(),
  }),
]);

/**
 * Any request. The daemon validates its requests before sending, so a caller's mistake is named
 * without a round trip.
 */
export const requestSchema = z.union([
  execRequest,
  z.discriminatedUnion("op", [
    z.strictObject({
      op: z.literal("attach"),
      exec_id: execIdSchema,
      offset: count,
      stdin: z.boolean().optional(),
      until: z.enum(["done", "closed"]).optional(),
    }),
    z.strictObject({
      op: z.literal("signal"),
      exec_id: execIdSchema,
      signal: z.number().int().min(0).max(64),
      tree: z.boolean().optional(),
    }),
    z.strictObject({ op: z.literal("resize"), exec_id: execIdSchema, ...terminalSize }),
    z.strictObject({ op: z.literal("execs") }),
    z.strictObject({ op: z.literal("forget"), exec_id: execIdSchema }),
    z.strictObject({ op: z.literal("cancel"), exec_id: execIdSchema }),
    z.strictObject({ op: z.literal("shells") }),
    z.strictObject({ op: z.literal("close_shell"), shell: shellNameSchema }),
    z.strictObject({ op: z.literal("stat"), path, follow: z.boolean().optional() }),
    z.strictObject({ op: z.literal("realpath"), path }),
    z.strictObject({
      op: z.literal("read"),
      path,
      offset: count.optional(),
      length: count.optional(),
      real_path: z.boolean().optional(),
    }),
    z.strictObject({
      op: z.literal("write"),
      path,
      mode: permissionBits.optional(),
      overwrite: z.boolean().optional(),
      parents: z.boolean().optional(),
      if_version: version.optional(),
    }),
    z.strictObject({
      op: z.literal("append"),
      path,
      mode: permissionBits.optional(),
      parents: z.boolean().optional(),
      if_version: version.optional(),
    }),
    z.strictObject({
      op: z.literal("list"),
      path,
      recursive: z.boolean().optional(),
      limit: z.number().int().min(1).max(1000).optional(),
      cursor: z.string().max(131_072).optional(),
    }),
    z.strictObject({
      op: z.literal("mkdir"),
      path,
      mode: permissionBits.optional(),
      parents: z.boolean().optional(),
    }),
    z.strictObject({
      op: z.literal("move"),
      from: path,
      to: path,
      overwrite: z.boolean().optional(),
    }),
    z.strictObject({
      op: z.literal("copy"),
      from: path,
      to: path,
      overwrite: z.boolean().optional(),
      recursive: z.boolean().optional(),
    }),
    z.strictObject({ op: z.literal("remove"), path, recursive: z.boolean().optional() }),
    z.strictObject({ op: z.literal("watch"), path, recursive: z.boolean().optional() }),
    z.strictObject({
      op: z.literal("tar_in"),
      path,
      max_bytes: count.optional(),
      max_entries: count.optional(),
    }),
    z.strictObject({
      op: z.literal("tar_out"),
      path,
      exclude: z.array(plainText(1024)).max(100).optional(),
      on_unreadable: z.enum(["fail", "skip"]).optional(),
    }),
    z.strictObject({ op: z.literal("dial"), port: z.number().int().min(1).max(65_535) }),
    z.strictObject({ op: z.literal("network") }),
    z.strictObject({ op: z.literal("ports") }),
    z.strictObject({ op: z.literal("ping") }),
  ]),
]);

export type RunnerRequest = z.input<typeof requestSchema>;
export type RunnerOperation = RunnerRequest["op"];
export type WirePath = z.input<typeof path>;
