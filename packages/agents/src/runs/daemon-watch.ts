/**
 * Notices a daemon that hangs while tool calls wait for it; an open connection does not show that.
 */
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";

export interface DaemonWatchOptions {
  /** How long to wait between two health checks. */
  readonly intervalMs?: number | undefined;
  /** How long the daemon may take to answer one. */
  readonly deadlineMs?: number | undefined;
}

const INTERVAL_MS = 5_000;
const DEADLINE_MS = 10_000;
/** More than one, because a timer also expires when this process itself was stalled. */
const MAX_FAILURES = 3;

export class DaemonWatch {
  readonly #client: SandboxClient;
  readonly #intervalMs: number;
  readonly #deadlineMs: number;
  readonly #waiting = new Set<() => void>();
  #isWatching = false;
  #failures = 0;

  constructor(client: SandboxClient, options: DaemonWatchOptions = {}) {
    this.#client = client;
    this.#intervalMs = options.intervalMs ?? INTERVAL_MS;
    this.#deadlineMs = options.deadlineMs ?? DEADLINE_MS;
  }

  /** Whether the last health checks all failed. */
  get isSilent(): boolean {
    return this.#failures >= MAX_FAILURES;
  }

  /** Does work that waits for the daemon, and reports if the daemon stops responding meanwhile. */
  async during<Result>(work: () => Promise<Result>, onSilence: () => void): Promise<Result> {
    // One entry for each caller, even if two pass the same function.
    const report = (): void => onSilence();
    this.#waiting.add(report);
    void this.#watch();
    try {
      return await work();
    } finally {
      this.#waiting.delete(report);
    }
  }

  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#failures = 0;
    while (await this.#isNeededAfter(this.#intervalMs)) {
      this.#failures = (await this.#daemonResponds()) ? 0 : this.#failures + 1;
      if (this.isSilent) for (const report of this.#waiting) report();
    }
    this.#isWatching = false;
  }

  async #isNeededAfter(ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>();
    setTimeout(resolve, ms).unref();
    await promise;
    return this.#waiting.size > 0;
  }

  async #daemonResponds(): Promise<boolean> {
    try {
      await this.#client.health({ signal: AbortSignal.timeout(this.#deadlineMs) });
      return true;
    } catch (error) {
      // An error response is a response, too.
      return error instanceof SandboxError && error.code !== "CONNECTION_FAILED";
    }
  }
}
