/** The OpenAI Agents SDK's interface for sandbox providers. */
import {
  isNoopSnapshotSpec,
  type Manifest,
  normalizeSandboxClientCreateArgs,
  type SandboxClient as AgentsSandboxClient,
  type SandboxClientCreateArgs,
  SandboxUnsupportedFeatureError,
} from "@openai/agents-core/sandbox";
import { deserializeManifest, serializeManifestRecord } from "@openai/agents-core/sandbox/internal";
import type { CreateSessionOptions, SandboxClient } from "@sandkasten/sdk";
import { OpenAiSandboxSession, type OpenAiSandboxState } from "./openai-sandbox-session.ts";

/** What a new sandbox is like. */
export type OpenAiSandboxOptions = Record<string, unknown> & {
  readonly image?: string;
  readonly ttlSeconds?: number;
  readonly limits?: CreateSessionOptions["limits"];
  readonly metadata?: CreateSessionOptions["metadata"];
};

/** For the `sandbox.client` of a run. The SDK creates a sandbox for a run, and destroys it at its end. */
export class OpenAiSandboxClient implements AgentsSandboxClient<
  OpenAiSandboxOptions,
  OpenAiSandboxState
> {
  readonly backendId = "sandkasten";
  readonly #client: SandboxClient;
  readonly #defaults: OpenAiSandboxOptions;

  constructor(client: SandboxClient, defaults: OpenAiSandboxOptions = {}) {
    this.#client = client;
    this.#defaults = defaults;
  }

  async create(
    args?: SandboxClientCreateArgs<OpenAiSandboxOptions> | Manifest,
    manifestOptions?: OpenAiSandboxOptions,
  ): Promise<OpenAiSandboxSession> {
    const { manifest, options, snapshot } = normalizeSandboxClientCreateArgs(args, manifestOptions);
    if (snapshot !== undefined && !isNoopSnapshotSpec(snapshot))
      throw new SandboxUnsupportedFeatureError(
        "Sandkasten has no snapshots. Leave snapshot out; persistWorkspace() gives an archive of the files.",
      );
    const environment = await manifest.resolveEnvironment();
    const { image, ttlSeconds, limits, metadata } = { ...this.#defaults, ...options };
    const asked = { image, ttlSeconds, limits, metadata, env: environment };
    const session = await this.#client.createSession(asked);
    try {
      const state = { manifest, environment, sessionId: session.id, seen: {} };
      const created = new OpenAiSandboxSession(session, state);
      await created.applyManifest(manifest);
      return created;
    } catch (error) {
      await session.destroy();
      throw error;
    }
  }

  async resume(state: OpenAiSandboxState): Promise<OpenAiSandboxSession> {
    return new OpenAiSandboxSession(await this.#client.getSession(state.sessionId), state);
  }

  async delete({ sessionId }: OpenAiSandboxState): Promise<void> {
    await (await this.#client.getSession(sessionId)).destroy();
  }

  async serializeSessionState(state: OpenAiSandboxState): Promise<Record<string, unknown>> {
    const { manifest, sessionId, seen } = state;
    return { manifest: serializeManifestRecord(manifest), sessionId, seen };
  }

  async deserializeSessionState(state: Record<string, unknown>): Promise<OpenAiSandboxState> {
    const { manifest, sessionId, seen } = state;
    return {
      manifest: deserializeManifest(manifest as Record<string, unknown> | undefined),
      sessionId: String(sessionId),
      seen: { ...(seen as OpenAiSandboxState["seen"] | undefined) },
    };
  }
}
