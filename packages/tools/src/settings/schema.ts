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
      "In code mode how long the sandbox lives without use; in compute mode the timeout of a run, unless the top-level `timeout_seconds` sets it",
    ),
  max_file_size_bytes: bytes()
    .optional()
    .describe(
      "Largest file that the file tools write, 10485760 unless set; in compute mode the largest of `files`, without a limit unless set",
    ),
  max_files: z
    .int()
    .min(1)
    .optional()
    .describe(
      "How many files the file tools of a session write, 100 unless set; in compute mode how many `files` a run takes, without a limit unless set",
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
      "`python`, `node`, `typescript`, `bash` or `linux`; any other name is an image. `python` in compute mode and `linux` in code mode unless set",
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
      "Code mode: `default` (or `workflow`) shares the sandbox of the workflow run, `isolated` (or `agent`) gives each agent run one, any other name is a further sandbox of the run",
    ),
  limits: limitsSchema.optional().describe("Upper bounds for the sandbox"),
  network: z
    .union([
      z.boolean(),
      z.strictObject({
        enabled: z.boolean().optional().describe("Asks for a network; the administrator decides"),
      }),
    ])
    .optional()
    .describe("Whether the sandbox asks for a network; none unless set"),
  allow_network: z.boolean().optional().describe("The same as `network.enabled`"),
  network_mode: z
    .enum(["none", "bridge", "full"])
    .optional()
    .describe("The same as `network.enabled`: `none` is false, the others are true"),
  profile: z
    .enum(["restricted", "root"])
    .optional()
    .describe(
      "`root` runs as the sandbox's root with a writable system, where the administrator allows it; `restricted` unless set",
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
    .describe("How much of stdout a result holds: its beginning and its end"),
  max_stderr_bytes: bytes()
    .optional()
    .describe("How much of stderr a result holds: its beginning and its end"),
  max_artifact_bytes: bytes()
    .optional()
    .describe(
      "Largest artifact that is returned, and in code mode the largest file that can be published",
    ),
  max_artifacts_count: z
    .int()
    .min(0)
    .optional()
    .describe("Compute mode: how many artifacts are returned"),
  pip_packages: packages().optional().describe("Python packages to install; needs a network"),
  npm_packages: packages().optional().describe("npm packages to install; needs a network"),
});

export type SettingsObject = z.output<typeof settingsObjectSchema>;

/** The `sandbox:` block of an agent: a runtime's name, or an object. */
export const sandboxSettingsSchema: z.ZodType<string | SettingsObject> = z.union([
  z.string().min(1).max(512).describe("Compute mode with this runtime"),
  settingsObjectSchema,
]);
