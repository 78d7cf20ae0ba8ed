/** Looks after the runs of all processes: cancels what others asked for, and buries the dead. */
import type { Logger } from "pino";
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxScope } from "@sandkasten/tools";
import type { EventLog } from "../store/event-log.ts";
import type { ProcessRegistry } from "../store/process-registry.ts";
import type { RunStore } from "../store/run-store.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { LocalExecutor } from "./local-executor.ts";

export interface ProcessWatchOptions {
  readonly processes: ProcessRegistry;
  readonly runs: RunStore;
  readonly events: EventLog;
  readonly executor: LocalExecutor;
  readonly client: SandboxClient;
  readonly log: Logger;
  readonly intervalMs?: number | undefined;
}

const INTERVAL_MS = 1_000;

export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new Set<Promise<void>>();

  constructor(options: ProcessWatchOptions) {
    this.#options = options;
    options.processes.onLost(() =>
      options.executor.cancelAll(
        new AgentRunError("PROCESS_ENDED", "The process that ran it did not answer for too long."),
      ),
    );
  }

  start(): void {
    this.look();
    this.#timer = setInterval(() => this.look(), this.#options.intervalMs ?? INTERVAL_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.allSettled(this.#closing);
  }

  look(): void {
    const { processes, runs, events, executor, log } = this.#options;
    try {
      for (const runId of runs.cancelRequests(processes.id)) executor.cancel(runId);
      const error = { code: "PROCESS_ENDED", message: "The process that ran it ended." };
      for (const { runId } of runs.failAbandoned(processes.alive(), error)) {
        events.append(runId, "run_ended", { status: "failed", error });
        log.warn({ run_id: runId }, "a run of a dead process was failed");
        this.#close(runId);
      }
    } catch (error) {
      log.error({ err: error }, "looking after runs failed; it is tried again");
    }
  }

  /** Sandboxes would end with their lease; this is sooner. */
  #close(runId: string): void {
    const { client, log } = this.#options;
    const scope = new SandboxScope({ client, namespace: "agent", id: runId });
    const closing = scope.close().catch((error: unknown) => {
      log.warn({ err: error, run_id: runId }, "sandboxes of a dead run are left to their lease");
    });
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }
}
