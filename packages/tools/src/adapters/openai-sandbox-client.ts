/** The OpenAI Agents SDK's interface for sandbox providers. */
import {
  type Manifest,
  normalizeSandboxClientCreateArgs,
  type SandboxClient as AgentsSandboxClient,
  type SandboxClientCreateArgs,
  type SandboxClientResumeOptions,
  SandboxSnapshotError,
  type Snapshot,
  type SnapshotSpec,
} from "@openai/agents-core/sandbox";
import { deserializeManifest, serializeManifestRecord } from "@openai/agents-core/sandbox/internal";
import type { CreateSessionOptions, SandboxClient } from "@sandkasten/sdk";
import { unlessEnded } from "./active-session.ts";
import { knownSpec, restoreSnapshot, takeSnapshot } from "./openai-snapshots.ts";
import { OpenAiSandboxSession, type OpenAiSandboxState } from "./openai-sandbox-session.ts";

/** Options of a new sandbox. */
export type OpenAiSandboxOptions = Record<string, unknown> & {
  readonly image?: string;
  readonly ttlSeconds?: number;
  readonly limits?: CreateSessionOptions["limits"];
  readonly metadata?: CreateSessionOptions["metadata"];
  readonly profile?: CreateSessionOptions["profile"];
  /**
   * Where to keep the files of a sandbox with a saved state: on the daemon, or in a store. Nowhere
   * by default.
   */
  readonly snapshot?: SnapshotSpec;
};

/**
 * For the `sandbox.client` of a run. The SDK creates a sandbox for a run, and destroys it at its
 * end.
 */
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
    const chosen = { ...this.#defaults, ...options };
    const snapshotSpec = knownSpec(snapshot ?? chosen.snapshot);
    const environment = await manifest.resolveEnvironment();
    const asked = sessionOptions(chosen);
    const session = await this.#client.createSession({ ...asked, env: environment });
    try {
      const state = {
        manifest,
        environment,
        sessionId: session.id,
        seen: {},
        options: asked,
        snapshotSpec,
      };
      const created = new OpenAiSandboxSession(session, state);
      await created.applyManifest(manifest);
      return created;
    } catch (error) {
      await session.destroy();
      throw error;
    }
  }

  /** The sandbox of the state or, if it has ended, a new one from its snapshot. */
  async resume(
    state: OpenAiSandboxState,
    { clientOptions }: SandboxClientResumeOptions<OpenAiSandboxOptions> = {},
  ): Promise<OpenAiSandboxSession> {
    const { sessionId, manifest, snapshot } = state;
    const spec =
      state.snapshotSpec ?? knownSpec(clientOptions?.snapshot ?? this.#defaults.snapshot);
    const living = await unlessEnded(this.#client.getSession(sessionId));
    if (living !== undefined)
      return new OpenAiSandboxSession(living, { ...state, snapshotSpec: spec });
    if (snapshot === undefined || snapshot === null)
      throw new SandboxSnapshotError(
        `The sandbox ${sessionId} has ended, and no snapshot of it was kept. Set snapshot to keep one, or start without this state.`,
        {},
        "snapshot_not_restorable",
      );
    const environment = await manifest.resolveEnvironment();
    const restored = await restoreSnapshot(
      this.#client,
      snapshot,
      { ...state.options, env: environment },
      { root: manifest.root, spec },
    );
    const fresh = { environment, sessionId: restored.id, seen: {}, snapshotSpec: spec };
    return new OpenAiSandboxSession(restored, { ...state, ...fresh });
  }

  async delete({ sessionId }: OpenAiSandboxState): Promise<void> {
    await (await this.#client.getSession(sessionId)).destroy();
  }

  /** Without a snapshot, a sandbox that ends with its run leaves nothing. */
  canPersistOwnedSessionState({ snapshotSpec }: OpenAiSandboxState): boolean {
    return snapshotSpec !== undefined;
  }

  /** Takes a snapshot if one was requested. */
  async serializeSessionState(state: OpenAiSandboxState): Promise<Record<string, unknown>> {
    const { manifest, sessionId, seen, options, snapshotSpec } = state;
    if (snapshotSpec !== undefined)
      // The SDK reads it from the state.
      state.snapshot = await takeSnapshot(
        this.#client,
        await this.#client.getSession(sessionId),
        snapshotSpec,
        { root: manifest.root, before: state.snapshot },
      );
    const { snapshot } = state;
    return { manifest: serializeManifestRecord(manifest), sessionId, seen, options, snapshot };
  }

  async deserializeSessionState(state: Record<string, unknown>): Promise<OpenAiSandboxState> {
    const { manifest, sessionId, seen, options, snapshot } = state;
    return {
      manifest: deserializeManifest(manifest as Record<string, unknown> | undefined),
      sessionId: String(sessionId),
      seen: { ...(seen as OpenAiSandboxState["seen"] | undefined) },
      options: { ...(options as OpenAiSandboxState["options"] | undefined) },
      ...(snapshot !== undefined && { snapshot: snapshot as Snapshot | null }),
    };
  }
}

function sessionOptions(options: OpenAiSandboxOptions): OpenAiSandboxState["options"] {
  const { image, ttlSeconds, limits, metadata, profile } = options;
  return { image, ttlSeconds, limits, metadata, profile };
}
