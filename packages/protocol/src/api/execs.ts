/** Commands as the HTTP API speaks of them. */
import { z } from "zod";
import { execIdSchema } from "../requests.ts";
import {
  count,
  countInQuery,
  filePath,
  flagInQuery,
  plainText,
  timestamp,
  variables,
} from "./common.ts";

export const MAX_COMMAND_BYTES = 1_048_576;

const commandText = z.string().meta({ description: "Shell text, at most 1 MiB" });
const commandArgv = z.array(plainText(131_072)).min(1).max(4096);
const command = z.union([commandText, commandArgv]);
const milliseconds = z.number().int().min(0).max(86_400_000);
const terminalSide = z.number().int().min(1).max(65_535);

export const execRequestSchema = z
  .strictObject({
    cmd: command.optional().meta({
      description:
        "Text runs in the shell that remembers, an argument list as a process of its own",
    }),
    command: command.optional().meta({ description: "The same as `cmd`" }),
    stateful: z.boolean().optional().meta({
      description: "false runs text in a fresh shell beside the one that remembers",
    }),
    timeout_ms: milliseconds.optional().meta({
      description: "0 or absent for the longest that the daemon allows; more is clamped to that",
    }),
    timeout_seconds: z.number().min(0).max(86_400).optional(),
    idle_timeout_ms: milliseconds
      .optional()
      .meta({ description: "Ends a command that is silent for so long" }),
    raw_output: z.boolean().optional().meta({
      description:
        "Adds the exact bytes as base64: `output_base64`, and in streams `chunk_base64` where the text does not say them",
    }),
    cwd: filePath.optional(),
    workdir: filePath.optional().meta({ description: "The same as `cwd`" }),
    env: variables.optional(),
    user: z
      .string()
      .regex(/^\d{1,10}(:\d{1,10})?$/, 'must be "uid" or "uid:gid"')
      .optional(),
    stdin: z.string().optional().meta({ description: "All of its input; /dev/null when absent" }),
    stdin_base64: z.base64().optional(),
    stdin_open: z.boolean().optional().meta({
      description: "Keeps its input open, to be written with later calls",
    }),
    merge: z
      .boolean()
      .optional()
      .meta({ description: "One pipe for stdout and stderr: exact order" }),
    pty: z.strictObject({ rows: terminalSide, cols: terminalSide }).optional(),
    output_budget_bytes: z.number().int().min(0).max(16_777_216).optional().meta({
      description:
        "How much output the answer holds: its head and its tail. All of it can be read by cursor",
    }),
  })
  .meta({ id: "ExecRequest" });
export type ExecRequestBody = z.input<typeof execRequestSchema>;

export const endReasonSchema = z.enum([
  "exited",
  "timeout",
  "idle_timeout",
  "oom",
  "killed",
  "sandbox_gone",
  "unknown",
]);

/** What is known of a command without its output. */
export const execInfoSchema = z
  .object({
    exec_id: execIdSchema,
    session_id: z.string(),
    status: z.enum(["queued", "running", "done"]),
    cmd: z
      .union([z.string(), z.array(z.string())])
      .meta({ description: "At most the first 4 KiB" }),
    exit_code: z
      .number()
      .int()
      .nullable()
      .meta({ description: "null while it runs, or when it is not known" }),
    end_reason: endReasonSchema.nullable(),
    timed_out: z.boolean(),
    signal: z.number().int().optional(),
    cwd: z.string().meta({ description: "The shell's directory afterwards" }),
    duration_ms: count,
    output_bytes: count,
    stdout_bytes: count,
    stderr_bytes: count,
    dropped_bytes: count.meta({ description: "Bytes that nobody can read any more" }),
    shell_restarted: z.boolean(),
    started_at: timestamp,
    ended_at: timestamp.optional(),
  })
  .meta({ id: "ExecInfo" });
export type ExecInfoBody = z.output<typeof execInfoSchema>;

export const execResultSchema = execInfoSchema
  .extend({
    output: z
      .string()
      .meta({ description: "stdout and stderr as they came; what is not UTF-8 is replaced" }),
    stdout: z.string(),
    stderr: z.string(),
    truncated: z.boolean().meta({ description: "The middle is missing here; read it by cursor" }),
    output_base64: z.string().optional(),
  })
  .meta({ id: "ExecResult" });
export type ExecResultBody = z.output<typeof execResultSchema>;

export const execPageSchema = z.object({
  execs: z.array(execInfoSchema),
  next_cursor: z.string().optional(),
});

export const listExecsQuery = z.strictObject({
  limit: countInQuery.pipe(z.number().min(1).max(1000)).optional(),
  cursor: z.string().max(256).optional(),
});

export const outputChunkSchema = z.object({
  seq: count,
  stream: z.enum(["stdout", "stderr"]),
  chunk: z.string(),
  chunk_base64: z.string().optional(),
  timestamp: count.meta({ description: "Milliseconds since 1970" }),
  offset: count,
});
export type OutputChunkBody = z.output<typeof outputChunkSchema>;

export const readOutputQuery = z.strictObject({
  cursor: countInQuery.optional().meta({ description: "Byte offset in the merged output" }),
  max_bytes: countInQuery.pipe(z.number().min(1).max(8_388_608)).optional(),
  wait_ms: countInQuery.pipe(z.number().max(60_000)).optional().meta({
    description: "How long to wait for output when there is none yet",
  }),
  raw: flagInQuery.optional(),
});

export const outputPageSchema = z
  .object({
    exec_id: z.string(),
    cursor: count,
    next_cursor: count,
    chunks: z.array(outputChunkSchema),
    skipped_bytes: count.meta({
      description: "Bytes between the cursor and the first chunk that are gone",
    }),
    done: z
      .boolean()
      .meta({ description: "The command has ended and this is the last of its output" }),
    exec: execInfoSchema,
  })
  .meta({ id: "OutputPage" });
export type OutputPageBody = z.output<typeof outputPageSchema>;

export const waitExecSchema = z.strictObject({
  timeout_ms: z.number().int().min(0).max(600_000).optional(),
  output_budget_bytes: z.number().int().min(0).max(16_777_216).optional(),
  raw_output: z.boolean().optional(),
});
export const signalExecSchema = z.strictObject({
  signal: z
    .union([z.number().int().min(1).max(64), z.string().regex(/^(SIG)?[A-Z0-9+]{2,10}$/)])
    .optional()
    .meta({
      description: "Name or number, TERM when absent",
    }),
  tree: z.boolean().optional().meta({ description: "To all that the command started" }),
});
export const signalledBodySchema = z.object({ ok: z.literal(true), delivered: count });
export const writeStdinSchema = z.strictObject({
  text: z.string().optional(),
  content_base64: z.base64().optional(),
  close: z.boolean().optional(),
});
export const resizeExecSchema = z.strictObject({ rows: terminalSide, cols: terminalSide });

/** Query of the WebSocket for terminals. */
export const ptyQuery = z.strictObject({
  cmd: z
    .string()
    .max(65_536)
    .optional()
    .meta({ description: "Shell text; a login shell when absent" }),
  exec_id: execIdSchema
    .optional()
    .meta({ description: "Attach to this terminal instead of starting one" }),
  cursor: countInQuery.optional(),
  rows: countInQuery.pipe(terminalSide).optional(),
  cols: countInQuery.pipe(terminalSide).optional(),
  cwd: filePath.optional(),
});
export const ptyClientMessageSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("resize"), rows: terminalSide, cols: terminalSide }),
  z.strictObject({
    type: z.literal("signal"),
    signal: z.union([z.number().int().min(1).max(64), z.string().max(10)]),
  }),
  z.strictObject({ type: z.literal("eof") }),
]);
export type PtyClientMessage = z.input<typeof ptyClientMessageSchema>;
export const ptyServerMessageSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), exec_id: z.string() }),
  z.object({ type: z.literal("skipped"), bytes: count }).meta({
    description: "So much output is gone; add it to the cursor",
  }),
  z.object({ type: z.literal("exit"), exec: execInfoSchema }),
  z.object({
    type: z.literal("error"),
    error: z.object({ error_code: z.string(), message: z.string() }),
  }),
]);
export type PtyServerMessage = z.output<typeof ptyServerMessageSchema>;
