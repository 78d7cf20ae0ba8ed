/** An engine with a separate database, whose agents do what a test says. */
import type { DatabaseSync } from "node:sqlite";
import { SandboxClient } from "@sandkasten/sdk";
import { AgentRunError } from "../../runs/agent-executor.ts";
import type { AgentRunRequest, AgentRunResult } from "../../runs/agent-executor.ts";
import { openDatabase } from "../../store/database.ts";
import { EVENT_MIGRATIONS, EventLog } from "../../store/event-log.ts";
import { PROCESS_MIGRATIONS, ProcessRegistry } from "../../store/process-registry.ts";
import { RUN_MIGRATIONS } from "../../store/run-store.ts";
import { WORKFLOW_MIGRATIONS } from "../engine/migrations.ts";
import type { RunRecord, StepRecord } from "../engine/run-records.ts";
import { hasEnded } from "../engine/run-records.ts";
import type { WorkflowEngineOptions } from "../engine/workflow-engine.ts";
import { WorkflowEngine } from "../engine/workflow-engine.ts";

export const ALL_MIGRATIONS = [
  ...EVENT_MIGRATIONS,
  ...PROCESS_MIGRATIONS,
  ...RUN_MIGRATIONS,
  ...WORKFLOW_MIGRATIONS,
];

/** An agent's answer; it may throw an AgentRunError. */
export type Agent = (request: AgentRunRequest) => unknown;

export interface FixtureOptions extends Partial<
  Omit<WorkflowEngineOptions, "database" | "events">
> {
  readonly agents?: Readonly<Record<string, Agent>>;
  /** Results of agents whose end was not recorded, by run id. */
  readonly finished?: (runId: string | undefined) => unknown;
  /** The path of a database; in memory if absent. */
  readonly path?: string;
}

export class EngineFixture implements AsyncDisposable {
  readonly database: DatabaseSync;
  readonly events: EventLog;
  readonly processes: ProcessRegistry;
  readonly engine: WorkflowEngine;
  /** Names of agents in the order in which they started. */
  readonly started: string[] = [];
  readonly log: string[] = [];

  constructor({
    agents = {},
    finished = () => undefined,
    path = ":memory:",
    ...options
  }: FixtureOptions = {}) {
    this.database = openDatabase(path, ALL_MIGRATIONS);
    this.events = new EventLog(this.database);
    this.processes = new ProcessRegistry(this.database);
    this.engine = new WorkflowEngine({
      database: this.database,
      events: this.events,
      processes: this.processes,
      executor: {
        execute: async (request) => await this.#execute(agents, request),
        finished: (runId) => {
          const output = finished(runId);
          return output === undefined ? undefined : resultOf(runId, output);
        },
      },
      // Nothing listens on this port: these agents use no sandboxes.
      client: new SandboxClient({ baseUrl: "http://127.0.0.1:9" }),
      log: {
        warn: (message) => this.log.push(message),
        error: (details, message) =>
          this.log.push(`${message} ${String(Object.values(details)[0])}`),
      },
      pollIntervalMs: 5,
      ...options,
    });
    this.engine.start();
  }

  submit(source: string, input: unknown = null): string {
    return this.engine.submit({ workflowId: "w", file: "w.yaml", source, input });
  }

  /** The run once it meets the condition, or has ended. */
  async until(
    runId: string,
    isWanted: (run: RunRecord) => boolean = () => false,
  ): Promise<RunRecord> {
    for (;;) {
      const run = this.engine.store.get(runId);
      if (run === undefined) throw new Error("there is no such run");
      if (isWanted(run) || hasEnded(run.status)) return run;
      await this.engine.nextChange(new AbortController().signal);
    }
  }

  /** Starts a run and waits for its end. */
  async run(source: string, input: unknown = null): Promise<RunRecord> {
    return await this.until(this.submit(source, input));
  }

  steps(runId: string): StepRecord[] {
    return this.engine.store.steps(runId);
  }

  /** Paths and states of a run's steps. */
  shown(runId: string): string[] {
    return this.steps(runId).map(({ path, status }) => `${path} ${status}`);
  }

  eventTypes(runId: string): string[] {
    return this.events.read(runId, 0, 10_000).map(({ type }) => type);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close({ graceMs: 0 });
    this.processes.stop();
    this.database.close();
  }

  async #execute(
    agents: Readonly<Record<string, Agent>>,
    request: AgentRunRequest,
  ): Promise<AgentRunResult> {
    this.started.push(request.agentName);
    const agent = agents[request.agentName];
    if (agent === undefined)
      throw new AgentRunError("AGENT_NOT_FOUND", `There is no agent ${request.agentName}.`);
    return resultOf(request.runId, await agent(request));
  }
}

function resultOf(runId = "", output: unknown = null): AgentRunResult {
  const text = typeof output === "string" ? output : JSON.stringify(output);
  return { runId, text, output, steps: 1, usage: { inputTokens: 0, outputTokens: 0 } };
}

/** Answers with the task. */
export const echo: Agent = ({ task }) => task ?? null;

/** Never answers, and stops when it is cancelled. */
export const hang: Agent = async ({ signal }) =>
  await new Promise((_resolve, reject) => {
    const stop = (): void => reject(new AgentRunError("CANCELLED", "The run was cancelled."));
    if (signal?.aborted === true) stop();
    signal?.addEventListener("abort", stop);
  });
