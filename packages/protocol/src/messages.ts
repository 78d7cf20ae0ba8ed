/**
 * The runner's answers: the JSON of HELLO, RESPONSE, ERROR and EVENT frames, validated and
 * converted to our types.
 */
import { z } from "zod";
import { PROTOCOL_VERSION } from "./frames.ts";
import { execIdSchema, shellNameSchema } from "./requests.ts";

// SECURITY: code may take over the runner that runs it, so nothing here is trusted: strings and
// arrays are limited and unknown fields dropped. Guarded by "hostile answers" in
// packages/daemon/src/channel/hostile-runner.test.ts.

export type OutputStream = "stdout" | "stderr";

/** How a command ended. Only the daemon itself reports the last two; a runner cannot claim them. */
export type ExecEndReason =
  | "exited"
  | "timeout"
  | "idle_timeout"
  | "oom"
  | "killed"
  | "cancelled"
  | "sandbox_gone"
  | "not_started"
  | "unknown";

export type FileType = "file" | "dir" | "symlink" | "other";

export interface FileEntry {
  readonly path: string;
  readonly name: string;
  readonly type: FileType;
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  readonly mtimeMs: number;
  readonly uid: number;
  readonly gid: number;
  /** The target of a symlink. */
  readonly target?: string;
  /** The exact bytes of the path in base64, only if they are not UTF-8. */
  readonly rawPath?: string;
  /** Changes whenever the content does. */
  readonly version: string;
  /** A directory whose entries a recursive list could not read. */
  readonly unreadable?: true;
}

/** A path that an operation used. */
export interface NamedPath {
  readonly path: string;
  /** The exact bytes of the path in base64, only if they are not UTF-8. */
  readonly rawPath?: string;
}

export interface DirectoryPage {
  readonly entries: readonly FileEntry[];
  /** The cursor of the next page; absent on the last one. */
  readonly nextCursor?: string;
}

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const longText = z.string().max(131_072);
const rawPath = z.base64().max(262_144);
const version = z.string().min(1).max(256);
const processId = z.number().int().min(0).max(0xffff_ffff);
const userId = z.number().int().min(0).max(0xffff_ffff);

export const runnerHelloSchema = z
  .object({
    protocol: z.literal(PROTOCOL_VERSION),
    runner: z.string().min(1).max(64),
    boot_id: z.string().regex(/^[0-9a-f]{32}$/),
  })
  .transform((hello) => ({ version: hello.runner, bootId: hello.boot_id }));
export type RunnerHello = z.output<typeof runnerHelloSchema>;

export const RUNNER_ERROR_CODES = [
  "not_found",
  "exists",
  "changed",
  "is_directory",
  "not_directory",
  "not_regular",
  "permission",
  "no_space",
  "too_large",
  "loop",
  "invalid",
  "busy",
  "too_many",
  "refused",
  "cancelled",
  "no_shell",
  "unsupported",
  "io",
] as const;
export type RunnerErrorCode = (typeof RUNNER_ERROR_CODES)[number];

export const runnerErrorSchema = z.object({
  code: z.enum(RUNNER_ERROR_CODES),
  message: z.string().max(131_072),
});
export type RunnerError = z.output<typeof runnerErrorSchema>;

export const execEndSchema = z
  .object({
    exec_id: execIdSchema,
    end_reason: z.enum(["exited", "timeout", "idle_timeout", "oom", "killed", "cancelled"]),
    exit_code: z.number().int().min(0).max(255),
    signal: z.number().int().min(1).max(64).optional(),
    cwd: longText.optional(),
    duration_ms: count,
    stdout_bytes: count,
    stderr_bytes: count,
    dropped_bytes: count,
    shell_restarted: z.boolean(),
    // The runner of a sandbox from an earlier version does not report it; an attach finds out.
    output_open: z.boolean().default(true),
  })
  .transform((end) => ({
    execId: end.exec_id,
    reason: end.end_reason,
    exitCode: end.exit_code,
    ...(end.signal !== undefined && { signal: end.signal }),
    ...(end.cwd !== undefined && { cwd: end.cwd }),
    durationMs: end.duration_ms,
    stdoutBytes: end.stdout_bytes,
    stderrBytes: end.stderr_bytes,
    droppedBytes: end.dropped_bytes,
    shellRestarted: end.shell_restarted,
    outputOpen: end.output_open,
  }));

export const execListSchema = z
  .object({
    execs: z
      .array(
        z
          .object({
            exec_id: execIdSchema,
            mode: z.enum(["shell", "process"]),
            state: z.enum(["queued", "running", "done"]),
            pid: processId.optional(),
            age_ms: count,
            stdout_bytes: count,
            stderr_bytes: count,
            result: execEndSchema.optional(),
          })
          .transform((exec) => ({
            execId: exec.exec_id,
            mode: exec.mode,
            state: exec.state,
            ...(exec.pid !== undefined && { pid: exec.pid }),
            ageMs: exec.age_ms,
            stdoutBytes: exec.stdout_bytes,
            stderrBytes: exec.stderr_bytes,
            ...(exec.result !== undefined && { end: exec.result }),
          })),
      )
      .max(16_384),
  })
  .transform((list) => list.execs);

export const cancelledSchema = z.object({ cancelled: z.boolean() });

export const shellListSchema = z
  .object({
    shells: z
      .array(
        z
          .object({
            name: shellNameSchema,
            kind: z.enum(["bash", "sh"]),
            cwd: longText,
            busy: z.boolean(),
            exec_id: execIdSchema.optional(),
          })
          .transform((shell) => ({
            name: shell.name,
            kind: shell.kind,
            cwd: shell.cwd,
            busy: shell.busy,
            ...(shell.exec_id !== undefined && { execId: shell.exec_id }),
          })),
      )
      .max(64),
  })
  .transform((list) => list.shells);

export const portListSchema = z
  .object({
    ports: z
      .array(
        z
          .object({
            port: z.number().int().min(1).max(65_535),
            address: z.union([z.ipv4(), z.ipv6()]),
            pid: processId.optional(),
            process: z.string().max(256).optional(),
          })
          .transform((listener) => ({
            port: listener.port,
            address: listener.address,
            ...(listener.pid !== undefined && { pid: listener.pid }),
            ...(listener.process !== undefined && { process: listener.process }),
          })),
      )
      .max(1024),
  })
  .transform((list) => list.ports);

export const fileEntrySchema = z
  .object({
    path: longText,
    name: z.string().max(1024),
    type: z.enum(["file", "dir", "symlink", "other"]),
    size: count,
    mode: z.number().int().min(0).max(0o7777),
    mtime_ms: z.number().int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    uid: userId,
    gid: userId,
    target: longText.optional(),
    raw_path: rawPath.optional(),
    version,
    unreadable: z.literal(true).optional(),
  })
  .transform((entry): FileEntry => ({
    path: entry.path,
    name: entry.name,
    type: entry.type,
    size: entry.size,
    mode: entry.mode,
    mtimeMs: entry.mtime_ms,
    uid: entry.uid,
    gid: entry.gid,
    ...(entry.target !== undefined && { target: entry.target }),
    ...(entry.raw_path !== undefined && { rawPath: entry.raw_path }),
    version: entry.version,
    ...(entry.unreadable !== undefined && { unreadable: entry.unreadable }),
  }));

export const statSchema = z.object({ entry: fileEntrySchema }).transform((stat) => stat.entry);

export const directoryPageSchema = z
  .object({ entries: z.array(fileEntrySchema).max(1000), next_cursor: longText.optional() })
  .transform((page): DirectoryPage => ({
    entries: page.entries,
    ...(page.next_cursor !== undefined && { nextCursor: page.next_cursor }),
  }));

export const pingSchema = z
  .object({
    uptime_ms: count,
    rss_bytes: count,
    shell: z.enum(["bash", "sh", "none"]),
    tracking: z.enum(["cgroup", "processes"]),
    disk_used_bytes: count.optional(),
    memory_bytes: count.optional(),
    pids: count.optional(),
    oom_kills: count.optional(),
  })
  .transform((ping) => ({
    uptimeMs: ping.uptime_ms,
    rssBytes: ping.rss_bytes,
    shell: ping.shell,
    tracking: ping.tracking,
    ...(ping.disk_used_bytes !== undefined && { diskUsedBytes: ping.disk_used_bytes }),
    ...(ping.memory_bytes !== undefined && { memoryBytes: ping.memory_bytes }),
    ...(ping.pids !== undefined && { pids: ping.pids }),
    ...(ping.oom_kills !== undefined && { oomKills: ping.oom_kills }),
  }));

export const signalledSchema = z.object({ delivered: count });
export const emptySchema = z.object({});
const namedPath = { path: longText, raw_path: rawPath.optional() };
const toNamedPath = ({ path, raw_path }: z.output<typeof pathFields>): NamedPath => ({
  path,
  ...(raw_path !== undefined && { rawPath: raw_path }),
});
const pathFields = z.object(namedPath);
export const pathSchema = pathFields.transform(toNamedPath);
export const writtenSchema = z
  .object({ ...namedPath, size: count, version })
  .transform((file) => ({ ...toNamedPath(file), size: file.size, version: file.version }));
export const copiedSchema = z
  .object({ ...namedPath, entries: count, bytes: count, skipped: count })
  .transform((copied) => ({
    ...toNamedPath(copied),
    entries: copied.entries,
    bytes: copied.bytes,
    skipped: copied.skipped,
  }));
export const readSchema = z.object({ bytes: count });
export const tarSchema = z.object({ entries: count, bytes: count });

export const startedEventSchema = z.object({
  event: z.literal("started"),
  exec_id: execIdSchema,
  pid: processId.nullish(),
});
export const fileEventSchema = z
  .object({
    event: z.literal("file"),
    size: count,
    mode: z.number().int().min(0).max(0o7777),
    mtime_ms: z.number().int().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    version,
    real_path: pathSchema.nullish(),
  })
  .transform((file) => ({
    size: file.size,
    mode: file.mode,
    mtimeMs: file.mtime_ms,
    version: file.version,
    ...(file.real_path !== undefined && { realPath: file.real_path }),
  }));
export const archiveEventSchema = z
  .object({
    event: z.literal("archive"),
    unreadable: count,
    unreadable_paths: z.array(pathSchema).max(20),
  })
  .transform((archive) => ({
    unreadable: archive.unreadable,
    unreadablePaths: archive.unreadable_paths,
  }));
export const readyEventSchema = z.object({ event: z.literal("ready") });
export const changeEventSchema = z
  .object({
    event: z.literal("change"),
    kind: z.enum(["create", "modify", "remove", "move", "overflow"]),
    ...namedPath,
  })
  .transform((change) => ({ kind: change.kind, ...toNamedPath(change) }));
export const connectedEventSchema = z.object({ event: z.literal("connected") });
