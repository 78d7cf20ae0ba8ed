/** For ComputeSDK (`@computesdk/provider`): a provider. */
import {
  type CommandResult,
  type CreateSandboxOptions,
  defineProvider,
  type FileEntry,
  type RunCommandOptions,
  type SandboxInfo,
} from "@computesdk/provider";
import {
  type CreateSessionOptions,
  type ExecResult,
  type SandboxClient,
  type Session,
  type SnapshotInfo,
} from "@sandkasten/sdk";
import { isActive, unlessEnded } from "./active-session.ts";
import { exitCodeOf, freshCommand, runFresh, unlessMissing } from "./fresh-command.ts";

/** The daemon that creates the sandboxes, and defaults. */
export interface SandkastenConfig {
  readonly client: SandboxClient;
  /** Defaults for every sandbox; arguments of `create` take precedence. */
  readonly defaults?: CreateSessionOptions;
}

/** A snapshot as ComputeSDK shows it. */
export interface SandkastenSnapshot {
  readonly id: string;
  readonly provider: "sandkasten";
  readonly createdAt: Date;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Each sandbox is a session. `getInstance` returns it. */
export const sandkasten = defineProvider<Session, SandkastenConfig, never, SandkastenSnapshot>({
  name: "sandkasten",
  methods: {
    sandbox: {
      create: async ({ client, defaults }, options = {}) =>
        named(await createOf(client, { ...defaults, ...createOptions(options) }, options)),
      getById: async ({ client }, id) => {
        const session = await unlessEnded(client.getSession(id));
        return session === undefined ? null : named(session);
      },
      list: async ({ client }) => {
        const active = (await client.listSessions()).filter(({ status }) => isActive(status));
        const sessions = await Promise.all(
          active.map(async ({ id }) => await unlessEnded(client.getSession(id))),
        );
        return sessions.flatMap((session) => (session === undefined ? [] : [named(session)]));
      },
      destroy: async ({ client }, id) => {
        await (await unlessEnded(client.getSession(id)))?.destroy();
      },
      runCommand: async (session, command, options = {}) =>
        options.background === true
          ? await startCommand(session, command, options)
          : resultOf(await runFresh(session, command, commandOf(options))),
      streamCommand: async (session, command, options) =>
        resultOf(
          await runFresh(session, command, {
            ...commandOf(options),
            onOutput: ({ stream, text }) =>
              stream === "stdout" ? options.onStdout?.(text) : options.onStderr?.(text),
          }),
        ),
      getInfo: async (session) => infoOf(session, await session.info()),
      getUrl: async (session, { port }) => await session.url(port),
      filesystem: {
        readFile: async ({ files }, path) => await files.readText(path),
        writeFile: async ({ files }, path, content) => {
          await files.write(path, content);
        },
        mkdir: async ({ files }, path) => await files.mkdir(path),
        readdir: async ({ files }, path) => await Array.fromAsync(files.list(path), entryOf),
        exists: async ({ files }, path) => (await unlessMissing(files.stat(path))) !== undefined,
        remove: async ({ files }, path) => await files.remove(path, { recursive: true }),
      },
    },
    snapshot: {
      create: async ({ client }, sandboxId, { name, metadata } = {}) => {
        const labels = { ...metadata, ...(name !== undefined && { name }) };
        const session = await client.getSession(sandboxId);
        return shownSnapshot(await client.snapshots.create(session, { metadata: labels }));
      },
      list: async ({ client }, { sandboxId, limit } = {}) =>
        (await client.snapshots.list())
          .filter(({ sessionId }) => sandboxId === undefined || sessionId === sandboxId)
          .slice(0, limit)
          .map(shownSnapshot),
      delete: async ({ client }, snapshotId) => await client.snapshots.delete(snapshotId),
    },
  },
});

function named(session: Session): { sandbox: Session; sandboxId: string } {
  return { sandbox: session, sandboxId: session.id };
}

async function createOf(
  client: SandboxClient,
  asked: CreateSessionOptions,
  { snapshotId, image }: CreateSandboxOptions,
): Promise<Session> {
  if (snapshotId === undefined) return await client.createSession(asked);
  // A snapshot has an image, which the provider's defaults must not replace.
  return await client.snapshots.restore(snapshotId, { ...asked, image });
}

function shownSnapshot({ id, createdAt, metadata }: SnapshotInfo): SandkastenSnapshot {
  return { id, provider: "sandkasten", createdAt: new Date(createdAt), metadata };
}

/** Maps ComputeSDK's options to those of a session; keys of other providers are ignored. */
function createOptions(options: CreateSandboxOptions): CreateSessionOptions {
  const { image, templateId, runtime, timeout, envs, metadata = {}, memory, cpu, signal } = options;
  const chosen = image ?? templateId ?? runtime;
  const limits = {
    ...(memory !== undefined && { memoryMb: memory }),
    ...(cpu !== undefined && { cpuMillicores: Math.round(cpu * 1000) }),
  };
  return {
    ...(chosen !== undefined && { image: chosen }),
    ...(timeout !== undefined && { ttlSeconds: Math.max(1, Math.ceil(timeout / 1000)) }),
    ...(envs !== undefined && { env: envs }),
    ...(Object.keys(limits).length > 0 && { limits }),
    metadata: Object.fromEntries(
      Object.entries(metadata).map(([name, value]) => [name, String(value)]),
    ),
    signal,
  };
}

function commandOf({ cwd, env, timeout: timeoutMs }: RunCommandOptions) {
  return { cwd, env, timeoutMs };
}

/** Starts a command without waiting for it: the result only says that it started. */
async function startCommand(
  session: Session,
  command: string,
  options: RunCommandOptions,
): Promise<CommandResult> {
  const startedMs = performance.now();
  await session.start(command, freshCommand(commandOf(options)));
  const durationMs = performance.now() - startedMs;
  return { stdout: "", stderr: "", exitCode: 0, durationMs };
}

function resultOf(result: ExecResult): CommandResult {
  const { stdout, stderr, durationMs } = result;
  return { stdout, stderr, exitCode: exitCodeOf(result), durationMs };
}

function infoOf(
  { id }: Session,
  { status, createdAt, ttlSeconds, metadata }: Awaited<ReturnType<Session["info"]>>,
): SandboxInfo {
  const shown = status === "running" || status === "creating" ? "running" : "stopped";
  return {
    id,
    provider: "sandkasten",
    status: status === "failed" || status === "crashed" ? "error" : shown,
    createdAt: new Date(createdAt),
    timeout: ttlSeconds * 1000,
    metadata: { ...metadata },
  };
}

function entryOf({
  name,
  isDir,
  sizeBytes,
  mtimeUnix,
}: {
  readonly name: string;
  readonly isDir: boolean;
  readonly sizeBytes: number;
  readonly mtimeUnix: number;
}): FileEntry {
  return {
    name,
    type: isDir ? "directory" : "file",
    size: sizeBytes,
    modified: new Date(mtimeUnix * 1000),
  };
}
