/** The sandbox that an agent in code mode works in: found or opened for each call, within its scope. */
import type { Session } from "@sandkasten/sdk";
import type { SandboxPolicy } from "../policy.ts";
import type { HeldSession } from "../scope/held-session.ts";
import { hasEnded, type OpenOptions, type SandboxScope } from "../scope/sandbox-scope.ts";
import type { SandboxToolContext } from "../tool-context.ts";
import { checkImage, mayUseNetwork } from "../what-is-allowed.ts";
import type { SandboxSettings } from "../settings/parse-settings.ts";
import { daemonLimits } from "../settings/daemon-limits.ts";
import { imageToAskFor } from "../settings/runtimes.ts";
import { ToolError } from "../tool-error.ts";

export class CodeSandbox {
  readonly settings: SandboxSettings;
  readonly policy: SandboxPolicy;
  readonly onSandboxTime: SandboxToolContext["onSandboxTime"];
  readonly #scope: SandboxScope;
  readonly #name: string;

  constructor(settings: SandboxSettings, policy: SandboxPolicy, context: SandboxToolContext) {
    this.settings = settings;
    this.policy = policy;
    this.onSandboxTime = context.onSandboxTime;
    const isIsolated = settings.session === "isolated";
    this.#scope = isIsolated ? context.agentScope : (context.workflowScope ?? context.agentScope);
    this.#name = isIsolated ? "default" : settings.session;
  }

  /** Creates or resumes a session of the scope. */
  open(
    asked: { readonly name?: string | undefined; readonly image?: string | undefined },
    signal: AbortSignal | undefined,
  ): Promise<HeldSession> {
    return this.#scope.open({ ...this.#options(asked), signal });
  }

  /** Does something in the session of an id, or in the run's own. */
  async use<Result>(
    id: string | undefined,
    signal: AbortSignal | undefined,
    work: (session: Session, held: HeldSession) => Promise<Result>,
  ): Promise<Result> {
    const held =
      id === undefined
        ? (this.#scope.held(this.#name) ?? (await this.open({}, signal)))
        : await this.#scope.find(id, this.#idleTimeoutSeconds);
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

  forget(held: HeldSession): void {
    this.#scope.forget(held);
  }

  get #idleTimeoutSeconds(): number {
    return this.settings.idleTimeoutSeconds ?? this.policy.idleTimeoutSeconds;
  }

  #options(asked: {
    readonly name?: string | undefined;
    readonly image?: string | undefined;
  }): OpenOptions {
    const { settings, policy } = this;
    const image = asked.image === undefined ? settings.image : imageToAskFor(asked.image);
    checkImage(image, policy);
    return {
      name: asked.name ?? this.#name,
      isImageGiven: settings.isImageGiven || asked.image !== undefined,
      idleTimeoutSeconds: this.#idleTimeoutSeconds,
      maxLifetimeSeconds: policy.maxLifetimeSeconds,
      create: {
        image,
        network: mayUseNetwork(settings, policy) ? true : undefined,
        profile: settings.profile,
        limits: daemonLimits(settings),
      },
    };
  }
}
