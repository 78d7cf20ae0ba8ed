/** Every command and option of the command line, for commander. */
import { Command } from "commander";
import type { Cli } from "./cli.ts";
import { addAgentCommand } from "./commands/agent.ts";
import { addAgentsCommand } from "./commands/agents.ts";
import { addMcpCommand } from "./commands/mcp.ts";
import { addCancelCommand } from "./commands/cancel.ts";
import { addCompletionCommand } from "./commands/completion.ts";
import { addCommitCommand } from "./commands/commit.ts";
import { addConfigCommand } from "./commands/config.ts";
import { addCpCommand } from "./commands/cp.ts";
import { addCreateCommand } from "./commands/create.ts";
import { addDaemonCommand } from "./commands/daemon.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addEventsCommand } from "./commands/events.ts";
import { addEgressCommand } from "./commands/egress.ts";
import { addExecCommand } from "./commands/exec.ts";
import { addImageCommand } from "./commands/image.ts";
import { addInitCommand } from "./commands/init.ts";
import { addInspectCommand } from "./commands/inspect.ts";
import { addIsolationCommand } from "./commands/isolation.ts";
import { addKeyCommand } from "./commands/key.ts";
import { addLogsCommand } from "./commands/logs.ts";
import { addLsCommand } from "./commands/ls.ts";
import { addPauseCommand, addResumeCommand } from "./commands/pause.ts";
import { addForwardCommand } from "./commands/forward.ts";
import { addPortsCommand } from "./commands/ports.ts";
import { addProfileCommand } from "./commands/profile.ts";
import { addPsCommand } from "./commands/ps.ts";
import { addRenewCommand } from "./commands/renew.ts";
import { addRmCommand } from "./commands/rm.ts";
import { addSweepCommand } from "./commands/sweep.ts";
import { addRunCommand } from "./commands/run.ts";
import { addShellCommand } from "./commands/shell.ts";
import { addShellsCommand } from "./commands/shells.ts";
import { addStartCommand } from "./commands/start.ts";
import { addStatsCommand } from "./commands/stats.ts";
import { addVersionCommand } from "./commands/version.ts";
import { addWorkflowCommand } from "./commands/workflow.ts";
import { addWorkspaceCommand } from "./commands/workspace.ts";
import { addExamples } from "./examples.ts";
import { cliVersion } from "./version.ts";

const GROUPS: readonly (readonly [string, readonly ((program: Command, cli: Cli) => void)[]])[] = [
  [
    "Daemon:",
    [addStartCommand, addDaemonCommand, addDoctorCommand, addInitCommand, addConfigCommand],
  ],
  [
    "Commands in sandboxes:",
    [
      addRunCommand,
      addExecCommand,
      addShellCommand,
      addShellsCommand,
      addPsCommand,
      addLogsCommand,
      addEventsCommand,
      addCancelCommand,
    ],
  ],
  [
    "Sessions:",
    [
      addCreateCommand,
      addLsCommand,
      addInspectCommand,
      addRenewCommand,
      addCommitCommand,
      addCpCommand,
      addPortsCommand,
      addEgressCommand,
      addForwardCommand,
      addPauseCommand,
      addResumeCommand,
      addStatsCommand,
      addIsolationCommand,
      addRmCommand,
      addSweepCommand,
    ],
  ],
  ["Agents:", [addAgentCommand, addWorkflowCommand, addAgentsCommand, addMcpCommand]],
  [
    "More:",
    [
      addWorkspaceCommand,
      addImageCommand,
      addKeyCommand,
      addProfileCommand,
      addCompletionCommand,
      addVersionCommand,
    ],
  ],
];

export function buildProgram(cli: Cli): Command {
  const program = new Command("sandkasten")
    .description("Linux sandboxes for AI agents.")
    .version(cliVersion(), "-V, --version", "show the version")
    .option(
      "--url <url>",
      "URL of the daemon (default: SANDKASTEN_URL, the profile, or the local daemon)",
    )
    .option(
      "--api-key <key>",
      "key for the daemon (default: SANDKASTEN_API_KEY, or the key of the profile or the local daemon)",
    )
    .option("--daemon <profile>", "profile of the daemon (default: SANDKASTEN_PROFILE)")
    .option("--config <file>", "configuration file of the local daemon")
    .option("--data-dir <dir>", "data directory of the local daemon")
    .option("--json", "print JSON: one document, or one line per event")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show the help of a command")
    .configureHelp({ showGlobalOptions: true })
    .showSuggestionAfterError(true)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void cli.out.write(text),
      writeErr: (text) => void cli.err.write(text),
      // The caller reports failures, in one format for all.
      outputError: () => {},
      getOutHelpWidth: () => cli.out.columns,
      getErrHelpWidth: () => cli.err.columns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    });
  for (const [heading, commands] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of commands) add(program, cli);
  }
  addExamples(program);
  return program;
}
