/**
 * A process with an engine, for tests that kill it: `node engine-process.ts DIRECTORY DEAD_AFTER_MS
 * AHEAD_MS`. It writes what its agents do to DIRECTORY/effects. While DIRECTORY/hold exists, agents
 * named `hold` and expressions that read `run.id` do not end, and agents named `fail-once` fail.
 */
import { once } from "node:events";
import { appendFileSync, existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import { AgentRunError } from "../../runs/agent-executor.ts";
import type { AgentRunRequest, AgentRunResult } from "../../runs/agent-executor.ts";
import { openDatabase } from "../../store/database.ts";
import { EventLog } from "../../store/event-log.ts";
import { ProcessRegistry } from "../../store/process-registry.ts";
import type { Clock } from "../engine/clock.ts";
import { systemClock } from "../engine/clock.ts";
import { WorkflowEngine } from "../engine/workflow-engine.ts";
import { Evaluator } from "../expressions/evaluator.ts";
import { ALL_MIGRATIONS } from "./engine-fixture.ts";

const [, , directory = "", deadAfterMs = "1000", ahead = "0"] = process.argv;

/** Runs ahead, as if the process had been started that much later. */
const clock: Clock = {
  nowMs: () => systemClock.nowMs() + Number(ahead),
  sleepUntil: (timeMs, signal) => systemClock.sleepUntil(timeMs - Number(ahead), signal),
};

function note(effect: string): void {
  appendFileSync(join(directory, "effects"), `${effect}\n`);
}

async function holdUp(signal?: AbortSignal): Promise<void> {
  while (existsSync(join(directory, "hold"))) {
    if (signal?.aborted === true) throw new AgentRunError("CANCELLED", "The run was cancelled.");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function execute(request: AgentRunRequest): Promise<AgentRunResult> {
  const { agentName, task = "", runId = "", workflow, signal } = request;
  const what = `${workflow?.runId ?? ""} ${agentName} ${task}`;
  note(`begin ${what}`);
  if (agentName.startsWith("hold")) await holdUp(signal);
  if (agentName === "fail-once" && existsSync(join(directory, "hold")))
    throw new AgentRunError("MODEL_UNAVAILABLE", "The model did not answer.");
  note(`end ${what}`);
  const usage = { inputTokens: 0, outputTokens: 0 };
  return { runId, text: task, output: task, steps: 1, usage };
}

const thread = new Evaluator();
const evaluator: Pick<Evaluator, "evaluate"> = {
  async evaluate(sources, variables) {
    if (sources.some((source) => source.includes("run.id"))) {
      const { id } = variables["run"] as { readonly id: string };
      note(`begin ${id} expression`);
      await holdUp();
    }
    return await thread.evaluate(sources, variables);
  },
};

/** A daemon without sandboxes: these agents use none. */
const daemon = createServer((_request, response) => response.end("[]")).listen(0, "127.0.0.1");
await once(daemon, "listening");
const { port } = daemon.address() as AddressInfo;

const database = openDatabase(join(directory, "agents.db"), ALL_MIGRATIONS);
const processes = new ProcessRegistry(database, {
  deadAfterMs: Number(deadAfterMs),
  beatIntervalMs: Number(deadAfterMs) / 5,
});
processes.start();
const engine = new WorkflowEngine({
  database,
  events: new EventLog(database),
  processes,
  clock,
  executor: { execute, finished: () => undefined },
  evaluator,
  client: new SandboxClient({ baseUrl: `http://127.0.0.1:${port}` }),
  log: {
    warn: (message) => process.stderr.write(`${message}\n`),
    error: (details, message) =>
      process.stderr.write(`${message} ${String(Object.values(details)[0])}\n`),
  },
  pollIntervalMs: 20,
});
engine.start();
process.once("SIGTERM", () => {
  void engine.close({ graceMs: 100 }).then(() => {
    processes.stop();
    process.exit(0);
  });
});
process.stdout.write(`${processes.id}\n`);
