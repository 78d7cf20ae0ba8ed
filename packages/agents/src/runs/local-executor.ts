/** Runs agents in this process: from the request through the tool loop to the stored result. */
import { renderPrompt } from "../prompts/render-prompt.ts";
import type { EventLog } from "../store/event-log.ts";
import type { RunEnd, RunStore, StoredRun } from "../store/run-store.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { AgentExecutor, AgentRunRequest, AgentRunResult } from "./agent-executor.ts";
import { prepareRun } from "./prepare-run.ts";
import type { ParentRun, PreparationOptions, PreparedRun } from "./prepare-run.ts";
import { RunClock } from "./run-clock.ts";
import { runLoop } from "./run-agent.ts";
import type { LoopOptions, LoopResult } from "./run-agent.ts";
import { openTools } from "./run-tools.ts";
import type { RunToolsOptions } from "./run-tools.ts";
import { inSpan } from "../telemetry/spans.ts";
import { Slots } from "./slots.ts";

export interface LocalExecutorOptions extends PreparationOptions, RunToolsOptions {
  readonly runs: RunStore;
  readonly events: EventLog;
  readonly processId: string;
  readonly loop: LoopOptions;
  readonly maxConcurrentRuns?: number | undefined;
  readonly maxQueuedRuns?: number | undefined;
}

/** An accepted run. */
export interface StartedRun {
  readonly runId: string;
  /** Never rejects: the stored run has the outcome. */
  readonly ended: Promise<void>;
}

const DEFAULT_MAX_CONCURRENT = 64;
const DEFAULT_MAX_QUEUED = 1_000;
export class LocalExecutor implements AgentExecutor {
  readonly #options: LocalExecutorOptions;
  readonly #slots: Slots;
  readonly #active = new Map<string, AbortController>();
  readonly #ending = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(options: LocalExecutorOptions) {
    this.#options = options;
    this.#slots = new Slots(
      options.maxConcurrentRuns ?? DEFAULT_MAX_CONCURRENT,
      options.maxQueuedRuns ?? DEFAULT_MAX_QUEUED,
    );
  }

  has(agentName: string): boolean {
    const entry = this.#options.catalogue.find(agentName);
    return entry !== undefined && "definition" in entry;
  }

  async execute(request: AgentRunRequest): Promise<AgentRunResult> {
    return await this.#execute(request, undefined);
  }

  /** Accepts a run and returns at once. Throws AgentRunError if it cannot start. */
  start(request: AgentRunRequest): StartedRun {
    const run = this.#prepare(request, undefined);
    if (this.#slots.isFull)
      throw new AgentRunError(
        "TOO_MANY_RUNS",
        "The queue of runs is full. Try again when some runs have ended.",
      );
    this.#create(run);
    return { runId: run.runId, ended: this.#track(this.#runInTurn(run)) };
  }

  async #runInTurn(run: PreparedRun): Promise<void> {
    let hasBegun = false;
    try {
      await this.#slots.use(async () => {
        hasBegun = true;
        return await this.#run(run);
      }, run.stop.signal);
    } catch (error) {
      // A started run has reported its own end, unless that could not be stored.
      if (!hasBegun) this.#end(run, this.#failureOf(run, error));
      else if (!(error instanceof AgentRunError))
        this.#options.log.error({ err: error, run_id: run.runId }, "a run's end was not stored");
    }
  }

  /** Cancels a run of this process. False if there is none, or it has ended. */
  cancel(runId: string): boolean {
    const stop = this.#active.get(runId);
    stop?.abort(new AgentRunError("CANCELLED", "The run was cancelled."));
    return stop !== undefined;
  }

  /** Stops working on runs that another process has ended because it considered this one dead. */
  dropLostRuns(): void {
    const { runs, processId } = this.#options;
    for (const [runId, stop] of this.#active)
      if (!runs.isUnfinished(runId, processId)) stop.abort(lostRun());
  }

  /** Cancels all runs and waits until their sandboxes are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const error = new AgentRunError("CANCELLED", "The agent service was stopped.");
    for (const stop of this.#active.values()) stop.abort(error);
    await Promise.allSettled(this.#ending);
  }

  async #execute(
    request: AgentRunRequest,
    parent: ParentRun | undefined,
    onStarted?: (runId: string) => void,
  ): Promise<AgentRunResult> {
    const finished = this.finished(request.runId);
    if (finished !== undefined) return finished;
    const run = this.#prepare(request, parent);
    this.#create(run);
    onStarted?.(run.runId);
    return await this.#track(this.#run(run));
  }

  #track<Result>(work: Promise<Result>): Promise<Result> {
    const settled = work.then(
      () => undefined,
      () => undefined,
    );
    this.#ending.add(settled);
    void settled.then(() => this.#ending.delete(settled));
    return work;
  }

  finished(runId: string | undefined): AgentRunResult | undefined {
    const run = runId === undefined ? undefined : this.#options.runs.get(runId);
    if (run?.status !== "succeeded") return undefined;
    const { text = "", output, steps, usage } = run;
    return { runId: run.runId, text, output, steps, usage };
  }

  #prepare(request: AgentRunRequest, parent: ParentRun | undefined): PreparedRun {
    if (this.#isClosed) throw new AgentRunError("CANCELLED", "The agent service is stopping.");
    return prepareRun(request, parent, this.#options);
  }

  #create(run: PreparedRun): void {
    const { runs, processId } = this.#options;
    const { runId, definition, modelName, request, parent } = run;
    const isNew = runs.create({
      runId,
      agentName: definition.name,
      model: modelName,
      task: request.task,
      input: request.input,
      workflowRunId: request.workflow?.runId,
      workflowStepId: request.workflow?.stepId,
      parentRunId: parent?.runId,
      processId,
    });
    if (!isNew)
      throw new AgentRunError("RUN_EXISTS", `There is a run ${runId} already; use another id.`);
    this.#active.set(runId, run.stop);
  }

  async #run(run: PreparedRun): Promise<AgentRunResult> {
    const { metrics } = this.#options;
    const startedMs = performance.now();
    const attributes = {
      "agent.name": run.definition.name,
      "agent.run_id": run.runId,
      "gen_ai.request.model": run.modelName,
    };
    let status = "failed";
    try {
      return await inSpan("AgentExecute", attributes, async (span) => {
        const result = await this.#runToEnd(run);
        status = "succeeded";
        span.setAttribute("agent.steps", result.steps);
        return result;
      });
    } catch (error) {
      if (error instanceof AgentRunError && error.code === "CANCELLED") status = "cancelled";
      throw error;
    } finally {
      metrics.runEnded(status, performance.now() - startedMs);
    }
  }

  async #runToEnd(run: PreparedRun): Promise<AgentRunResult> {
    const { runs, events, processId } = this.#options;
    const { runId, stop, request, definition, modelName } = run;
    const cancel = (): void =>
      stop.abort(
        new AgentRunError("CANCELLED", "The run was cancelled.", { cause: request.signal?.reason }),
      );
    request.signal?.addEventListener("abort", cancel, { once: true });
    if (request.signal?.aborted === true) cancel();
    let end: RunEnd;
    let failure: AgentRunError | undefined;
    try {
      if (!runs.start(runId, processId)) throw lostRun();
      events.append(runId, "run_started", { agent_name: definition.name, model: modelName });
      const { text, output } = await this.#work(run);
      end = { status: "succeeded", text, output };
    } catch (error) {
      end = this.#failureOf(run, error);
      failure = new AgentRunError(
        (end.error?.code ?? "INTERNAL_ERROR") as AgentRunError["code"],
        end.error?.message ?? "",
        { cause: error },
      );
    } finally {
      request.signal?.removeEventListener("abort", cancel);
    }
    this.#end(run, end);
    if (failure !== undefined) throw failure;
    const { text = "", output, steps, usage } = runs.get(runId) as StoredRun;
    return { runId, text, output, steps, usage };
  }

  #end(run: PreparedRun, end: RunEnd): void {
    const { runs, events, processId } = this.#options;
    this.#active.delete(run.runId);
    // Another process that considered this one dead has already reported the end.
    if (!runs.end(run.runId, processId, end)) return;
    events.append(run.runId, "run_ended", {
      status: end.status,
      text: end.text,
      output: end.output,
      error: end.error,
    });
  }

  #failureOf({ runId, stop }: PreparedRun, error: unknown): RunEnd {
    const known = [stop.signal.reason as unknown, error].find(
      (one) => one instanceof AgentRunError,
    );
    if (known === undefined)
      this.#options.log.error({ err: error, run_id: runId }, "an agent run failed unexpectedly");
    const { code, message } =
      known ??
      new AgentRunError(
        "INTERNAL_ERROR",
        `The agent service failed. Its log has the cause under the run ${runId}.`,
      );
    return { status: code === "CANCELLED" ? "cancelled" : "failed", error: { code, message } };
  }

  /** The part that needs sandboxes, programs or time; all of it is released when this settles. */
  async #work(run: PreparedRun): Promise<LoopResult> {
    const { runs, models, processId, log, loop } = this.#options;
    const { runId, definition, modelName, parent, stop, request, values } = run;
    const { signal } = stop;
    signal.throwIfAborted();
    const model = await models.get(modelName);
    const messages = await renderPrompt(definition, { task: request.task, values });
    using clock = new RunClock(definition.timeoutSeconds * 1000, () => stop.abort(late(run)));
    const depth = (parent?.depth ?? 0) + 1;
    await using opened = await openTools(run, this.#options, ({ onStarted, ...call }) =>
      this.#execute({ ...call, workflow: request.workflow }, { runId, depth }, onStarted),
    );
    return await runLoop({
      ...loop,
      definition,
      model,
      messages,
      tools: opened.tools,
      signal,
      clock,
      log: log.child({ run_id: runId }),
      emit: (type, data) => this.#emit(run, type, data),
      onProgress: (steps, usage) => runs.progress(runId, processId, steps, usage),
    });
  }

  /** A run whose events cannot be stored must end, but the process continues. */
  #emit({ runId, stop }: PreparedRun, type: string, data: object): void {
    const { runs, events, processId } = this.#options;
    try {
      const isOurs = runs.whileRunning(runId, processId, () => events.append(runId, type, data));
      if (!isOurs) stop.abort(lostRun());
    } catch (error) {
      this.#options.log.error({ err: error, run_id: runId }, "an event could not be stored");
      stop.abort(
        new AgentRunError("INTERNAL_ERROR", "The run's events could not be stored.", {
          cause: error,
        }),
      );
    }
  }
}

function lostRun(): AgentRunError {
  return new AgentRunError("PROCESS_ENDED", "Another process has taken this run over.");
}

function late({ definition }: PreparedRun): AgentRunError {
  return new AgentRunError(
    "TIMEOUT",
    `The run exceeded its timeout of ${definition.timeoutSeconds} seconds, not counting sandbox time. Raise timeout_seconds of ${definition.name}, or give it less to do.`,
  );
}
