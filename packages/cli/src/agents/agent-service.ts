/** Finds the agent service to use, or runs one inside this process for the duration of a command. */
import type { AgentServiceClient } from "@sandkasten/agents/client";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import type { DaemonAddress } from "../daemon-address.ts";
import { CliFailure } from "../failure.ts";
import { type Purpose, startOwnService } from "./own-service.ts";
import { serviceFailure } from "./service-failure.ts";

/** The default address of a service. */
export const USUAL_URL = "http://127.0.0.1:8587";

export interface DirOption {
  readonly dir?: string;
}

export interface AgentService {
  readonly client: AgentServiceClient;
  readonly url: string;
  /** It runs inside this process and ends with the command. */
  readonly isOwn: boolean;
  /** The directory of a service that runs inside this process. */
  readonly dir: string;
  /** The daemon whose sandboxes a service inside this process uses. */
  readonly daemon?: DaemonAddress | undefined;
}

export function addDirOption(command: Command): Command {
  return command.option(
    "--dir <dir>",
    "use the agents and workflows of this directory inside this process, even if a service is running",
  );
}

/**
 * Uses the service named by SANDKASTEN_AGENTS_URL or the one at the default address. If none answers
 * there, and always with --dir, a service inside this process serves the directory.
 *
 * @param purpose - What the command needs a service inside this process for.
 */
export async function withAgentService(
  cli: Cli,
  options: DirOption,
  purpose: Purpose,
  use: (service: AgentService) => Promise<void>,
): Promise<void> {
  const running = options.dir === undefined ? await findRunning(cli) : undefined;
  if (running !== undefined) return await translating(running, use);
  await using own = await startOwnService(cli, options.dir ?? ".", purpose);
  cli.interrupts.signal.throwIfAborted();
  const { url, apiKey, dir, daemon } = own;
  const client = await connect(url, apiKey);
  await translating({ client, url, isOwn: true, dir, daemon }, use);
}

async function translating(
  service: AgentService,
  use: (service: AgentService) => Promise<void>,
): Promise<void> {
  try {
    await use(service);
  } catch (error) {
    throw serviceFailure(error, service);
  }
}

/** Undefined if none answers at the default address; an explicitly named one must answer. */
export async function findRunning(cli: Cli): Promise<AgentService | undefined> {
  const { agentsUrl, agentsApiKey } = cli.host.environment;
  const url = agentsUrl ?? USUAL_URL;
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    throw new CliFailure(`"${url}" in SANDKASTEN_AGENTS_URL is not an address.`, {
      hint: `Write it as in ${USUAL_URL}.`,
      code: "USAGE",
      exitCode: 2,
    });
  const client = await connect(url, agentsApiKey);
  if (agentsUrl === undefined && !(await responds(client, cli.interrupts.signal))) return undefined;
  return { client, url, isOwn: false, dir: "" };
}

async function connect(url: string, apiKey: string | undefined): Promise<AgentServiceClient> {
  const { AgentServiceClient } = await import("@sandkasten/agents/client");
  return new AgentServiceClient({ baseUrl: url, apiKey });
}

/** Anything else that answers at the default address is not an agent service. */
async function responds(client: AgentServiceClient, signal: AbortSignal): Promise<boolean> {
  try {
    await client.health({ signal });
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === "AgentServiceError") return false;
    throw error;
  }
}
