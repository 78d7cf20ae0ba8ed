/** For Mastra (`@mastra/core`): a sandbox for its `Workspace`, with a process manager. */
import {
  MastraSandbox,
  type MastraSandboxOptions,
  type ProviderStatus,
  type SandboxCloneOptions,
  type SandboxFileInput,
  type SandboxInfo,
  type SandboxNetworking,
  SandboxNotReadyError,
  type SandboxStartResult,
  type WriteFilesOptions,
} from "@mastra/core/workspace";
import type { CreateSessionOptions, SandboxClient, Session } from "@sandkasten/sdk";
import { WORKSPACE } from "../sandbox-paths.ts";
import { ExecProcessManager } from "./mastra-processes.ts";

export interface SandkastenSandboxOptions extends Omit<MastraSandboxOptions, "processes"> {
  readonly client: SandboxClient;
  /**
   * Sandboxes with the same id are the same sandbox: letters, digits, `_`, `.` and `-`. Random by
   * default.
   */
  readonly id?: string;
  /** Options of a new sandbox. */
  readonly create?: Omit<CreateSessionOptions, "key" | "signal">;
  /** An existing session, which `start` connects to instead of the one of the `id`. */
  readonly sessionId?: string;
  /**
   * The snapshot that `snapshot` writes (by default named after the `id`), and that a new sandbox
   * starts from.
   */
  readonly checkpointName?: string;
  /** The snapshot that a new sandbox starts from if there is none named `checkpointName` yet. */
  readonly seedCheckpointName?: string;
}

/** A session with the sandbox's id as its key. `start` connects to it, or creates it. */
export class SandkastenSandbox extends MastraSandbox {
  readonly id: string;
  readonly name = "SandkastenSandbox";
  readonly provider = "sandkasten";
  status: ProviderStatus = "pending";
  override readonly networking: SandboxNetworking = {
    getPortUrl: async (port) => await this.session.url(port),
  };
  override readonly supportsCheckpoints = true;
  readonly #options: SandkastenSandboxOptions;
  #session: Session | undefined;

  constructor(options: SandkastenSandboxOptions) {
    const { workingDirectory = WORKSPACE, id = crypto.randomUUID() } = options;
    const processes = new ExecProcessManager(() => this.session);
    super({ ...options, workingDirectory, name: "SandkastenSandbox", processes });
    this.id = id;
    this.#options = options;
  }

  /** The session, once the sandbox has started. */
  get session(): Session {
    if (this.#session === undefined) throw new SandboxNotReadyError(this.id);
    return this.#session;
  }

  override async start(): Promise<SandboxStartResult> {
    const session = await this.#acquire();
    if (session.status === "paused") await session.resume();
    this.#session = session;
    return { outcome: session.created ? "created" : "connected" };
  }

  /**
   * Copies the sandbox's files to the checkpoint, which the next sandbox with the same
   * `checkpointName` starts from.
   */
  override async snapshot(): Promise<void> {
    const { client, checkpointName = this.id } = this.#options;
    await client.snapshots.create(this.session, { id: checkpointName });
  }

  /** Another sandbox with the same settings, which starts on first use. */
  clone(options: SandboxCloneOptions = {}): SandkastenSandbox {
    const { env, idleTimeoutMinutes, sandboxId: sessionId, ...overrides } = options;
    const { id: _own, sessionId: _session, create, ...settings } = this.#options;
    return new SandkastenSandbox({
      ...settings,
      ...overrides,
      ...(sessionId !== undefined && { sessionId }),
      create: {
        ...create,
        ...(env !== undefined && { env: { ...create?.env, ...env } }),
        ...(idleTimeoutMinutes !== undefined && { ttlSeconds: Math.ceil(idleTimeoutMinutes * 60) }),
      },
    });
  }

  /** Pauses the sandbox: files and processes stay until the next `start`. */
  override async stop(): Promise<void> {
    await this.#session?.pause();
  }

  override async destroy(): Promise<void> {
    await this.#session?.destroy();
    this.#session = undefined;
  }

  async #acquire(): Promise<Session> {
    const { client, create, sessionId, checkpointName, seedCheckpointName } = this.#options;
    if (sessionId !== undefined) return await client.getSession(sessionId);
    const asked = { ...create, key: `user:${this.id}:mastra` };
    for (const name of [checkpointName, seedCheckpointName])
      if (name !== undefined && (await client.snapshots.get(name)) !== undefined)
        // A snapshot has an image, which the settings must not replace.
        return await client.snapshots.restore(name, { ...asked, image: undefined });
    return await client.createSession(asked);
  }

  override async writeFiles(
    files: SandboxFileInput[],
    { abortSignal: signal }: WriteFilesOptions = {},
  ): Promise<void> {
    await this.ensureRunning();
    for (const { path, content, mode } of files)
      await this.session.files.write(path, content, { mode, signal });
  }

  override getInstructions(): string {
    return `Commands run in a Linux sandbox, each in a fresh shell in ${this.workingDirectory}. Files below /workspace and /tmp stay.`;
  }

  override getInfo(): SandboxInfo {
    const { id, name, provider, status } = this;
    const createdAt = new Date(this.#session?.createdAt ?? Date.now());
    return { id, name, provider, status, createdAt };
  }
}
