/**
 * Cancels runs on request of other processes, fails those of dead processes, and deletes old ones.
 */
import type { Logger } from "pino";
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxScope } from "@sandkasten/tools";
import type { EventLog } from "../store/event-log.ts";
import type { ProcessRegistry } from "../store/process-registry.ts";
import type { RunStore } from "../store/run-store.ts";
import type { LocalExecutor } from "./local-executor.ts";
import { withDaemonTimeout } from "./daemon-timeout.ts";

export interface RunMaintenanceOptions {
  readonly processes: ProcessRegistry;
  readonly runs: RunStore;
  readonly events: EventLog;
  readonly executor: LocalExecutor;
  readonly client: SandboxClient;
  readonly log: Logger;
  /** How long ended runs are kept. */
  readonly retentionDays: number;
}

const INTERVAL_MS = 1_000;
const PRUNE_INTERVAL_MS = 60 * 60_000;
/** A hanging daemon must not keep the service from stopping. */
const CLEANUP_TIMEOUT_MS = 20_000;
const DAY_MS = 24 * 60 * 60_000;

export class RunMaintenance {
  readonly #options: RunMaintenanceOptions;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #closing = new Set<Promise<void>>();

  constructor(options: RunMaintenanceOptions) {
    this.#options = options;
    options.processes.onStall(() => options.executor.dropLostRuns());
  }

  start(): void {
    const every = (ms: number, work: () => void): void => {
      work();
      this.#timers.push(setInterval(work, ms).unref());
    };
    every(INTERVAL_MS, () => this.#attempt(() => this.#checkRuns()));
    every(PRUNE_INTERVAL_MS, () => this.#attempt(() => this.#prune()));
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.allSettled(this.#closing);
  }

  /** A database that is briefly busy or full must not end the process. */
  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#options.log.error({ err: error }, "maintenance of runs failed and will be retried");
    }
  }

  #checkRuns(): void {
    const { processes, runs, events, executor, log } = this.#options;
    for (const runId of runs.cancelRequests(processes.id)) executor.cancel(runId);
    const error = { code: "PROCESS_ENDED", message: "The process that ran it ended." };
    for (const runId of runs.failAbandoned(() => processes.alive(), error)) {
      events.append(runId, "run_ended", { status: "failed", error });
      log.warn({ run_id: runId }, "marked the run of a dead process as failed");
      this.#close(runId);
    }
  }

  #prune(): void {
    const { runs, retentionDays, log } = this.#options;
    const pruned = runs.prune(new Date(Date.now() - retentionDays * DAY_MS));
    if (pruned > 0) log.info({ pruned }, "old runs were removed");
  }

  /** The sandboxes would end with their lease; this is sooner. */
  #close(runId: string): void {
    const { client, log } = this.#options;
    const scope = new SandboxScope({ client, namespace: "agent", id: runId });
    const closing = withDaemonTimeout(CLEANUP_TIMEOUT_MS, scope.close()).catch((error: unknown) => {
      log.warn(
        { err: error, run_id: runId },
        "could not destroy the sandboxes of a dead run; they expire with their lease",
      );
    });
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }
}
