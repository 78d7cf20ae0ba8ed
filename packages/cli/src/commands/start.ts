/**
 * `sandkasten start`: starts the daemon, proves that it works with a first sandbox, and starts the
 * agent service.
 */
import type { Daemon } from "@sandkasten/daemon";
import type { Config } from "@sandkasten/daemon/config";
import { SandboxClient } from "@sandkasten/sdk";
import type { Command } from "commander";
import { USUAL_URL } from "../agents/agent-service.ts";
import { AgentsChild } from "../agents/agents-child.ts";
import { addressForOthers, KEY_PLACEHOLDER } from "../address-for-others.ts";
import { bringUp, startFailure } from "../bring-up.ts";
import type { Cli } from "../cli.ts";
import { quoted } from "../exec-options.ts";
import { CliFailure } from "../failure.ts";
import { addConfigOptions, type ConfigOptions, loadLocalConfig } from "../local-config.ts";
import { plainText } from "../output/plain-text.ts";
import { Stages } from "../output/stages.ts";
import { ownCommand } from "../own-program.ts";
import { interrupted } from "./daemon.ts";

export function addStartCommand(program: Command, cli: Cli): void {
  const command = program
    .command("start")
    .summary("start the daemon and the agent service, and check that sandboxes work")
    .description(
      "Starts the daemon, creates a sandbox, runs a command in it and destroys it, showing each step. " +
        "Then prints the address, the key and commands to try, and starts the agent service as a " +
        "second process that stops with the daemon. Runs until Ctrl-C.",
    )
    .option("--no-agents", "start the daemon only")
    .option("--agents-dir <dir>", "directory with the agents and workflows to serve", ".")
    .option(
      "--agents-listen <host:port>",
      "address of the agent service (default: SANDKASTEN_AGENTS_LISTEN, or 127.0.0.1:8587)",
    );
  addConfigOptions(command).action((options: Options) => start(cli, options));
}

interface Options extends ConfigOptions {
  readonly agents: boolean;
  readonly agentsDir: string;
  readonly agentsListen?: string;
}

async function start(cli: Cli, options: Options): Promise<void> {
  const stages = new Stages(cli);
  const config = await stages.run("Read the configuration", async (say) => {
    const loaded = await loadLocalConfig(cli, options);
    say(loaded.file ?? "no configuration file");
    return loaded;
  });
  for (const warning of config.warnings) await stages.warn(warning);
  const { checkMachine } = await import("@sandkasten/daemon");
  await stages.run("Check the machine", async (say) => {
    const { usable, backends } = await checkMachine(config, "needed").catch((cause: unknown) => {
      throw startFailure(cause);
    });
    const failed = backends.flatMap(({ checks }) => checks.filter(({ ok }) => !ok));
    if (!usable)
      throw new CliFailure(
        `This machine cannot run sandboxes: ${failed.map(({ name, detail }) => `${name}: ${detail}`).join("; ")}`,
        { hint: "`sandkasten doctor` shows how to fix it.", code: "UNSUPPORTED" },
      );
    say(
      failed.length === 0
        ? `everything is available for ${backends.map(({ name }) => name).join(", ")}`
        : `usable; not available: ${failed.map(({ name }) => name).join(", ")}`,
    );
  });
  const daemon = await stages.run("Start the daemon", async (say) => {
    const started = await bringUp(quiet(config), cli.interrupts, say);
    say(started.url);
    return started;
  });
  try {
    await prove(cli, stages, new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey }));
    await stages.show(greeting(cli, config, daemon));
    // After the address is printed: loading the agents takes time, and sandboxes work without them.
    await using agents = options.agents ? startAgents(cli, stages, options, daemon) : undefined;
    const agentsUrl = agents === undefined ? undefined : await showAgents(cli, stages, agents);
    const { SANDKASTEN_AGENTS_API_KEY: agentsKey } = cli.host.environment.variables;
    if (agentsUrl !== undefined)
      daemon.useAgentService({ url: agentsUrl, apiKey: agentsKey || undefined });
    const shown = {
      url: daemon.url,
      ...(daemon.apiKeyGenerated && { apiKey: daemon.apiKey }),
      ...(agentsUrl !== undefined && { agentsUrl }),
    };
    await stages.finish(shown, agentsGreeting(cli, agentsUrl));
    await interrupted(cli);
  } finally {
    await daemon.stop();
  }
}

function startAgents(cli: Cli, stages: Stages, options: Options, daemon: Daemon): AgentsChild {
  return new AgentsChild(
    cli,
    { dir: options.agentsDir, listen: options.agentsListen, daemon },
    (problem) => void stages.warn(`The agent service has ended: ${problem}`),
  );
}

class AgentsFailure extends Error {}

/** Sandboxes work without agents, so a service that does not start is only a warning. */
async function showAgents(
  cli: Cli,
  stages: Stages,
  agents: AgentsChild,
): Promise<string | undefined> {
  try {
    return await stages.run("Start the agent service", async (say) => {
      const started = await cli.interrupts.race(() => agents.started);
      if ("problem" in started) throw new AgentsFailure(started.problem);
      say(started.url);
      return started.url;
    });
  } catch (error) {
    if (!(error instanceof AgentsFailure)) throw error;
    await stages.warn(`The agent service did not start: ${error.message}`);
    return undefined;
  }
}

/** Log lines would clutter the steps, unless the user asks for them. */
function quiet(config: Config): Config {
  const level = config.settings.find(({ key }) => key === "log_level");
  return {
    ...config,
    ...(level?.source.kind === "default" && { logLevel: "warn" }),
    // They were already shown.
    warnings: [],
  };
}

const PROOF = "it works";

/** Only claims to work what has been seen to work. */
async function prove(cli: Cli, stages: Stages, client: SandboxClient): Promise<void> {
  const session = await stages.run("Open a sandbox", async (say) => {
    const opened = await client.createSession();
    say(`${plainText(opened.id)} from the image ${plainText(opened.lastInfo.image)}`);
    return opened;
  });
  try {
    await cli.interrupts.race(() =>
      stages.run("Run a command in it", async (say) => {
        const { exitCode, stdout } = await session.exec(`echo ${PROOF}`);
        if (exitCode !== 0 || stdout.trim() !== PROOF)
          throw new CliFailure(
            `The first command did not print "${PROOF}": exit code ${exitCode ?? "unknown"}, output "${stdout.trim()}".`,
            { hint: "`sandkasten doctor` checks the machine.", code: "PROOF_FAILED" },
          );
        say(`echo printed: ${PROOF}`);
      }),
    );
  } finally {
    await stages.run("Destroy it", async (say) => {
      await session.destroy();
      say("nothing is left behind");
    });
  }
}

function greeting(cli: Cli, config: Config, daemon: Daemon): readonly string[] {
  const { bold, cyan, dim } = cli.out.style;
  const { url, apiKey, apiKeyGenerated } = daemon;
  // SECURITY: a configured key is never shown: terminals are recorded and shared. Guarded by
  // cli.serial.test.ts.
  return [
    "",
    `${bold("URL")}  ${cyan(url)}`,
    `${bold("Key")}  ${apiKeyGenerated ? cyan(apiKey) : dim("the configured key")}`,
    "",
    dim("Create a session with curl:"),
    firstRequest(url, apiKeyGenerated ? apiKey : KEY_PLACEHOLDER),
    "",
    dim("Run a command in a sandbox, from another terminal:"),
    `${addressForOthers(cli, config, daemon)}${ownCommand(cli.host.workingDirectory)} run -- echo hello`,
    "",
  ];
}

function agentsGreeting(cli: Cli, agentsUrl: string | undefined): readonly string[] {
  const { dim } = cli.out.style;
  if (agentsUrl === undefined) return [dim("Ctrl-C stops the daemon.")];
  return [
    "",
    dim("List the agents:"),
    `${agentsAddress(agentsUrl)}${ownCommand(cli.host.workingDirectory)} agent list`,
    "",
    dim("Ctrl-C stops both."),
  ];
}

/** A variable to put before a command; none when it finds the service by itself. */
function agentsAddress(url: string): string {
  return url === USUAL_URL ? "" : `SANDKASTEN_AGENTS_URL=${url} `;
}

export function firstRequest(url: string, apiKey: string): string {
  return `curl -s ${url}/v1/sessions -H ${quoted(`Authorization: Bearer ${apiKey}`)} -d '{}'`;
}
