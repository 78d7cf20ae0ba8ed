/**
 * Every key of an agent's `sandbox:` block. The reference of the keys is generated from this file.
 */
import { z } from "zod";

const DAY_SECONDS = 86_400;
const MAX_TIMEOUT_SECONDS = 3600;

const seconds = (most: number) => z.int().min(1).max(most);
const bytes = () => z.int().min(1);
const packages = () => z.array(z.string().min(1).max(200)).max(100);

const limitsSchema = z.strictObject({
  cpu_millicores: z.int().min(10).max(1_000_000).optional().describe("CPU time; 1000 is one CPU"),
  memory_mb: z.int().min(16).max(8_388_608).optional().describe("Memory, in MiB"),
  pids: z.int().min(16).max(4_000_000).optional().describe("Processes and threads"),
  workspace_mb: z.int().min(4).max(8_388_608).optional().describe("Writable disk, in MiB"),
  timeout_seconds: seconds(DAY_SECONDS)
    .optional()
    .describe(
      "Code mode: how long an unused sandbox lives. Compute mode: the timeout of a run, unless the top-level `timeout_seconds` is set",
    ),
  max_file_size_bytes: bytes()
    .optional()
    .describe(
      "Code mode: the largest file that the file tools write; default: 10485760. Compute mode: the largest of `files`; default: no limit",
    ),
  max_files: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Code mode: how many files the file tools of a session write; default: 100. Compute mode: how many `files` a run accepts; default: no limit",
    ),
});

const sessionName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/, "must be 1 to 64 letters, digits, `_`, `.` or `-`");

/** The object form. */
export const settingsObjectSchema = z.strictObject({
  mode: z
    .enum(["compute", "code"])
    .optional()
    .describe(
      "`compute` (the default) runs each program in a fresh sandbox; `code` keeps one sandbox for the run",
    ),
  runtime: z
    .string()
    .min(1)
    .max(512)
    .optional()
    .describe(
      "`python`, `node`, `typescript`, `bash` or `linux`; any other name is an image. Default: `python` in compute mode and `linux` in code mode",
    ),
  image: z
    .string()
    .min(1)
    .max(512)
    .optional()
    .describe("Image of the sandbox, instead of the image of the runtime"),
  session: sessionName
    .optional()
    .describe(
      "Code mode: `default` (or `workflow`) shares the sandbox of the workflow run; `isolated` (or `agent`) gives each agent run a separate one; any other name selects an additional sandbox of the run",
    ),
  limits: limitsSchema.optional().describe("Upper bounds for the sandbox"),
  network: z
    .union([
      z.boolean(),
      z.strictObject({
        enabled: z.boolean().optional().describe("Requests a network; the administrator decides"),
      }),
    ])
    .optional()
    .describe("Whether the sandbox requests a network; default: none"),
  allow_network: z.boolean().optional().describe("The same as `network.enabled`"),
  network_mode: z
    .enum(["none", "bridge", "full"])
    .optional()
    .describe("The same as `network.enabled`: `none` is false, the others are true"),
  profile: z
    .enum(["restricted", "root"])
    .optional()
    .describe(
      "`root` runs as the sandbox's root with a writable system, if the administrator allows it; default: `restricted`",
    ),
  timeout_seconds: seconds(MAX_TIMEOUT_SECONDS)
    .optional()
    .describe("Timeout of a command or run that does not set its own"),
  exec_timeout_seconds: seconds(MAX_TIMEOUT_SECONDS)
    .optional()
    .describe("The same as `timeout_seconds`"),
  idle_timeout_seconds: seconds(DAY_SECONDS)
    .optional()
    .describe("Code mode: the same as `limits.timeout_seconds`"),
  max_stdout_bytes: bytes()
    .optional()
    .describe("How much of stdout a result contains: its beginning and its end"),
  max_stderr_bytes: bytes()
    .optional()
    .describe("How much of stderr a result contains: its beginning and its end"),
  max_artifact_bytes: bytes()
    .optional()
    .describe(
      "The largest artifact that is returned; in code mode, the largest file that can be published",
    ),
  max_artifacts_count: z
    .int()
    .min(0)
    .optional()
    .describe("Compute mode: how many artifacts are returned"),
  pip_packages: packages().optional().describe("Python packages to install; requires a network"),
  npm_packages: packages().optional().describe("npm packages to install; requires a network"),
});

export type SettingsObject = z.output<typeof settingsObjectSchema>;

/** The `sandbox:` block of an agent: a runtime's name, or an object. */
export const sandboxSettingsSchema: z.ZodType<string | SettingsObject> = z.union([
  z.string().min(1).max(512).describe("Compute mode with this runtime"),
  settingsObjectSchema,
]);
