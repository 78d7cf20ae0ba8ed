/**
 * Runs workflows: claims runs, executes them, and leaves them so that another process can continue.
 */
import { randomUUID } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type { SandboxClient } from "@sandkasten/sdk";
import type { AgentExecutor } from "../../runs/agent-executor.ts";
import { Slots } from "../../runs/slots.ts";
import type { EventLog } from "../../store/event-log.ts";
import { Evaluator } from "../expressions/evaluator.ts";
import type { Plan } from "../language/plan.ts";
import { Changes } from "./changes.ts";
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";
import { MAX_AGENTS_AT_ONCE, MAX_RUNS_AT_ONCE } from "./limits.ts";
import type { Outcome } from "./run-execution.ts";
import { RunExecution } from "./run-execution.ts";
import type { RunJournal } from "./run-journal.ts";
import type { RunRecord } from "./run-records.ts";
import { RunSandboxes } from "./run-sandboxes.ts";
import type { NewRun, Processes } from "./run-store.ts";
import { RunStore } from "./run-store.ts";
import { RunStop } from "./stops.ts";
import { StoredPlans } from "./stored-plans.ts";

export interface WorkflowEngineOptions {
  readonly database: DatabaseSync;
  readonly events: EventLog;
  readonly executor: Pick<AgentExecutor, "execute" | "finished">;
  readonly client: SandboxClient;
  /** How long a sandbox outlives the process that created it. */
  readonly leaseSeconds?: number | undefined;
  readonly processes: Processes;
  readonly log: EngineLog;
  readonly clock?: Clock;
  readonly evaluator?: Pick<Evaluator, "evaluate">;
  readonly random?: () => number;
  /** How many runs this process works on at once, not counting those that wait for an approval. */
  readonly maxRuns?: number;
  /**
   * Only takes runs that it was asked to start, cancel or resume. Default: any run without a
   * process.
   */
  readonly onlyOwnRuns?: boolean | undefined;
  /** How long ended runs are kept; forever if absent. */
  readonly retentionDays?: number | undefined;
  /** How many agents of all runs work at once; further steps wait for their turn. */
  readonly maxAgents?: number;
  /** How often to poll for what other processes have left or requested. */
  readonly pollIntervalMs?: number;
}

export interface EngineLog {
  warn(message: string): void;
  error(details: object, message: string): void;
}

const DEFAULT_POLL_INTERVAL_MS = 500;
const PRUNE_INTERVAL_MS = 60 * 60_000;
const DAY_MS = 24 * 60 * 60_000;
/** How long steps may continue when the process is told to stop. */
const SHUTDOWN_GRACE_MS = 5000;

/** An active run and its parts. */
interface RunInHand {
  readonly run: RunRecord;
  readonly plan: Plan;
  readonly journal: RunJournal;
  readonly sandboxes: RunSandboxes;
  readonly execution: RunExecution;
}

interface Active {
  readonly execution: RunExecution;
  readonly epoch: number;
  readonly done: Promise<void>;
}

export class WorkflowEngine implements AsyncDisposable {
  readonly store: RunStore;
  readonly #options: WorkflowEngineOptions;
  readonly #clock: Clock;
  readonly #evaluator: Pick<Evaluator, "evaluate">;
  readonly #ownEvaluator = new Evaluator();
  readonly #slots: Slots;
  readonly #plans = new StoredPlans();
  readonly #changes = new Changes();
  readonly #active = new Map<string, Active>();
  /** With `onlyOwnRuns`, the runs that this process was asked to start, cancel or resume. */
  readonly #own = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #pruneTimer: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(options: WorkflowEngineOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#evaluator = options.evaluator ?? this.#ownEvaluator;
    this.#slots = new Slots(options.maxAgents ?? MAX_AGENTS_AT_ONCE, Number.POSITIVE_INFINITY);
    this.store = new RunStore(options.database, options.events, options.processes, this.#clock);
    // Other processes may have taken runs while this one was stalled.
    options.processes.onStall(() => this.#poll());
  }

  /** Starts taking runs, including those that earlier processes left. */
  start(): void {
    if (this.#timer !== undefined || this.#isClosing) return;
    const intervalMs = this.#options.pollIntervalMs ?? DEFAULT_POLL_INTERVAL_MS;
    this.#timer = setInterval(() => this.#poll(), intervalMs);
    this.#pruneTimer = setInterval(() => this.#prune(), PRUNE_INTERVAL_MS).unref();
    this.#prune();
    this.#poll();
  }

  /** Creates a run, which starts as soon as a process has capacity for it. */
  submit(run: Omit<NewRun, "runId">): string {
    const runId = `wfr_${randomUUID()}`;
    this.#adopt(runId);
    this.store.create({ ...run, runId });
    this.#poll();
    return runId;
  }

  /** Throws RunConflict. The run ends a moment later. */
  cancel(runId: string): void {
    this.#adopt(runId);
    this.store.requestCancel(runId);
    this.#poll();
  }

  /** Throws RunConflict. */
  decide(
    runId: string,
    stepId: string | undefined,
    decision: { readonly approved: boolean; readonly comment?: string | undefined },
  ): void {
    this.store.decide(runId, stepId, decision);
    this.#poll();
  }

  /** Throws RunConflict. */
  resume(runId: string): void {
    // A run that a dead process left only needs a process that claims it.
    this.#adopt(runId);
    this.store.resume(runId);
    this.#poll();
  }

  /** Resolves when something about a run may have changed. */
  async nextChange(signal: AbortSignal): Promise<void> {
    await this.#changes.next(signal);
  }

  /**
   * Starts nothing new, gives running steps a moment to end, and leaves the runs to the next
   * process. Sandboxes stay, so that the run can continue in them.
   */
  async close({ graceMs = SHUTDOWN_GRACE_MS }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    clearInterval(this.#pruneTimer);
    const active = [...this.#active.values()];
    for (const { execution } of active) execution.drain();
    const all = Promise.all(active.map(({ done }) => done));
    const grace = setTimeout(() => {
      for (const { execution } of active) execution.stop();
    }, graceMs);
    await all;
    clearTimeout(grace);
    await this.#ownEvaluator[Symbol.asyncDispose]();
    this.#changes.notify();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #adopt(runId: string): void {
    if (this.#options.onlyOwnRuns === true) this.#own.add(runId);
  }

  #poll(): void {
    try {
      this.#check();
      if (!this.#isClosing && this.#timer !== undefined) this.#take();
    } catch (error) {
      // If the database is busy now, the next turn tries again.
      this.#options.log.error({ err: error }, "workflow runs could not be checked");
    }
    this.#changes.notify();
  }

  /** Stops runs that were cancelled or that another process has. */
  #check(): void {
    for (const [runId, { execution, epoch }] of this.#active) {
      const stop = this.store.stopFor(runId, epoch);
      if (stop === "cancelled") execution.cancel();
      if (stop === "lost") execution.lose();
    }
  }

  #prune(): void {
    const { retentionDays, onlyOwnRuns = false, log } = this.#options;
    if (retentionDays === undefined || onlyOwnRuns) return;
    try {
      this.store.prune(new Date(this.#clock.nowMs() - retentionDays * DAY_MS));
    } catch (error) {
      log.error({ err: error }, "old workflow runs could not be removed");
    }
  }

  #take(): void {
    const room = (this.#options.maxRuns ?? MAX_RUNS_AT_ONCE) - this.store.countWorking();
    const isWanted = (runId: string): boolean =>
      this.#options.onlyOwnRuns !== true || this.#own.has(runId);
    for (const run of this.store.claim(room, (runId) => this.#active.has(runId), isWanted))
      this.#begin(run);
  }

  #begin(run: RunRecord): void {
    const journal = this.store.journal(run);
    const plan = this.#plans.get(run);
    if (typeof plan === "string") {
      this.#guarded(run, () =>
        journal.runEnded({ status: "failed", error: { code: "INVALID_WORKFLOW", message: plan } }),
      );
      return;
    }
    const { client, log, leaseSeconds } = this.#options;
    const warn = (message: string): void => log.warn(message);
    const sandboxes = new RunSandboxes({ client, run, leaseSeconds, warn });
    const execution = new RunExecution(
      {
        run,
        journal,
        executor: this.#options.executor,
        slots: this.#slots,
        evaluator: this.#evaluator,
        sandboxes,
        clock: this.#clock,
        random: this.#options.random ?? Math.random,
        decisionFor: (path) => this.store.decision(run.runId, path),
        nextChange: async (signal) => await this.#changes.next(signal),
        warn,
      },
      plan,
      this.store.steps(run.runId),
    );
    const done = this.#work({ run, plan, journal, sandboxes, execution });
    this.#active.set(run.runId, { execution, epoch: run.epoch, done });
  }

  async #work(inHand: RunInHand): Promise<void> {
    const { run, sandboxes, execution } = inHand;
    // Lets the caller register the execution before it starts.
    await Promise.resolve();
    try {
      let outcome: Outcome;
      try {
        outcome = await execution.run();
      } catch (error) {
        this.#options.log.error({ err: error, run_id: run.runId }, "a workflow run failed");
        const message = "The service failed while it worked on the run; its log has the cause.";
        const end = { status: "failed", error: { code: "INTERNAL_ERROR", message } } as const;
        outcome = { kind: "ended", end };
      }
      await this.#settle(inHand, outcome);
    } catch (error) {
      sandboxes.detach();
      if (!(error instanceof RunStop))
        this.#options.log.error({ err: error, run_id: run.runId }, "a workflow run was dropped");
    } finally {
      this.#active.delete(run.runId);
      this.#changes.notify();
    }
  }

  async #settle({ run, plan, journal, sandboxes }: RunInHand, outcome: Outcome): Promise<void> {
    // This process must not clean up a run that another one works on.
    if (outcome.kind !== "left") journal.confirm();
    switch (outcome.kind) {
      case "ended": {
        // Recorded last: when a run is reported as ended, its sandboxes are gone.
        const isClean = outcome.end.status === "succeeded" && sandboxes.isUnused(run);
        if (isClean) sandboxes.detach();
        else await sandboxes.close(outcome.end.status === "cancelled" ? 0 : plan.retainMs);
        journal.runEnded(outcome.end);
        return;
      }
      case "attention":
        await sandboxes.keepForPerson();
        journal.needsAttention(outcome.reason, sandboxes.remembered);
        return;
      case "left":
        sandboxes.detach();
        if (outcome.because === "shutdown") journal.release();
        return;
    }
  }

  #guarded(run: RunRecord, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof RunStop))
        this.#options.log.error({ err: error, run_id: run.runId }, "a workflow run was dropped");
    }
  }
}
