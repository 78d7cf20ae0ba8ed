/** For Mastra (`@mastra/core`): a sandbox for its `Workspace`, with a process manager. */
import {
  MastraSandbox,
  type MastraSandboxOptions,
  type ProviderStatus,
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
  /** Sandboxes with the same id are one sandbox: letters, digits, `_`, `.` and `-`. Random when absent. */
  readonly id?: string;
  /** What a new sandbox is like. */
  readonly create?: Omit<CreateSessionOptions, "key" | "signal">;
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
  readonly #client: SandboxClient;
  readonly #create: CreateSessionOptions;
  #session: Session | undefined;

  constructor({ client, id, create = {}, ...options }: SandkastenSandboxOptions) {
    const { workingDirectory = WORKSPACE } = options;
    const processes = new ExecProcessManager(() => this.session);
    super({ ...options, workingDirectory, name: "SandkastenSandbox", processes });
    this.id = id ?? crypto.randomUUID();
    this.#client = client;
    this.#create = create;
  }

  /** The session, as soon as the sandbox has started. */
  get session(): Session {
    if (this.#session === undefined) throw new SandboxNotReadyError(this.id);
    return this.#session;
  }

  override async start(): Promise<SandboxStartResult> {
    const key = `user:${this.id}:mastra`;
    const session = await this.#client.createSession({ ...this.#create, key });
    if (session.status === "paused") await session.resume();
    this.#session = session;
    return { outcome: session.created ? "created" : "connected" };
  }

  /** Pauses it: files and processes stay until the next `start`. */
  override async stop(): Promise<void> {
    await this.#session?.pause();
  }

  override async destroy(): Promise<void> {
    await this.#session?.destroy();
    this.#session = undefined;
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
