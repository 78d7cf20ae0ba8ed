/** The input and output of `sandbox_run`. */
import { z } from "zod";
import { timeoutFields, timeoutMsOf } from "../input-fields.ts";
import { languageOf } from "../settings/runtimes.ts";

const MAX_FILES = 1000;

export const runInput = z
  .strictObject({
    code: z.string().min(1).describe("The program."),
    runtime: z.string().min(1).optional().describe("python, node, typescript or bash."),
    args: z.array(z.string()).max(1000).optional().describe("Command-line arguments."),
    env: z.record(z.string(), z.string()).optional().describe("Environment variables."),
    files: z
      .record(z.string().min(1), z.string())
      .optional()
      .describe("Files to create first: path relative to /work -> text."),
    stdin: z.string().optional().describe("What the program reads from stdin."),
    artifacts: z
      .array(z.string().min(1).max(200))
      .max(20)
      .optional()
      .describe('Files to return: patterns relative to /work, such as "out/*.csv" or "**/*.json".'),
    ...timeoutFields,
  })
  .transform((raw, context) => {
    const language = raw.runtime === undefined ? undefined : languageOf(raw.runtime);
    if (raw.runtime !== undefined && language === undefined)
      context.addIssue({
        code: "custom",
        path: ["runtime"],
        message: "must be python, node, typescript or bash",
      });
    if (Object.keys(raw.files ?? {}).length > MAX_FILES)
      context.addIssue({
        code: "custom",
        path: ["files"],
        message: `may have ${MAX_FILES} entries at most`,
      });
    return { ...raw, language, timeoutMs: timeoutMsOf(raw) };
  });

export type RunInput = z.output<typeof runInput>;

export const runOutput = z.object({
  ok: z.boolean().describe("The program ended by itself with exit code 0"),
  runtime: z.string(),
  exit_code: z.number().nullable(),
  end_reason: z.string(),
  duration_ms: z.number(),
  stdout: z.string(),
  stderr: z.string(),
  stdout_bytes: z.number().describe("All that was printed, also what is not shown here"),
  stderr_bytes: z.number(),
  truncated: z.boolean().describe("The middle of the output is not shown here"),
  timed_out: z.boolean(),
  error: z.string().optional(),
  artifacts: z
    .array(z.object({ path: z.string(), size_bytes: z.number(), content_base64: z.string() }))
    .optional(),
  artifacts_omitted: z
    .array(z.object({ path: z.string(), size_bytes: z.number(), reason: z.string() }))
    .optional(),
  artifacts_unmatched: z.array(z.string()).optional().describe("Patterns that matched nothing"),
  limits: z.object({
    timeout_seconds: z.number(),
    max_stdout_bytes: z.number(),
    max_stderr_bytes: z.number(),
    max_artifact_bytes: z.number(),
    max_artifacts_count: z.number(),
    cpu_millicores: z.number(),
    memory_mb: z.number(),
    pids: z.number(),
    workspace_mb: z.number(),
    network: z.boolean(),
  }),
});

export type RunOutput = z.output<typeof runOutput>;
