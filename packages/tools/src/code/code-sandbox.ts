/** The sandbox of an agent in code mode: found or opened for each call, within its scope. */
import type { Session } from "@sandkasten/sdk";
import type { SandboxPolicy } from "../policy.ts";
import type { OutputCaps } from "../run-command.ts";
import type { HeldSession } from "../scope/held-session.ts";
import { hasEnded, type OpenOptions, type SandboxScope } from "../scope/sandbox-scope.ts";
import type { SandboxToolContext } from "../tool-context.ts";
import { createOptions, notCreated } from "../create-options.ts";
import { installPackages } from "../packages.ts";
import type { SandboxSettings } from "../settings/parse-settings.ts";
import { imageToAskFor } from "../settings/runtimes.ts";
import { ToolError } from "../tool-error.ts";
import { describeSpan, inSpan } from "../tracing.ts";

/** What a model can read at once without losing track. */
const STDOUT_BYTES = 32_768;
const STDERR_BYTES = 16_384;

/** What a call requests of the session. */
interface AskedSession {
  readonly name?: string | undefined;
  readonly image?: string | undefined;
}

export class CodeSandbox {
  readonly settings: SandboxSettings;
  readonly policy: SandboxPolicy;
  readonly onSandboxTime: SandboxToolContext["onSandboxTime"];
  /** Whether other agents of a workflow use the same sandboxes. */
  readonly isShared: boolean;
  readonly #scope: SandboxScope;
  readonly #name: string;
  /**
   * The session that this agent has opened itself; another agent of the workflow may have opened it
   * before.
   */
  #opened: HeldSession | undefined;

  constructor(settings: SandboxSettings, policy: SandboxPolicy, context: SandboxToolContext) {
    this.settings = settings;
    this.policy = policy;
    this.onSandboxTime = context.onSandboxTime;
    const isIsolated = settings.session === "isolated";
    this.isShared = !isIsolated && context.workflowScope !== undefined;
    this.#scope = isIsolated ? context.agentScope : (context.workflowScope ?? context.agentScope);
    this.#name = isIsolated ? "default" : settings.session;
  }

  /** Creates or resumes a session of the scope. */
  async open(asked: AskedSession, signal: AbortSignal | undefined): Promise<HeldSession> {
    const options = this.#options(asked);
    try {
      return await this.#scope.open({ ...options, signal });
    } catch (error) {
      throw notCreated(error, signal);
    }
  }

  /** Runs work in the session with an id, or in the run's own. */
  async use<Result>(
    id: string | undefined,
    signal: AbortSignal | undefined,
    work: (session: Session, held: HeldSession) => Promise<Result>,
  ): Promise<Result> {
    const held = await inSpan("sandbox.connect", {}, async () =>
      id === undefined ? await this.#own(signal) : await this.#scope.find(id, this.#lifeLimits),
    );
    describeSpan({
      "sandbox.image": held.session.image,
      "sandbox.session_id": held.session.id,
    });
    try {
      return await held.use((session) => work(session, held));
    } catch (error) {
      if (!hasEnded(error)) throw error;
      this.#scope.forget(held);
      throw new ToolError(
        "SANDBOX_NOT_FOUND",
        `The sandbox ${held.session.id} has ended, and its files are gone. Call sandbox_open for a new one.`,
        { cause: error },
      );
    }
  }

  /** The session with an id, or the run's own if it is open. */
  async find(id: string | undefined): Promise<HeldSession | undefined> {
    return id === undefined
      ? this.#scope.held(this.#name)
      : await this.#scope.find(id, this.#lifeLimits);
  }

  /** How much of a command's output a result holds. */
  get outputCaps(): OutputCaps {
    const { settings, policy } = this;
    return {
      stdoutBytes: Math.min(settings.maxStdoutBytes ?? STDOUT_BYTES, policy.maxStdoutBytes),
      stderrBytes: Math.min(settings.maxStderrBytes ?? STDERR_BYTES, policy.maxStderrBytes),
    };
  }

  get maxArtifactBytes(): number {
    const { settings, policy } = this;
    return Math.min(settings.maxArtifactBytes ?? policy.maxArtifactBytes, policy.maxArtifactBytes);
  }

  /** A timeout, capped at the administrator's limit. */
  allowedTimeoutMs(timeoutMs: number): number {
    return Math.min(timeoutMs, this.policy.maxTimeoutSeconds * 1000);
  }

  forget(held: HeldSession): void {
    this.#scope.forget(held);
  }

  /** The run's own session. Opened on first use, so that it matches this agent's settings. */
  async #own(signal: AbortSignal | undefined): Promise<HeldSession> {
    const held = this.#scope.held(this.#name);
    if (held !== undefined && held === this.#opened) return held;
    this.#opened = await this.open({}, signal);
    return this.#opened;
  }

  get #lifeLimits(): Pick<OpenOptions, "idleTimeoutSeconds" | "maxLifetimeSeconds"> {
    const { settings, policy } = this;
    return {
      idleTimeoutSeconds: settings.idleTimeoutSeconds ?? policy.idleTimeoutSeconds,
      maxLifetimeSeconds: policy.maxLifetimeSeconds,
    };
  }

  #options(asked: AskedSession): OpenOptions {
    const { settings, policy } = this;
    const image = asked.image === undefined ? settings.image : imageToAskFor(asked.image);
    return {
      name: asked.name ?? this.#name,
      isImageGiven: settings.isImageGiven || asked.image !== undefined,
      ...this.#lifeLimits,
      create: createOptions(settings, policy, image),
      prepare: (session) => installPackages(session, settings, policy, {}),
    };
  }
}
