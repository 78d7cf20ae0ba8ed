/** `sandkasten agents serve`: the agent service in the foreground, until it is stopped. */
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import type { Logger } from "pino";
import { startService } from "../agents/start-service.ts";
import type { Cli } from "../cli.ts";
import { findDaemon } from "../daemon-address.ts";
import { UsageFailure } from "../failure.ts";
import { requireDirectory } from "../local-failure.ts";
import { plainJson } from "../output/plain-text.ts";
import { interrupted } from "./daemon.ts";

interface Options {
  readonly dir: string;
  readonly listen?: string;
  readonly dataDir?: string;
  readonly untilInputEnds?: boolean;
}

export function addAgentsCommand(program: Command, cli: Cli): void {
  const agents = program
    .command("agents")
    .summary("serve agents and workflows")
    .description("The agent service, which runs the agents and workflows of a directory.");
  agents
    .command("serve")
    .summary("start the agent service in the foreground")
    .description(
      "Serves the agents in `agents/*.prompt` and the workflows in `workflows/*.yaml` of a directory, " +
        "and applies changes to these files. It uses the daemon named by --url and --api-key, by " +
        "SANDKASTEN_URL and SANDKASTEN_API_KEY, or the local one. " +
        "SANDKASTEN_AGENTS_API_KEY sets the key that clients of the service must send; without a key it " +
        "listens on loopback only. Ctrl-C or SIGTERM cancels all runs, destroys their sandboxes and " +
        "stops; workflows resume at the next start. The log goes to stderr; SANDKASTEN_AGENTS_LOG_LEVEL " +
        "sets its level.",
    )
    .option("--dir <dir>", "directory with `agents` and `workflows`", ".")
    .option(
      "--listen <host:port>",
      "address to listen on (default: SANDKASTEN_AGENTS_LISTEN, or 127.0.0.1:8587); port 0 chooses a free port",
    )
    .option(
      "--data-dir <dir>",
      "directory for the runs (default: SANDKASTEN_AGENTS_DATA_DIR, or `.sandkasten` in the directory)",
    )
    .addOption(
      new Option("--until-input-ends", "stop when nothing holds the input open").hideHelp(),
    )
    .action((options: Options) => serve(cli, options));
}

async function serve(cli: Cli, options: Options): Promise<void> {
  const { workingDirectory, environment } = cli.host;
  const dir = resolve(workingDirectory, options.dir);
  await requireDirectory(options.dir, dir);
  // commander assigns an option that every command has to the program, wherever it appears.
  const { dataDir = options.dataDir, ...others } = cli.options();
  const daemon = await findDaemon({ ...cli, options: () => others });
  if (options.untilInputEnds === true) stopWithInput(cli);
  await using service = await startService({
    dir,
    listen: options.listen,
    ...(dataDir !== undefined && { dataDir: resolve(workingDirectory, dataDir) }),
    daemonUrl: daemon.url,
    daemonApiKey: daemon.apiKey,
    env: environment.variables,
    log: await serviceLog(cli),
  });
  cli.interrupts.signal.throwIfAborted();
  if (cli.wantsJson()) await cli.out.line(plainJson({ type: "listening", url: service.url }));
  else await cli.out.line(`The agent service listens on ${service.url}`);
  await interrupted(cli);
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "silent"];

async function serviceLog({ host }: Cli): Promise<Logger> {
  const level = host.environment.variables["SANDKASTEN_AGENTS_LOG_LEVEL"] || "info";
  if (!LEVELS.includes(level))
    throw new UsageFailure(
      `"${level}" in SANDKASTEN_AGENTS_LOG_LEVEL is not a log level.`,
      `Use one of ${LEVELS.join(", ")}.`,
    );
  const { pino } = await import("pino");
  return pino({ level }, host.stderr);
}

/**
 * The parent process holds this process's input open; when the parent ends for any reason, so does
 * the input.
 */
function stopWithInput(cli: Cli): void {
  const { stdin } = cli.host;
  const stop = (): void => cli.interrupts.interrupt({ kind: "signal", signal: "SIGTERM" });
  stdin.on("end", stop).on("error", stop).resume();
}
