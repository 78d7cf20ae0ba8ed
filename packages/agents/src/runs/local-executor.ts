/** Runs agents in this process: from the request through the tool loop to the stored result. */
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxScope, sandboxTools } from "@sandkasten/tools";
import type { FileStore, SandboxPolicy, SandboxTool } from "@sandkasten/tools";
import type { ModelRegistry, Variables } from "../models/model-registry.ts";
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { renderPrompt } from "../prompts/render-prompt.ts";
import type { EventLog } from "../store/event-log.ts";
import type { RunEnd, RunStore, StoredRun } from "../store/run-store.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { AgentExecutor, AgentRunRequest, AgentRunResult } from "./agent-executor.ts";
import { fromSandboxTool } from "./agent-tool.ts";
import type { AgentTool } from "./agent-tool.ts";
import { findAgent } from "./find-agent.ts";
import { connectMcp } from "./mcp-tools.ts";
import type { McpTools } from "./mcp-tools.ts";
import { RunClock } from "./run-clock.ts";
import { runLoop } from "./run-agent.ts";
import type { LoopOptions, LoopResult } from "./run-agent.ts";
import { Slots } from "./slots.ts";
import { MAX_DEPTH, subAgentTools } from "./sub-agent-tools.ts";

export interface LocalExecutorOptions {
  readonly catalogue: AgentCatalogue;
  readonly models: ModelRegistry;
  readonly runs: RunStore;
  readonly events: EventLog;
  readonly client: SandboxClient;
  readonly processId: string;
  readonly log: Logger;
  /** Where MCP servers start. */
  readonly dir: string;
  readonly env: Variables;
  readonly loop: LoopOptions;
  readonly defaultModel?: string | undefined;
  readonly policy?: SandboxPolicy | undefined;
  readonly fileStore?: FileStore | undefined;
  /** How long a sandbox outlives a process that died. */
  readonly leaseSeconds?: number | undefined;
  readonly maxConcurrentRuns?: number | undefined;
  readonly maxQueuedRuns?: number | undefined;
}

/** A run that was accepted. */
export interface StartedRun {
  readonly runId: string;
  /** Never rejects: the stored run has what became of it. */
  readonly ended: Promise<void>;
}

interface PreparedRun {
  readonly runId: string;
  readonly definition: AgentDefinition;
  readonly modelName: string;
  readonly request: AgentRunRequest;
  readonly parent: { readonly runId: string; readonly depth: number } | undefined;
  readonly values: Readonly<Record<string, unknown>>;
  readonly stop: AbortController;
}

const DEFAULT_MAX_CONCURRENT = 64;
const DEFAULT_MAX_QUEUED = 1_000;
/** A daemon that does not answer must not keep a run from ending; the lease ends its sandboxes. */
const CLEANUP_TIMEOUT_MS = 20_000;

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

  /** Accepts a run and returns at once. Throws AgentRunError for one that cannot start. */
  start(request: AgentRunRequest): StartedRun {
    const run = this.#prepare(request, undefined);
    if (this.#slots.isFull)
      throw new AgentRunError(
        "TOO_MANY_RUNS",
        "As many runs as allowed are waiting already. Try again when some have ended.",
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
      // What has begun has also told its end, unless it could not be stored.
      if (!hasBegun) this.#end(run, this.#failureOf(run, error));
      else if (!(error instanceof AgentRunError))
        this.#options.log.error({ err: error, run_id: run.runId }, "a run's end was not stored");
    }
  }

  /** Cancels a run of this process. False when it is none, or has ended. */
  cancel(runId: string): boolean {
    const stop = this.#active.get(runId);
    stop?.abort(new AgentRunError("CANCELLED", "The run was cancelled."));
    return stop !== undefined;
  }

  /** Ends the runs of this process; `reason` is what their errors say. */
  cancelAll(error: AgentRunError): void {
    for (const stop of this.#active.values()) stop.abort(error);
  }

  /** Cancels all runs and waits until their sandboxes are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.cancelAll(new AgentRunError("CANCELLED", "The agent service was stopped."));
    await Promise.allSettled(this.#ending);
  }

  async #execute(
    request: AgentRunRequest,
    parent: PreparedRun["parent"],
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

  #prepare(request: AgentRunRequest, parent: PreparedRun["parent"]): PreparedRun {
    const { catalogue, models, defaultModel } = this.#options;
    if (this.#isClosed) throw new AgentRunError("CANCELLED", "The agent service is stopping.");
    if (parent !== undefined && parent.depth > MAX_DEPTH)
      throw new AgentRunError(
        "MAX_STEPS_EXCEEDED",
        `Agents call agents more than ${MAX_DEPTH} levels deep. Look for a circle in their \`agents\`.`,
      );
    const definition = findAgent(catalogue, request.agentName);
    const modelName = definition.model ?? defaultModel;
    if (modelName === undefined)
      throw new AgentRunError(
        "MODEL_NOT_CONFIGURED",
        `The agent ${definition.name} names no model: add \`model:\` to ${definition.file}, or set SANDKASTEN_AGENTS_MODEL.`,
      );
    models.check(modelName);
    return {
      runId: request.runId ?? `run_${randomUUID().replaceAll("-", "")}`,
      definition,
      modelName,
      request,
      parent,
      values: inputValues(definition, request.input),
      stop: new AbortController(),
    };
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
    // Another process that took this one for dead has told the end already.
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

  /** What needs sandboxes, programs or time; all of it is gone when this settles. */
  async #work(run: PreparedRun): Promise<LoopResult> {
    const { runs, models, processId, log } = this.#options;
    const { runId, definition, stop, request, values } = run;
    const { signal } = stop;
    const clock = new RunClock(definition.timeoutSeconds * 1000, () =>
      stop.abort(
        new AgentRunError(
          "TIMEOUT",
          `The run took longer than the ${definition.timeoutSeconds} seconds that ${definition.name} may take, sandbox time not counted. Raise timeout_seconds, or give it less to do.`,
        ),
      ),
    );
    const scope = this.#scopeOf(runId);
    let mcp: McpTools | undefined;
    try {
      signal.throwIfAborted();
      const model = await models.get(run.modelName);
      const messages = await renderPrompt(definition, { task: request.task, values });
      mcp = await connectMcp(definition, {
        dir: this.#options.dir,
        env: this.#options.env,
        signal,
      });
      return await runLoop({
        ...this.#options.loop,
        definition,
        model,
        messages,
        tools: [...this.#tools(run, scope), ...mcp.tools],
        signal,
        clock,
        log: log.child({ run_id: runId }),
        emit: (type, data) => this.#emit(run, type, data),
        onProgress: (steps, usage) => runs.progress(runId, processId, steps, usage),
      });
    } finally {
      clock.stop();
      await mcp?.[Symbol.asyncDispose]();
      if (definition.sandbox !== undefined) await this.#cleanUp(scope, runId);
    }
  }

  /** A run whose events cannot be stored must end, but the process goes on. */
  #emit({ runId, stop }: PreparedRun, type: string, data: object): void {
    try {
      this.#options.events.append(runId, type, data);
    } catch (error) {
      this.#options.log.error({ err: error, run_id: runId }, "an event could not be stored");
      stop.abort(
        new AgentRunError("INTERNAL_ERROR", "The run's events could not be stored.", {
          cause: error,
        }),
      );
    }
  }

  #scopeOf(runId: string): SandboxScope {
    const { client, leaseSeconds, log } = this.#options;
    return new SandboxScope({
      client,
      namespace: "agent",
      id: runId,
      leaseSeconds,
      onCleanupFailure: (key, error) =>
        log.warn({ err: error, key }, `failed to cleanup session ${key}`),
    });
  }

  #tools(run: PreparedRun, scope: SandboxScope): AgentTool[] {
    const { catalogue, client, policy, fileStore } = this.#options;
    const { definition, request, runId, parent } = run;
    const tools = sandboxTools(definition.sandbox, {
      client,
      agentScope: scope,
      workflowScope: request.workflow?.scope,
      policy,
      fileStore,
    });
    refuseMissing(definition, tools);
    const depth = (parent?.depth ?? 0) + 1;
    const others = subAgentTools(
      definition,
      (name) => findAgent(catalogue, name),
      async ({ onStarted, ...call }) =>
        await this.#execute({ ...call, workflow: request.workflow }, { runId, depth }, onStarted),
    );
    return [...tools.map(fromSandboxTool), ...others];
  }

  /** Sandboxes are gone before the run's end is told. */
  async #cleanUp(scope: SandboxScope, runId: string): Promise<void> {
    const { log } = this.#options;
    const { promise, resolve } = Promise.withResolvers<"late">();
    const timer = setTimeout(() => resolve("late"), CLEANUP_TIMEOUT_MS);
    try {
      const outcome = await Promise.race([scope.close(), promise]);
      if (outcome === "late")
        log.warn({ run_id: runId }, "sandboxes of a run are left to their lease");
    } catch (error) {
      log.warn({ err: error, run_id: runId }, "sandboxes of a run are left to their lease");
    } finally {
      clearTimeout(timer);
    }
  }
}

function refuseMissing(
  { name, tools: named = [] }: AgentDefinition,
  has: readonly SandboxTool[],
): void {
  const missing = named
    .filter((tool) => tool.startsWith("sandbox_"))
    .filter((tool) => !has.some((one) => one.name === tool));
  if (missing.length === 0) return;
  throw new AgentRunError(
    "AGENT_INVALID",
    `The agent ${name} names ${missing.join(", ")}, which its \`sandbox\` does not have${has.length === 0 ? "" : `; it has ${has.map((one) => one.name).join(", ")}`}.`,
  );
}

function lostRun(): AgentRunError {
  return new AgentRunError("PROCESS_ENDED", "Another process has taken this run over.");
}

function inputValues(
  definition: AgentDefinition,
  input: unknown,
): Readonly<Record<string, unknown>> {
  if (input !== undefined && (typeof input !== "object" || input === null || Array.isArray(input)))
    throw new AgentRunError("INVALID_INPUT", "The input must be a JSON object.");
  const values = structuredClone({ ...definition.inputDefault, ...input });
  const problem = definition.input?.problem(values);
  if (problem !== undefined)
    throw new AgentRunError(
      "INVALID_INPUT",
      `The input of ${definition.name} does not match its schema: ${problem}.`,
    );
  return values;
}
