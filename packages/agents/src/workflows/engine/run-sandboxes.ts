/** The sandboxes that the steps of one run share, also across restarts of the service. */
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { SandboxScope } from "@sandkasten/tools";
import { withDaemonTimeout } from "../../runs/daemon-timeout.ts";
import type { RunRecord } from "./run-records.ts";

export interface RunSandboxesOptions {
  readonly client: SandboxClient;
  readonly run: RunRecord;
  readonly leaseSeconds?: number | undefined;
  readonly warn: (message: string) => void;
}

const GONE: ReadonlySet<string> = new Set(["expired", "crashed", "failed", "destroyed", "unknown"]);
/** How long sandboxes are kept for a run that waits for a person. */
const ATTENTION_SECONDS = 3600;
/** A daemon that does not respond must not keep a run from ending. */
const DAEMON_TIMEOUT_MS = 20_000;

export class RunSandboxes {
  readonly scope: SandboxScope;
  readonly #runId: string;
  readonly #client: SandboxClient;
  readonly #warn: (message: string) => void;
  /** Sessions that finished steps have used, by name. */
  readonly #used: Map<string, string>;

  constructor({ client, run, leaseSeconds, warn }: RunSandboxesOptions) {
    this.#runId = run.runId;
    this.#client = client;
    this.#warn = warn;
    this.#used = new Map(Object.entries(run.sandboxes));
    this.scope = new SandboxScope({
      client,
      namespace: "workflow",
      id: run.runId,
      leaseSeconds,
      onCleanupFailure: (key, error) =>
        warn(`Warning: failed to cleanup session ${key}: ${messageOf(error)}`),
    });
  }

  /** The sessions that steps have used so far. Called at the end of each agent step. */
  async used(): Promise<Readonly<Record<string, string>>> {
    for (const { name, info } of this.scope.heldSessions()) this.#used.set(name, info.id);
    // The sandbox existed when the step started, so the agent has closed it on purpose.
    for (const [name, id] of this.#used)
      if (this.scope.held(name) === undefined && (await this.#statusOf(id)) === "destroyed")
        this.#used.delete(name);
    return Object.fromEntries(this.#used);
  }

  /**
   * Why the next step must not run if a sandbox that finished steps have used is gone: a new one
   * would be empty, and the step would not know.
   */
  async lost(): Promise<string | undefined> {
    for (const [name, id] of this.#used) {
      const status = await this.#statusOf(id);
      if (status === undefined || !GONE.has(status)) continue;
      // Resuming the run means accepting the loss.
      this.#used.delete(name);
      return `The sandbox ${JSON.stringify(name)} (${id}) that finished steps have used is gone (${status}), and its files with it. Resume the run to continue with an empty sandbox, or cancel it.`;
    }
    return undefined;
  }

  /** The sessions that the next process needs to know. */
  get remembered(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#used);
  }

  /** Undefined if the daemon does not say; the agent will then report why. */
  async #statusOf(id: string): Promise<string | undefined> {
    try {
      const signal = AbortSignal.timeout(DAEMON_TIMEOUT_MS);
      const { status } = await this.#client.getSession(id, { signal });
      return status === "destroying" ? "destroyed" : status;
    } catch (error) {
      if (error instanceof SandboxError && error.code === "SESSION_NOT_FOUND") return "unknown";
      if (error instanceof SandboxError && error.code === "SESSION_EXPIRED") return "expired";
      this.#warn(`the state of sandbox ${id} is not known: ${messageOf(error)}`);
      return undefined;
    }
  }

  /** Whether no step of any process can have opened one, so there is nothing to clean up. */
  isUnused({ epoch }: RunRecord): boolean {
    return epoch === 1 && this.#used.size === 0 && this.scope.heldSessions().length === 0;
  }

  /** Destroys them, or leaves them to expire after a while. */
  async close(retainMs: number): Promise<void> {
    try {
      const closing = this.scope.close({ retainSeconds: Math.ceil(retainMs / 1000) });
      await withDaemonTimeout(DAEMON_TIMEOUT_MS, closing);
    } catch (error) {
      // Their leases expire within minutes.
      this.#warn(
        `the sandboxes of workflow run ${this.#runId} could not be cleaned up: ${messageOf(error)}`,
      );
    }
  }

  /** Keeps them for a while without this process: the run waits for a person. */
  async keepForPerson(): Promise<void> {
    await this.close(ATTENTION_SECONDS * 1000);
  }

  detach(): void {
    this.scope.detach();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
