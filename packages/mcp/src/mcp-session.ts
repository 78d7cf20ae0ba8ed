/** The state of one client: its sandboxes, the tools for them, and its subscriptions. */
import type { SandboxClient, Session } from "@sandkasten/sdk";
import { DEFAULT_POLICY, SandboxScope, sandboxTools } from "@sandkasten/tools";
import type { SandboxPolicy, SandboxSettings, SandboxTool } from "@sandkasten/tools";
import { FileChanges } from "./file-changes.ts";

export interface McpSessionOptions {
  readonly client: SandboxClient;
  readonly settings: SandboxSettings;
  readonly policy?: SandboxPolicy | undefined;
  /** How long sandboxes outlive a server that died. */
  readonly leaseSeconds?: number | undefined;
  /** Called with what could not be cleaned up. */
  readonly onFailure: (message: string, error: unknown) => void;
}

const DEFAULT_LEASE_SECONDS = 60;

export class McpSession implements AsyncDisposable {
  readonly tools: ReadonlyMap<string, SandboxTool>;
  readonly changes: FileChanges;
  readonly #scope: SandboxScope;
  readonly #onFailure: McpSessionOptions["onFailure"];
  #closing: Promise<void> | undefined;

  /**
   * SECURITY: `id` separates one client from the sandboxes of another. Guarded by
   * mcp-attack.serial.test.ts.
   */
  constructor(id: string, options: McpSessionOptions) {
    const { client, settings, policy = DEFAULT_POLICY, onFailure } = options;
    this.#onFailure = onFailure;
    this.#scope = new SandboxScope({
      client,
      namespace: "agent",
      id,
      leaseSeconds: options.leaseSeconds ?? DEFAULT_LEASE_SECONDS,
      onCleanupFailure: (key, error) => onFailure(`failed to cleanup session ${key}`, error),
    });
    const tools = sandboxTools(settings, { client, agentScope: this.#scope, policy });
    this.tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.changes = new FileChanges(() => this.sandboxes(), onFailure);
  }

  /** The open sandboxes. */
  sandboxes(): readonly Session[] {
    return this.#scope.heldSessions().map(({ session }) => session);
  }

  /** Whether files can be accessed between calls. */
  get hasFiles(): boolean {
    return this.tools.has("sandbox_fs_read");
  }

  /** Destroys its sandboxes, once. Never rejects. */
  async close(): Promise<void> {
    this.#closing ??= (async () => {
      this.changes.stop();
      try {
        await this.#scope.close();
      } catch (error) {
        this.#onFailure(
          "could not destroy a client's sandboxes; they expire with their lease",
          error,
        );
      }
    })();
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
