/** A session as the OpenAI Agents SDK's `SandboxSession`. */
import { posix } from "node:path";
import type { ToolOutputImage } from "@openai/agents-core";
import {
  type ExecCommandArgs,
  type ExposedPortEndpoint,
  type ListDirectoryArgs,
  type Manifest,
  type MaterializeEntryArgs,
  type ReadFileArgs,
  type SandboxDirectoryEntry,
  type SandboxExecResult,
  type SandboxSession,
  type SandboxSessionState,
  SandboxUnsupportedFeatureError,
  type ViewImageArgs,
  type WorkspaceArchiveData,
  type WriteStdinArgs,
} from "@openai/agents-core/sandbox";
import {
  formatExecResponse,
  imageOutputFromBytes,
  MAX_VIEW_IMAGE_BYTES,
  mergeManifestDelta,
  mergeManifestEntryDelta,
  truncateOutput,
} from "@openai/agents-core/sandbox/internal";
import type { Command, CreateSessionOptions, Exec, Session } from "@sandkasten/sdk";
import { materialize } from "./openai-entries.ts";
import { editorOf, type FileEditor } from "./openai-editor.ts";
import { execOfNumber, numberOf } from "./openai-exec-numbers.ts";
import { archiveOf, type KnownSnapshotSpec } from "./openai-snapshots.ts";
import { freshCommand, NOT_RUN, refusalOf, unlessMissing } from "./fresh-command.ts";

/** What the SDK stores about a sandbox between turns and runs. */
export interface OpenAiSandboxState extends SandboxSessionState {
  readonly sessionId: string;
  /** For each command still running, the offset up to which the model has seen its output. */
  readonly seen: Record<string, number>;
  /** The options of the sandbox, for restoring it. */
  readonly options: Pick<
    CreateSessionOptions,
    "image" | "ttlSeconds" | "limits" | "metadata" | "profile"
  >;
  /** Not serialized, because it can hold a store. */
  readonly snapshotSpec?: KnownSnapshotSpec | undefined;
}

const TERMINAL = { rows: 24, cols: 80 };
const DEFAULT_YIELD_MS = 10_000;
/** More than a model can read; it is truncated to the number of tokens that the model requested. */
const MAX_OUTPUT_BYTES = 1_048_576;

export class OpenAiSandboxSession implements SandboxSession<OpenAiSandboxState> {
  readonly state: OpenAiSandboxState;
  readonly #session: Session;

  constructor(session: Session, state: OpenAiSandboxState) {
    this.#session = session;
    this.state = state;
  }

  async running(): Promise<boolean> {
    return (await this.#session.info()).status === "running";
  }

  supportsPty(): boolean {
    return true;
  }

  /** Waits for the end as long as the model requested; after that the command continues. */
  async exec(args: ExecCommandArgs): Promise<SandboxExecResult> {
    const { cmd, workdir, tty = false, yieldTimeMs = DEFAULT_YIELD_MS } = args;
    refuseOtherUsers(args.runAs);
    let exec: Exec;
    try {
      exec = await this.#session.start(commandOf(args, cmd), {
        ...freshCommand({ cwd: this.#path(workdir) }),
        ...(tty && { pty: TERMINAL, stdinOpen: true }),
      });
    } catch (error) {
      // The SDK hides the messages of errors from the model.
      const output = refusalOf(error);
      return { output, stdout: "", stderr: output, wallTimeSeconds: 0, exitCode: NOT_RUN };
    }
    return await this.#progress(exec, yieldTimeMs, args.maxOutputTokens);
  }

  async execCommand(args: ExecCommandArgs): Promise<string> {
    return formatExecResponse(await this.exec(args));
  }

  async writeStdin(args: WriteStdinArgs): Promise<string> {
    const { sessionId, chars = "", yieldTimeMs = 250, maxOutputTokens } = args;
    const exec = await execOfNumber(this.#session, sessionId);
    if (exec === undefined) return `There is no process with session ID ${sessionId}.`;
    const isRunning = (await exec.info()).status !== "done";
    if (chars !== "" && isRunning) await exec.writeStdin(chars);
    return formatExecResponse(await this.#progress(exec, yieldTimeMs, maxOutputTokens));
  }

  createEditor(runAs?: string): FileEditor {
    refuseOtherUsers(runAs);
    return editorOf(this.#session.files, (path) => this.#path(path));
  }

  async viewImage({ path, runAs }: ViewImageArgs): Promise<ToolOutputImage> {
    refuseOtherUsers(runAs);
    // One byte more than allowed, so that the SDK can detect what is too large.
    const maxBytes = MAX_VIEW_IMAGE_BYTES + 1;
    return imageOutputFromBytes(
      path,
      await this.#session.files.read(this.#path(path), { maxBytes }),
    );
  }

  async readFile({ path, runAs, maxBytes }: ReadFileArgs): Promise<Uint8Array> {
    refuseOtherUsers(runAs);
    return await this.#session.files.read(this.#path(path), { maxBytes });
  }

  async listDir({ path, runAs }: ListDirectoryArgs): Promise<SandboxDirectoryEntry[]> {
    refuseOtherUsers(runAs);
    const entries = await Array.fromAsync(this.#session.files.list(this.#path(path)));
    return entries.map(({ name, path: where, type }) => ({
      name,
      path: where,
      type: type === "symlink" ? "other" : type,
    }));
  }

  async pathExists(path: string, runAs?: string): Promise<boolean> {
    refuseOtherUsers(runAs);
    return (await this.#stat(path)) !== undefined;
  }

  async directoryExists(path: string, runAs?: string): Promise<boolean> {
    refuseOtherUsers(runAs);
    return (await this.#stat(path))?.isDir === true;
  }

  async materializeEntry({ path, entry, runAs }: MaterializeEntryArgs): Promise<void> {
    refuseOtherUsers(runAs);
    await materialize(this.#session.files, this.#path(path), entry);
    this.state.manifest = mergeManifestEntryDelta(this.state.manifest, path, entry);
  }

  async applyManifest(manifest: Manifest, runAs?: string): Promise<void> {
    refuseOtherUsers(runAs);
    if (manifest.users.length > 0 || manifest.groups.length > 0)
      throw new SandboxUnsupportedFeatureError("Sandkasten does not create users or groups.");
    for (const [path, entry] of Object.entries(manifest.validatedEntries()))
      await materialize(this.#session.files, this.#path(path), entry);
    if (manifest !== this.state.manifest)
      this.state.manifest = mergeManifestDelta(this.state.manifest, manifest);
  }

  /** All files of the workspace, as a tar archive. */
  async persistWorkspace(): Promise<Uint8Array> {
    return await archiveOf(this.#session, this.state.manifest.root);
  }

  async hydrateWorkspace(data: WorkspaceArchiveData): Promise<void> {
    const archive = typeof data === "string" ? Buffer.from(data, "base64") : data;
    await this.#session.files.untar(this.state.manifest.root, archive);
  }

  async resolveExposedPort(port: number): Promise<ExposedPortEndpoint> {
    const url = new URL(await this.#session.url(port));
    const tls = url.protocol === "https:";
    return {
      host: url.hostname,
      port: Number(url.port) || (tls ? 443 : 80),
      tls,
      query: url.search.slice(1),
      url: url.href,
    };
  }

  async delete(): Promise<void> {
    await this.#session.destroy();
  }

  async close(): Promise<void> {
    await this.#session.destroy();
  }

  #path(path = "."): string {
    return posix.resolve(this.state.manifest.root, path);
  }

  async #stat(path: string) {
    return await unlessMissing(this.#session.files.stat(this.#path(path), { follow: true }));
  }

  /** Waits, and returns what the command has printed since the model last looked. */
  async #progress(
    exec: Exec,
    waitMs: number,
    maxOutputTokens: number | undefined,
  ): Promise<SandboxExecResult> {
    const startedMs = performance.now();
    const { status, exitCode } = await exec.wait({ timeoutMs: waitMs, outputBudgetBytes: 0 });
    const { seen } = this.state;
    const { stdout, stderr, output, cursor } = await readFrom(exec, seen[exec.id] ?? 0);
    const isDone = status === "done";
    if (isDone) Reflect.deleteProperty(seen, exec.id);
    else seen[exec.id] = cursor;
    const shown = truncateOutput(output, maxOutputTokens);
    return {
      output: shown.text,
      stdout,
      stderr,
      wallTimeSeconds: (performance.now() - startedMs) / 1000,
      ...(isDone ? { exitCode } : { sessionId: numberOf(exec.id) }),
      ...(shown.originalTokenCount !== undefined && {
        originalTokenCount: shown.originalTokenCount,
      }),
    };
  }
}

/** Everything from this byte on, up to the limit of what a model is shown. */
async function readFrom(exec: Exec, from: number) {
  const streams = { stdout: "", stderr: "" };
  let output = "";
  let cursor = from;
  for (;;) {
    const page = await exec.read({ cursor, maxBytes: MAX_OUTPUT_BYTES });
    for (const { stream, text } of page.chunks) {
      streams[stream] += text;
      output += text;
    }
    const isEnd = page.nextCursor === cursor || output.length >= MAX_OUTPUT_BYTES;
    cursor = page.nextCursor;
    if (isEnd) return { ...streams, output, cursor };
  }
}

/** A command for the sandbox's shell, unless the model chooses another one. */
function commandOf({ shell, login = true }: ExecCommandArgs, cmd: string): Command {
  return shell === undefined ? cmd : [shell, login ? "-lc" : "-c", cmd];
}

function refuseOtherUsers(runAs: string | undefined): void {
  if (runAs === undefined) return;
  throw new SandboxUnsupportedFeatureError(
    "All code in a sandbox runs as one user. Leave runAs out.",
  );
}
