/** Checks that a daemon answers before agents that need sandboxes start. */
import { SandboxClient } from "@sandkasten/sdk";
import type { Cli } from "../cli.ts";
import type { AgentService } from "./agent-service.ts";

/**
 * Without a sandbox, an agent that needs one fails late, after asking the model. A separate service uses
 * its own daemon, which we do not know.
 *
 * @param names - The agents that will run.
 */
export async function requireDaemon(
  cli: Cli,
  { client, daemon }: AgentService,
  names: readonly string[],
): Promise<void> {
  if (daemon === undefined) return;
  const { signal } = cli.interrupts;
  const agents = await client.agents({ signal });
  const needed = agents.some(
    ({ name, title, mode }) =>
      mode !== "none" && (names.includes(name) || names.includes(title ?? "")),
  );
  if (!needed) return;
  const { url: baseUrl, apiKey } = daemon;
  await new SandboxClient({ baseUrl, apiKey: apiKey ?? null }).version({ signal });
}

/** The agents of a plan, at any nesting depth. */
export function agentsOfPlan(plan: unknown): readonly string[] {
  if (Array.isArray(plan)) return plan.flatMap(agentsOfPlan);
  if (typeof plan !== "object" || plan === null) return [];
  const { type, agent, ...rest } = plan as Readonly<Record<string, unknown>>;
  const own = type === "agent" && typeof agent === "string" ? [agent] : [];
  return [...own, ...Object.values(rest).flatMap(agentsOfPlan)];
}
