/** The HTTP routes of workflows and their runs. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type {
  WorkflowDetails,
  WorkflowRunBody,
  WorkflowRunPage,
  WorkflowSummary,
} from "../client/wire-types.ts";
import { parseBody, parseQuery } from "../service/parse-request.ts";
import type { RouteModule } from "../service/service.ts";
import { ServiceError } from "../service/service-error.ts";
import { serveRunEvents } from "../service/sse.ts";
import type { EventLog } from "../store/event-log.ts";
import type { WorkflowCatalogue, WorkflowEntry } from "./catalogue.ts";
import { MAX_INPUT_BYTES } from "./engine/limits.ts";
import type { RunRecord } from "./engine/run-records.ts";
import { hasEnded, RUN_STATUSES } from "./engine/run-records.ts";
import { RunConflict } from "./engine/run-store.ts";
import type { WorkflowEngine } from "./engine/workflow-engine.ts";
import { countSteps } from "./language/compile.ts";
import { mermaidGraph } from "./language/mermaid.ts";
import { planView } from "./language/plan-view.ts";
import { runListView, runView } from "./run-views.ts";

export interface WorkflowRoutesOptions {
  readonly catalogue: WorkflowCatalogue;
  readonly engine: WorkflowEngine;
  readonly events: EventLog;
  /** Fires when the service stops. */
  readonly stopping: AbortSignal;
}

type WithId = { readonly Params: { readonly id: string } };

const graphQuery = z.looseObject({ graph: z.enum(["mermaid"]).optional() });
const startBody = z.strictObject({ input: z.unknown().optional() });
const startQuery = z.looseObject({ wait: z.stringbool().optional() });
const decideBody = z.strictObject({
  step_id: z.string().min(1).max(1000).optional(),
  comment: z.string().max(10_000).optional(),
});
const emptyBody = z.strictObject({});
const listQuery = z.looseObject({
  workflow: z.string().optional(),
  status: z.enum(RUN_STATUSES).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.coerce.number().int().min(1).optional(),
});

export function workflowRoutes(options: WorkflowRoutesOptions): RouteModule {
  return (app) => {
    addWorkflows(app, options);
    addRuns(app, options);
    addDecisions(app, options);
  };
}

function addWorkflows(
  app: FastifyInstance,
  { catalogue, engine, stopping }: WorkflowRoutesOptions,
): void {
  app.get("/v1/workflows", async (): Promise<{ workflows: WorkflowSummary[] }> => {
    const entries = await catalogue.list();
    return { workflows: entries.map(summaryOf) };
  });
  app.get<WithId>("/v1/workflows/:id", async (request): Promise<WorkflowDetails> => {
    const { graph } = parseQuery(graphQuery, request.query);
    const entry = await existing(catalogue, request.params.id);
    const { steps: _count, ...summary } = summaryOf(entry);
    if (entry.plan === undefined) return { ...summary, steps: [] };
    return {
      ...planView(entry.plan),
      ...summary,
      ...(graph !== undefined && { graph: mermaidGraph(entry.plan) }),
    };
  });
  app.post<WithId>("/v1/workflows/:id/runs", async (request, reply) => {
    const { input } = parseBody(startBody, request.body);
    const { wait = false } = parseQuery(startQuery, request.query);
    const entry = await existing(catalogue, request.params.id);
    const { id: workflowId, file, source } = runnable(entry);
    const given = checkedInput(entry, input);
    if (stopping.aborted) throw new ServiceError("SHUTTING_DOWN", "The service is stopping.");
    const runId = engine.submit({ workflowId, file, source, input: given });
    if (!wait) return await reply.code(202).send({ run_id: runId });
    const gone = new AbortController();
    reply.raw.once("close", () => gone.abort());
    return await untilSettled(engine, runId, AbortSignal.any([stopping, gone.signal]));
  });
}

function addRuns(app: FastifyInstance, { engine, events, stopping }: WorkflowRoutesOptions): void {
  app.get("/v1/workflow-runs", (request): WorkflowRunPage => {
    const { workflow, status, limit, cursor } = parseQuery(listQuery, request.query);
    const found = engine.store.list({ workflow, status, limit: limit + 1, before: cursor });
    const page = found.slice(0, limit);
    return {
      runs: page.map(runListView),
      ...(found.length > limit && { next_cursor: String(page.at(-1)?.run.number) }),
    };
  });
  app.get<WithId>("/v1/workflow-runs/:id", ({ params }) => viewOf(engine, params.id));
  app.get<WithId>("/v1/workflow-runs/:id/events", async (request, reply) => {
    const { runId } = existingRun(engine, request.params.id);
    const isOver = (): boolean => hasEnded(engine.store.statusOf(runId));
    return await serveRunEvents(request, reply, { events, runId, isOver, stopping });
  });
}

function addDecisions(app: FastifyInstance, { engine }: WorkflowRoutesOptions): void {
  for (const [verb, approved] of [
    ["approve", true],
    ["reject", false],
  ] as const)
    app.post<WithId>(`/v1/workflow-runs/:id/${verb}`, ({ params: { id }, body }) => {
      const { step_id: stepId, comment } = parseBody(decideBody, body);
      return decided(engine, id, () => engine.decide(id, stepId, { approved, comment }));
    });
  app.post<WithId>("/v1/workflow-runs/:id/cancel", ({ params: { id }, body }) => {
    parseBody(emptyBody, body);
    return decided(engine, id, () => engine.cancel(id));
  });
  app.post<WithId>("/v1/workflow-runs/:id/resume", ({ params: { id }, body }) => {
    parseBody(emptyBody, body);
    return decided(engine, id, () => engine.resume(id));
  });
}

function summaryOf({ id, file, plan, problems }: WorkflowEntry): WorkflowSummary {
  return {
    id,
    name: plan?.name,
    description: plan?.description,
    file,
    steps: plan === undefined ? 0 : countSteps(plan),
    ...(problems.length > 0 && { error: problems.join("\n") }),
  };
}

async function existing(catalogue: WorkflowCatalogue, id: string): Promise<WorkflowEntry> {
  const entry = await catalogue.find(id);
  if (entry !== undefined) return entry;
  throw new ServiceError("WORKFLOW_NOT_FOUND", `There is no workflow ${JSON.stringify(id)}.`);
}

function runnable(entry: WorkflowEntry): WorkflowEntry {
  const { id, problems } = entry;
  if (problems.length === 0) return entry;
  throw new ServiceError(
    "INVALID_REQUEST",
    `The workflow ${id} cannot be run:\n${problems.join("\n")}`,
    { problems },
  );
}

function checkedInput({ id, input: check }: WorkflowEntry, input: unknown): unknown {
  const bytes = Buffer.byteLength(JSON.stringify(input ?? null));
  if (bytes > MAX_INPUT_BYTES)
    throw new ServiceError(
      "PAYLOAD_TOO_LARGE",
      `The input has ${bytes} bytes; a run takes at most ${MAX_INPUT_BYTES}.`,
    );
  // A schema may fill in defaults.
  const given = input === undefined && check !== undefined ? {} : input;
  const problem = check?.problem(given);
  if (problem !== undefined)
    throw new ServiceError(
      "INVALID_REQUEST",
      `The input of ${id} does not match its input_schema: ${problem}.`,
    );
  return given;
}

function existingRun(engine: WorkflowEngine, id: string): RunRecord {
  const run = engine.store.get(id);
  if (run !== undefined) return run;
  throw new ServiceError("RUN_NOT_FOUND", `There is no workflow run ${JSON.stringify(id)}.`);
}

function viewOf(engine: WorkflowEngine, id: string): WorkflowRunBody {
  return runView(existingRun(engine, id), engine.store.steps(id));
}

function decided(engine: WorkflowEngine, id: string, decide: () => void): WorkflowRunBody {
  existingRun(engine, id);
  try {
    decide();
  } catch (error) {
    if (!(error instanceof RunConflict)) throw error;
    throw new ServiceError("CONFLICT", error.message);
  }
  return viewOf(engine, id);
}

/** The run once it has ended or waits for a person. */
async function untilSettled(
  engine: WorkflowEngine,
  runId: string,
  signal: AbortSignal,
): Promise<WorkflowRunBody> {
  for (;;) {
    const status = engine.store.statusOf(runId);
    if (hasEnded(status) || status === "waiting_approval" || status === "needs_attention")
      return viewOf(engine, runId);
    if (signal.aborted)
      throw new ServiceError(
        "SHUTTING_DOWN",
        `The service is stopping. The run ${runId} continues when the service starts again.`,
      );
    // It rejects only when the signal fires.
    await engine.nextChange(signal).catch(() => undefined);
  }
}
