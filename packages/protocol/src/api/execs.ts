/** Commands in the HTTP API. */
import { z } from "zod";
import { execIdSchema, shellNameSchema } from "../requests.ts";
import {
  count,
  countInQuery,
  numberInQuery,
  pageSizeInQuery,
  filePath,
  flagInQuery,
  plainText,
  sizeInQuery,
  timestamp,
  unicodeText,
  variables,
} from "./common.ts";

export const MAX_COMMAND_BYTES = 1_048_576;

const commandText = unicodeText.min(1).meta({ description: "Shell text, at most 1 MiB" });
const commandArgv = z.array(plainText(131_072)).min(1).max(4096);
const command = z.union([commandText, commandArgv]);
const milliseconds = count;
const terminalSide = z.number().int().min(1).max(65_535);

const streamName = z.enum(["stdout", "stderr"]);

const outputCondition = z
  .object({
    pattern: unicodeText.min(1).max(512).meta({
      description:
        "A regular expression in RE2 syntax, searched for in each line of the output, including the output of background processes after the command's end",
    }),
    stream: streamName.optional().meta({ description: "Only in this stream" }),
  })
  .meta({ id: "OutputCondition" });
export type OutputConditionBody = z.input<typeof outputCondition>;

/** Few names, so they can be metric labels. */
const commandRuntime = z.enum(["python", "node", "typescript", "bash", "other"]);

export const execRequestSchema = z
  .object({
    cmd: command.optional().meta({
      description: "Text runs in the stateful shell, a list of arguments as a separate process",
    }),
    command: command.optional().meta({ description: "The same as `cmd`" }),
    stateful: z.boolean().optional().meta({
      description: "false runs the text in a new shell instead of the stateful one",
    }),
    shell: shellNameSchema.optional().meta({
      description:
        "Name of the shell that runs the command, `default` when absent. A shell is created by the first command that names it. Commands of one shell run one after the other, those of different shells concurrently",
    }),
    timeout_ms: milliseconds.optional().meta({
      description:
        "0 or absent for the maximum that the administrator allows. A longer timeout is lowered to the maximum; the response says so in `timeout_ms` and `timeout_clamped`",
    }),
    timeout_seconds: z.number().min(0).max(9_000_000_000_000).optional(),
    idle_timeout_ms: milliseconds
      .optional()
      .meta({ description: "Ends the command if it prints nothing for this long" }),
    raw_output: z.boolean().optional().meta({
      description:
        "Adds the exact bytes as base64: `output_base64`, and in streams `chunk_base64` where the text is not exact",
    }),
    cwd: filePath.optional(),
    workdir: filePath.optional().meta({ description: "The same as `cwd`" }),
    env: variables.optional(),
    user: z
      .string()
      .regex(
        /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/,
        'must be a user, or "user:group", each by name or id',
      )
      .meta({
        description:
          "Only for processes, and another user than the sandbox's own only with the `root` profile. There, `HOME`, `USER` and `LOGNAME` are those of the user, unless the session or the command sets them",
      })
      .optional(),
    stdin: unicodeText
      .optional()
      .meta({ description: "The complete stdin of the command. /dev/null by default" }),
    stdin_base64: z.base64().optional(),
    stdin_open: z.boolean().optional().meta({
      description: "Keeps stdin open for later calls",
    }),
    merge: z
      .boolean()
      .optional()
      .meta({ description: "Uses one pipe for stdout and stderr, which preserves their order" }),
    wait_ms: milliseconds.optional().meta({
      description:
        "The request returns after this time at the latest, while the command continues; 0 returns at once. Without it, the request waits for the command to end. Not for streams",
    }),
    until: outputCondition.optional().meta({
      description: "The request returns as soon as the output matches. Not for streams",
    }),
    on_disconnect: z.enum(["continue", "cancel"]).optional().meta({
      description:
        "What happens to the command when the client disconnects before the response is complete; `continue` by default",
    }),
    pty: z.object({ rows: terminalSide, cols: terminalSide }).optional().meta({
      description:
        "Runs the command on a terminal of this size. With `shell`, that shell keeps the terminal for its later commands",
    }),
    runtime: commandRuntime.optional().meta({
      description:
        "The command's interpreter, for traces and metrics; guessed from the command when absent",
    }),
    output_budget_bytes: z.number().int().min(0).max(16_777_216).optional().meta({
      description:
        "How much output the response contains, half from the beginning and half from the end; 0 for none. All of it can be read by cursor",
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
  "cancelled",
  "sandbox_gone",
  "not_started",
  "unknown",
]);

/** A command without its output. */
export const execInfoSchema = z
  .object({
    exec_id: execIdSchema,
    session_id: z.string(),
    status: z.enum(["queued", "running", "done"]),
    shell: z.string().optional().meta({ description: "The shell that runs the command" }),
    cmd: z
      .union([z.string(), z.array(z.string())])
      .meta({ description: "The requested command, truncated to 4 KiB" }),
    exit_code: z
      .number()
      .int()
      .nullable()
      .meta({ description: "null while the command runs, or if it is unknown" }),
    end_reason: endReasonSchema.nullable(),
    timed_out: z.boolean(),
    signal: z.number().int().optional(),
    cwd: z.string().meta({ description: "The shell's working directory after the command" }),
    duration_ms: count,
    output_bytes: count,
    stdout_bytes: count,
    stderr_bytes: count,
    dropped_bytes: count.meta({ description: "Bytes of output that are no longer available" }),
    shell_restarted: z.boolean().meta({
      description:
        "This command ended its shell, or it runs in a new shell because an earlier command ended the previous one",
    }),
    background: z.boolean().meta({
      description:
        "The command has ended, but processes that it left in the background hold its output and can print more",
    }),
    background_bytes: count.meta({
      description:
        "Bytes that they printed after the command ended. Not included in the other counts",
    }),
    timeout_ms: count.nullable().meta({
      description: "The timeout in effect. null for a terminal without a timeout",
    }),
    timeout_clamped: z.boolean().meta({
      description: "The request asked for a longer timeout than the administrator allows",
    }),
    started_at: timestamp,
    ended_at: timestamp.optional(),
  })
  .meta({ id: "ExecInfo" });
export type ExecInfoBody = z.output<typeof execInfoSchema>;

export const execResultSchema = execInfoSchema
  .extend({
    output: z.string().meta({
      description: "stdout and stderr in the order they arrived. Invalid UTF-8 is replaced",
    }),
    stdout: z.string(),
    stderr: z.string(),
    truncated: z
      .boolean()
      .meta({ description: "The middle of the output is omitted. Read it by cursor" }),
    next_cursor: count.meta({
      description: "Where the output of this response ends: the cursor to continue reading from",
    }),
    matched: z.boolean().optional().meta({ description: "Whether the output matched `until`" }),
    match: z
      .object({
        stream: streamName,
        text: z.string(),
        groups: z.array(z.string().nullable()),
        line: z
          .string()
          .meta({ description: "The line that contains the match, at most 4096 characters" }),
      })
      .optional(),
    output_base64: z.string().optional(),
  })
  .meta({ id: "ExecResult" });
export type ExecResultBody = z.output<typeof execResultSchema>;

export const execPageSchema = z.object({
  execs: z.array(execInfoSchema),
  next_cursor: z.string().optional(),
});

export const listExecsQuery = z.object({
  limit: pageSizeInQuery.optional(),
  cursor: z.string().min(1).max(256).optional(),
});

const outputChunkSchema = z.object({
  seq: count,
  stream: streamName,
  chunk: z.string(),
  chunk_base64: z.string().optional(),
  timestamp: count.meta({ description: "Milliseconds since 1970" }),
  offset: count,
});
export type OutputChunkBody = z.output<typeof outputChunkSchema>;

const streamInQuery = streamName.optional().meta({
  description: "Only this stream. Cursors are still offsets in the merged output",
});

export const followOutputQuery = z.object({
  cursor: countInQuery.optional().meta({ description: "Byte offset in the merged output" }),
  raw: flagInQuery.optional(),
  stream: streamInQuery,
  until: z.enum(["done", "closed"]).optional().meta({
    description:
      "`done` (the default) ends with the command; `closed` ends when no process holds its output open",
  }),
});

export const readOutputQuery = z.object({
  cursor: countInQuery.optional().meta({ description: "Byte offset in the merged output" }),
  max_bytes: sizeInQuery(8_388_608).optional(),
  wait_ms: numberInQuery(0, 60_000).optional().meta({
    description: "How long to wait for output if there is none yet",
  }),
  raw: flagInQuery.optional(),
  stream: streamInQuery,
});

export const outputPageSchema = z
  .object({
    exec_id: z.string(),
    cursor: count,
    next_cursor: count,
    chunks: z.array(outputChunkSchema),
    skipped_bytes: count.meta({
      description: "Bytes between the cursor and the first chunk that are lost",
    }),
    done: z
      .boolean()
      .meta({ description: "The command has ended and this is the end of its own output" }),
    closed: z.boolean().meta({
      description:
        "Nothing more can come: the command and all processes that held its output have ended",
    }),
    exec: execInfoSchema,
  })
  .meta({ id: "OutputPage" });
export type OutputPageBody = z.output<typeof outputPageSchema>;

export const waitExecSchema = z.object({
  timeout_ms: milliseconds.optional().meta({ description: "The same as `wait_ms`" }),
  wait_ms: milliseconds.optional().meta({
    description:
      "The request returns after this time at the latest; without it, when the command ends",
  }),
  until: outputCondition.optional().meta({
    description:
      "The request returns as soon as the output matches, instead of when the command ends",
  }),
  output_budget_bytes: z.number().int().min(0).max(16_777_216).optional(),
  raw_output: z.boolean().optional(),
});
const aSignal = "must be the name of a signal such as TERM, or a number from 1 to 64";

export const signalExecSchema = z.object({
  signal: z
    .union([
      z.number().int(aSignal).min(1, aSignal).max(64, aSignal),
      z.string().regex(/^(SIG)?[A-Z0-9+]{2,10}$/, aSignal),
    ])
    .optional()
    .meta({
      description: "Name or number. TERM by default",
    }),
  tree: z
    .boolean()
    .optional()
    .meta({ description: "Sends the signal to every process that the command started" }),
});
export const cancelledBodySchema = z.object({ ok: z.literal(true), cancelled: z.boolean() });

const shellBodySchema = z
  .object({
    name: z.string(),
    kind: z.enum(["bash", "sh"]),
    cwd: z.string().meta({ description: "The working directory after the last command" }),
    busy: z.boolean(),
    exec_id: z
      .string()
      .optional()
      .meta({ description: "The command that is running in the shell" }),
    queued: count.meta({ description: "How many commands wait for the shell" }),
  })
  .meta({ id: "Shell" });
export type ShellBody = z.output<typeof shellBodySchema>;
export const shellListBodySchema = z.object({ shells: z.array(shellBodySchema) });

export const signalledBodySchema = z.object({ ok: z.literal(true), delivered: count });
export const writeStdinSchema = z.object({
  text: unicodeText.optional(),
  content_base64: z.base64().optional(),
  close: z.boolean().optional(),
});
export const resizeExecSchema = z.object({ rows: terminalSide, cols: terminalSide });

/** Query of the WebSocket for terminals. */
export const ptyQuery = z.object({
  cmd: z
    .string()
    .min(1)
    .max(65_536)
    .optional()
    .meta({ description: "Shell text. A login shell by default" }),
  shell: shellNameSchema.optional().meta({
    description:
      "Run `cmd` in this named shell, which gets a terminal if it has none; otherwise in a new process",
  }),
  exec_id: execIdSchema
    .optional()
    .meta({ description: "Attach to this terminal instead of starting one" }),
  cursor: countInQuery.optional(),
  rows: sizeInQuery(65_535).optional(),
  cols: sizeInQuery(65_535).optional(),
  cwd: filePath.optional(),
});
export const ptyClientMessageSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("resize"), rows: terminalSide, cols: terminalSide }),
  z.object({
    type: z.literal("signal"),
    signal: z.union([z.number().int().min(1).max(64), z.string().max(10)]),
  }),
  z.object({ type: z.literal("eof") }),
]);
export type PtyClientMessage = z.input<typeof ptyClientMessageSchema>;
const ptyServerMessageSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), exec_id: z.string() }),
  z.object({ type: z.literal("skipped"), bytes: count }).meta({
    description: "This many bytes of output were lost. Add it to the cursor",
  }),
  z.object({ type: z.literal("exit"), exec: execInfoSchema }),
  z.object({
    type: z.literal("error"),
    error: z.object({ error_code: z.string(), message: z.string() }),
  }),
]);
export type PtyServerMessage = z.output<typeof ptyServerMessageSchema>;
