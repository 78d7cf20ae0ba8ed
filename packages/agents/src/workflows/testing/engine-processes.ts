/** Starts processes with engines on one database, kills them, and reports what they did. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { createInterface } from "node:readline";
import { openDatabase } from "../../store/database.ts";
import { EventLog } from "../../store/event-log.ts";
import { ProcessRegistry } from "../../store/process-registry.ts";
import { systemClock } from "../engine/clock.ts";
import type { RunRecord } from "../engine/run-records.ts";
import { hasEnded } from "../engine/run-records.ts";
import { RunStore } from "../engine/run-store.ts";
import { ALL_MIGRATIONS } from "./engine-fixture.ts";

export interface EngineProcess {
  readonly id: string;
  readonly child: ChildProcess;
}

export class EngineProcesses implements AsyncDisposable {
  readonly store: RunStore;
  readonly events: EventLog;
  readonly #directory = mkdtempSync(join(tmpdir(), "sandkasten-engines-"));
  readonly #deadAfterMs: number;
  readonly #database: DatabaseSync;
  readonly #children = new Set<ChildProcess>();
  #runs = 0;

  constructor({ deadAfterMs = 1000 }: { readonly deadAfterMs?: number } = {}) {
    this.#deadAfterMs = deadAfterMs;
    this.#database = openDatabase(join(this.#directory, "agents.db"), ALL_MIGRATIONS);
    this.events = new EventLog(this.#database);
    const processes = new ProcessRegistry(this.#database, { deadAfterMs });
    this.store = new RunStore(this.#database, this.events, processes, systemClock);
    // Only the processes that are started here work on runs.
    processes.stop();
  }

  /** Blocks everything that can be held, until `release`. */
  hold(): void {
    writeFileSync(join(this.#directory, "hold"), "");
  }

  release(): void {
    rmSync(join(this.#directory, "hold"), { force: true });
  }

  /** What the agents and expressions of a run have done in all processes, in order. */
  effects(runId: string): string[] {
    const path = join(this.#directory, "effects");
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
    return lines
      .filter((line) => line.split(" ")[1] === runId)
      .map((line) => line.replace(` ${runId}`, "").trim());
  }

  submit(source: string, input: unknown = null): string {
    const runId = `wfr_${++this.#runs}`;
    this.store.create({ runId, workflowId: "w", file: "w.yaml", source, input });
    return runId;
  }

  /** `aheadMs`: as if it were started that much later. */
  async start({ aheadMs = 0 }: { readonly aheadMs?: number } = {}): Promise<EngineProcess> {
    const program = join(import.meta.dirname, "engine-process.ts");
    const args = [program, this.#directory, String(this.#deadAfterMs), String(aheadMs)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    this.#children.add(child);
    const [id] = (await once(createInterface(child.stdout), "line")) as [string];
    return { id, child };
  }

  async kill({ child }: EngineProcess, signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
    this.#children.delete(child);
  }

  /** The run once it meets the condition or has ended. */
  async until(
    runId: string,
    isWanted: (run: RunRecord) => boolean = () => false,
  ): Promise<RunRecord> {
    for (;;) {
      const run = this.store.get(runId);
      if (run === undefined) throw new Error("there is no such run");
      if (isWanted(run) || hasEnded(run.status)) return run;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  shown(runId: string): string[] {
    return this.store.steps(runId).map(({ path, status }) => `${path} ${status}`);
  }

  /** How often each execution of a step was started. */
  begun(runId: string): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { type, data } of this.events.read(runId, 0, 10_000)) {
      if (type !== "step_started") continue;
      const { path } = data as { readonly path: string };
      counts[path] = (counts[path] ?? 0) + 1;
    }
    return counts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      const exited = once(child, "exit");
      if (child.kill("SIGKILL") && child.exitCode === null) await exited;
    }
    this.#database.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
