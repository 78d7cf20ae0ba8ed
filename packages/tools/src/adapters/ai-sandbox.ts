/** A session as the AI SDK's `Experimental_SandboxSession`. */
import { type Exec, SandboxError, type Session } from "@sandkasten/sdk";
import type { Experimental_SandboxSession, Experimental_SandboxProcess } from "ai";
import {
  byteStream,
  exitCodeOf,
  freshCommand,
  type FreshCommand,
  runFresh,
  unlessMissing,
} from "./fresh-command.ts";

type Sandbox = Experimental_SandboxSession;
type SpawnOptions = Parameters<Sandbox["spawn"]>[0];
type WritableProcess = Experimental_SandboxProcess & { readonly stdin: WritableStream<Uint8Array> };

/** The caller keeps the session and must destroy it. */
export function aiSandbox(session: Session): Experimental_SandboxSession {
  const { files } = session;
  return {
    description: describe(session),
    run: async ({ command, ...options }) => {
      const result = await runFresh(session, command, commandOf(options));
      return { exitCode: exitCodeOf(result), stdout: result.stdout, stderr: result.stderr };
    },
    spawn: spawnIn(session),
    readFile: async ({ path, abortSignal }) =>
      (await unlessMissing(files.download(path, { signal: abortSignal }))) ?? null,
    readBinaryFile: async ({ path, abortSignal }) =>
      (await unlessMissing(files.read(path, { signal: abortSignal }))) ?? null,
    readTextFile: async ({ path, encoding, startLine, endLine, abortSignal }) => {
      const bytes = await unlessMissing(files.read(path, { signal: abortSignal }));
      if (bytes === undefined) return null;
      return lines(new TextDecoder(encoding).decode(bytes), startLine, endLine);
    },
    writeFile: async ({ path, content, abortSignal }) => {
      await files.write(path, content, { signal: abortSignal });
    },
    writeBinaryFile: async ({ path, content, abortSignal }) => {
      await files.write(path, content, { signal: abortSignal });
    },
    writeTextFile: async ({ path, content, encoding = "utf-8", abortSignal }) => {
      await files.write(path, encoded(content, encoding), { signal: abortSignal });
    },
    stat: async ({ path, abortSignal }) => {
      const entry = await unlessMissing(files.stat(path, { follow: true, signal: abortSignal }));
      if (entry === undefined) return null;
      const type = typeNames[entry.type];
      return { type: type === "symlink" ? "other" : type, size: entry.sizeBytes };
    },
    listDirectory: async ({ path, abortSignal }) => {
      const listed = await unlessMissing(
        Array.fromAsync(files.list(path, { signal: abortSignal })),
      );
      return listed?.map(({ name, type }) => ({ name, type: typeNames[type] })) ?? null;
    },
    deleteFile: async ({ path, abortSignal: signal }) => {
      const entry = await unlessMissing(files.stat(path, { signal }));
      if (entry === undefined) return false;
      if (entry.isDir)
        throw new SandboxError("NOT_A_FILE", `${path} is a directory; only files can be deleted.`);
      await files.remove(path, { signal });
      return true;
    },
  };
}

function spawnIn(session: Session): Sandbox["spawn"] {
  function spawn(options: SpawnOptions & { stdin: true }): Promise<WritableProcess>;
  function spawn(options: SpawnOptions & { stdin?: false }): Promise<Experimental_SandboxProcess>;
  function spawn(options: SpawnOptions): Promise<Experimental_SandboxProcess>;
  async function spawn({ command, stdin = false, ...options }: SpawnOptions) {
    const { abortSignal: signal } = options;
    const exec = await session.start(command, {
      ...freshCommand(commandOf(options)),
      stdinOpen: stdin,
    });
    // The signal passed to `start` only covers its response; the process outlives it.
    const cancel = (): void => void exec.cancel().catch(() => undefined);
    if (signal?.aborted === true) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    const process: Experimental_SandboxProcess = {
      stdout: byteStream(exec, "stdout"),
      stderr: byteStream(exec, "stderr"),
      wait: async () => ({
        exitCode: exitCodeOf(await exec.wait({ outputBudgetBytes: 0, signal })),
      }),
      kill: async () => {
        await exec.cancel();
      },
    };
    return stdin ? { ...process, stdin: inputOf(exec) } : process;
  }
  return spawn;
}

function inputOf(exec: Exec): WritableStream<Uint8Array> {
  return new WritableStream({
    write: (bytes) => exec.writeStdin(bytes),
    close: () => exec.closeStdin(),
    abort: () => exec.closeStdin(),
  });
}

function commandOf(options: Omit<SpawnOptions, "command">): FreshCommand {
  const { workingDirectory: cwd, env, abortSignal: signal } = options;
  return { cwd, env, signal };
}

const typeNames = {
  file: "file",
  dir: "directory",
  symlink: "symlink",
  other: "other",
} as const;

/** 1-based and inclusive, without the line break of the last line. */
function lines(text: string, start: number | undefined, end: number | undefined): string {
  if (start === undefined && end === undefined) return text;
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n";
  const from = Math.max(1, start ?? 1) - 1;
  return text.split(lineEnd).slice(from, end).join(lineEnd);
}

function encoded(text: string, encoding: string): Uint8Array {
  if (Buffer.isEncoding(encoding)) return Buffer.from(text, encoding);
  throw new TypeError(`Text cannot be written as "${encoding}"; use utf-8, utf-16le or latin1.`);
}

function describe({ image, limits, network }: Session): string {
  const online =
    network === "none" ? "no network" : "network access to what the administrator allows";
  return `Linux sandbox (image ${image}) with ${online}, ${limits.memoryMb} MiB of memory and ${limits.diskMb} MiB of disk. Commands start in /workspace, each in a fresh shell. Files below /workspace and /tmp stay for the whole session.`;
}
