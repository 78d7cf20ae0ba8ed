/** The tools of one run and their resources: sandboxes, MCP servers, other agents. */
import type { Logger } from "pino";
import type { SandboxClient } from "@sandkasten/sdk";
import { SandboxScope, sandboxTools } from "@sandkasten/tools";
import type { FileStore, SandboxPolicy, SandboxTool, SandboxToolContext } from "@sandkasten/tools";
import type { Variables } from "../models/model-registry.ts";
import type { AgentCatalogue } from "../prompts/agent-catalogue.ts";
import type { AgentDefinition } from "../prompts/agent-definition.ts";
import { AgentRunError } from "./agent-executor.ts";
import type { AgentRunResult } from "./agent-executor.ts";
import { fromSandboxTool } from "./agent-tool.ts";
import type { AgentTool } from "./agent-tool.ts";
import type { DaemonWatch } from "./daemon-watch.ts";
import { findAgent } from "./find-agent.ts";
import { connectMcp } from "./mcp-tools.ts";
import type { PreparedRun } from "./prepare-run.ts";
import type { AgentMetrics } from "../telemetry/agent-metrics.ts";
import { subAgentTools } from "./sub-agent-tools.ts";
import type { SubAgentCall } from "./sub-agent-tools.ts";
import { withDaemonTimeout } from "./daemon-timeout.ts";

export interface RunToolsOptions {
  readonly catalogue: AgentCatalogue;
  readonly client: SandboxClient;
  readonly log: Logger;
  /** The working directory of MCP servers. */
  readonly dir: string;
  readonly env: Variables;
  readonly policy?: SandboxPolicy | undefined;
  readonly fileStore?: FileStore | undefined;
  /** How long a sandbox outlives the process that created it. */
  readonly leaseSeconds?: number | undefined;
  readonly metrics: AgentMetrics;
  readonly daemonWatch: DaemonWatch;
}

export interface RunTools extends AsyncDisposable {
  readonly tools: readonly AgentTool[];
}

/** A daemon that does not respond must not keep a run from ending; the lease ends its sandboxes. */
const CLEANUP_TIMEOUT_MS = 20_000;
const SILENT_CLEANUP_TIMEOUT_MS = 1_000;

/**
 * Opens no sandbox yet. Disposing releases everything that the run has used. Throws AgentRunError.
 */
export async function openTools(
  run: PreparedRun,
  options: RunToolsOptions,
  callAgent: (call: SubAgentCall) => Promise<AgentRunResult>,
): Promise<RunTools> {
  const { definition, stop } = run;
  await using stack = new AsyncDisposableStack();
  const tools = ofSandbox(run, options, stack)
    .map(fromSandboxTool)
    .map((tool) => endingWithDaemon(tool, run, options.daemonWatch));
  const others = subAgentTools(definition, (name) => findAgent(options.catalogue, name), callAgent);
  const { dir, env } = options;
  const mcp = stack.use(await connectMcp(definition, { dir, env, signal: stop.signal }));
  const opened = stack.move();
  return {
    tools: [...tools, ...others, ...mcp.tools],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Sandbox time does not count towards the run's timeout, so a daemon that hangs must end the run. */
function endingWithDaemon(tool: AgentTool, { stop }: PreparedRun, watch: DaemonWatch): AgentTool {
  const fail = (): void =>
    stop.abort(
      new AgentRunError(
        "DAEMON_UNAVAILABLE",
        "The Sandkasten daemon has stopped answering. Check it with `sandkasten doctor`, then start the run again.",
      ),
    );
  return {
    ...tool,
    run: async (input, call) => await watch.during(() => tool.run(input, call), fail),
  };
}

function ofSandbox(
  { runId, definition, request }: PreparedRun,
  { client, log, leaseSeconds, policy, fileStore, metrics, daemonWatch }: RunToolsOptions,
  stack: AsyncDisposableStack,
): readonly SandboxTool[] {
  const agentScope = new SandboxScope({
    client,
    namespace: "agent",
    id: runId,
    leaseSeconds,
    onCleanupFailure: (key, error) =>
      log.warn({ err: error, key }, `failed to cleanup session ${key}`),
  });
  if (definition.sandbox !== undefined)
    stack.defer(async () => {
      const timeoutMs = daemonWatch.isSilent ? SILENT_CLEANUP_TIMEOUT_MS : CLEANUP_TIMEOUT_MS;
      try {
        await withDaemonTimeout(timeoutMs, agentScope.close());
      } catch (error) {
        log.warn(
          { err: error, run_id: runId },
          "could not destroy the sandboxes of a run; they expire with their lease",
        );
      }
    });
  const workflowScope = request.workflow?.scope;
  const context: SandboxToolContext = {
    client,
    agentScope,
    workflowScope,
    policy,
    fileStore,
    onCall: (call) => metrics.callEnded(call),
    log: log.child({ run_id: runId }),
  };
  const tools = sandboxTools(definition.sandbox, context);
  refuseMissing(definition, tools);
  return tools;
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
