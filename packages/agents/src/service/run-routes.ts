/** Starts, watches and cancels agent runs. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { RunBody, RunPage } from "../client/wire-types.ts";
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import { AgentRunError } from "../runs/agent-executor.ts";
import type { AgentRunErrorCode } from "../runs/agent-executor.ts";
import type { LocalExecutor, StartedRun } from "../runs/local-executor.ts";
import type { EventLog } from "../store/event-log.ts";
import type { RunStore, StoredRun } from "../store/run-store.ts";
import { parseBody, parseQuery } from "./parse-request.ts";
import { inTraceOf } from "../telemetry/spans.ts";
import type { RouteModule } from "./service.ts";
import { ServiceError } from "./service-error.ts";
import type { ServiceErrorCode } from "./service-error.ts";
import { serveRunEvents } from "./sse.ts";

export interface RunRoutesOptions {
  readonly catalogue: AgentCatalogue;
  readonly executor: LocalExecutor;
  readonly runs: RunStore;
  readonly events: EventLog;
  readonly stopping: AbortSignal;
}

const executeBody = z.strictObject({
  agent_name: z.string().min(1).max(200),
  task: z.string().optional(),
  input: z.record(z.string(), z.unknown()).optional(),
});
const executeQuery = z.looseObject({ wait: z.stringbool().optional() });
const listQuery = z.looseObject({
  agent: z.string().optional(),
  status: z.enum(["queued", "running", "succeeded", "failed", "cancelled"]).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.coerce.number().int().min(1).optional(),
});

export function runRoutes(options: RunRoutesOptions): RouteModule {
  const { catalogue, executor, runs, events, stopping } = options;
  const find = (id: string): StoredRun => {
    const run = runs.get(id);
    if (run === undefined)
      throw new ServiceError("RUN_NOT_FOUND", `There is no run ${JSON.stringify(id)}.`);
    return run;
  };
  return (app: FastifyInstance) => {
    app.post("/execute", async (request, reply) => {
      const { agent_name: agentName, task, input } = parseBody(executeBody, request.body);
      const { wait = false } = parseQuery(executeQuery, request.query);
      await catalogue.refresh();
      const started = inTraceOf(request.headers, () => start(executor, { agentName, task, input }));
      if (!wait) return reply.code(202).send({ run_id: started.runId });
      await started.ended;
      return runBody(find(started.runId));
    });
    app.get("/v1/runs", (request): RunPage => {
      const { agent, status, limit, cursor } = parseQuery(listQuery, request.query);
      const name = agent === undefined ? undefined : (catalogue.find(agent)?.name ?? agent);
      const found = runs.list({ agent: name, status, limit: limit + 1, before: cursor });
      const page = found.slice(0, limit);
      return {
        runs: page.map(({ run, omitted }) => ({ ...runBody(run), ...omitted })),
        ...(found.length > limit && { next_cursor: String(page.at(-1)?.run.seq) }),
      };
    });
    app.get<{ Params: { id: string } }>("/v1/runs/:id", ({ params }) => runBody(find(params.id)));
    app.post<{ Params: { id: string } }>("/v1/runs/:id/cancel", ({ params: { id } }) => {
      find(id);
      // The process that owns the run cancels it: it polls for such requests.
      if (!executor.cancel(id)) runs.requestCancel(id);
      return runBody(find(id));
    });
    app.get<{ Params: { id: string } }>("/v1/runs/:id/events", async (request, reply) => {
      const { runId } = find(request.params.id);
      const isOver = (): boolean => find(runId).endedAt !== undefined;
      return await serveRunEvents(request, reply, { events, runId, isOver, stopping });
    });
  };
}

function start(
  executor: LocalExecutor,
  request: Parameters<LocalExecutor["start"]>[0],
): StartedRun {
  try {
    return executor.start(request);
  } catch (error) {
    if (!(error instanceof AgentRunError)) throw error;
    throw new ServiceError(STATUSES[error.code] ?? "INVALID_REQUEST", error.message, {
      reason: error.code,
    });
  }
}

const STATUSES: Partial<Record<AgentRunErrorCode, ServiceErrorCode>> = {
  AGENT_NOT_FOUND: "AGENT_NOT_FOUND",
  TOO_MANY_RUNS: "TOO_MANY_RUNS",
  RUN_EXISTS: "CONFLICT",
  CANCELLED: "SHUTTING_DOWN",
  INTERNAL_ERROR: "INTERNAL_ERROR",
};

function runBody(run: StoredRun): RunBody {
  return {
    run_id: run.runId,
    agent_name: run.agentName,
    status: run.status,
    task: run.task,
    input: run.input,
    output: run.output,
    text: run.text,
    error: run.error,
    model: run.model,
    steps: run.steps,
    usage: { input_tokens: run.usage.inputTokens, output_tokens: run.usage.outputTokens },
    workflow_run_id: run.workflowRunId,
    parent_run_id: run.parentRunId,
    created_at: run.createdAt,
    started_at: run.startedAt,
    ended_at: run.endedAt,
  };
}
