/** `sandkasten doctor`: whether sandboxes can run here, and what to mend if not. */
import type { CheckedBackend, CheckedMachine } from "@sandkasten/daemon";
import type { Config, ConfigDescription } from "@sandkasten/daemon/config";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { findDaemon } from "../daemon-address.ts";
import { isRecentNode, LEAST_NODE } from "../least-node.ts";
import { addConfigOptions, type ConfigOptions, loadLocalConfig } from "../local-config.ts";
import { plainJson, plainText } from "../output/plain-text.ts";
import { startFailure } from "../bring-up.ts";
import { describeFailure } from "../report-failure.ts";
import { printConfig } from "./config.ts";

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly remedy?: string;
}

interface Diagnosis {
  /** Sandboxes can run on this machine with this configuration. */
  readonly usable: boolean;
  readonly machine: readonly Check[];
  /** What can make sandboxes, in use or not. */
  readonly backends: readonly CheckedBackend[];
  readonly configuration: ConfigDescription | undefined;
  readonly daemon: Check;
}

export function addDoctorCommand(program: Command, cli: Cli): void {
  const command = program
    .command("doctor")
    .summary("check whether sandboxes can run here")
    .description(
      "Checks everything that sandboxes need of this machine, shows the configuration in effect and " +
        "whether a daemon answers. Needs no daemon. Exits with 1 when sandboxes cannot run here.",
    );
  addConfigOptions(command).action(async (options: ConfigOptions) => {
    const diagnosis = await examine(cli, options);
    if (!diagnosis.usable) cli.exitWith(1);
    if (cli.wantsJson()) return cli.out.line(plainJson(diagnosis, 2));
    await (cli.out.isTerminal ? printForPeople(cli, diagnosis) : printLines(cli, diagnosis));
  });
}

async function examine(cli: Cli, options: ConfigOptions): Promise<Diagnosis> {
  const node = nodeCheck(process.versions.node);
  const daemon = await daemonCheck(cli);
  let config: Config;
  try {
    config = await loadLocalConfig(cli, options);
  } catch (error) {
    const { message } = describeFailure(error);
    const remedy = "Correct the file, the variable or the flag that is named.";
    const broken = { name: "configuration", ok: false, detail: message, remedy };
    const machine = [node, broken];
    return { usable: false, machine, backends: [], configuration: undefined, daemon };
  }
  const { describeConfig } = await import("@sandkasten/daemon/config");
  const health = await machineHealth(config);
  return {
    usable: node.ok && health.usable,
    machine: [node],
    backends: health.backends,
    configuration: describeConfig(config),
    daemon,
  };
}

/** What keeps the checks from being made is the first thing to mend. */
async function machineHealth(config: Config): Promise<CheckedMachine> {
  try {
    const { checkMachine } = await import("@sandkasten/daemon");
    return await checkMachine(config, "all");
  } catch (error) {
    const { message, hint } = describeFailure(startFailure(error));
    const checks = [{ name: "checks", ok: false, detail: message, remedy: hint }];
    const name = config.backend;
    return { usable: false, backends: [{ name, configured: true, usable: false, checks }] };
  }
}

function nodeCheck(version: string): Check {
  const ok = isRecentNode(version);
  return {
    name: "node",
    ok,
    detail: `Node ${version}`,
    ...(!ok && {
      remedy: `Install Node ${LEAST_NODE} or newer, or run \`npm run setup\` in a clone.`,
    }),
  };
}

async function daemonCheck(cli: Cli): Promise<Check> {
  const name = "daemon";
  let url = "";
  try {
    ({ url } = await findDaemon(cli));
    const client = await cli.connect();
    const { version, backend } = await client.version({ signal: cli.interrupts.signal });
    return { name, ok: true, detail: `${url} answers: version ${version}, backend ${backend}` };
  } catch (error) {
    cli.interrupts.signal.throwIfAborted();
    const { code, message, hint } = describeFailure(error);
    const detail = code === "CONNECTION_FAILED" ? `none answers at ${url}` : message;
    return { name, ok: false, detail, remedy: hint };
  }
}

async function printForPeople(cli: Cli, diagnosis: Diagnosis): Promise<void> {
  const { out } = cli;
  const { bold, green, red } = out.style;
  await out.line(bold("Machine"));
  for (const check of diagnosis.machine) await printCheck(cli, check);
  for (const { name, configured, usable, checks } of diagnosis.backends) {
    const use = configured ? "in use" : usable ? "works, not in use" : "not in use";
    await out.line(`\n${bold(`Backend ${plainText(name)}`)} ${out.style.dim(use)}`);
    for (const check of checks) await printCheck(cli, check);
  }
  await out.line(`\n${bold("Daemon")}`);
  await printCheck(cli, diagnosis.daemon);
  if (diagnosis.configuration !== undefined) {
    const { file, warnings } = diagnosis.configuration;
    await out.line(`\n${bold("Configuration")} ${out.style.dim(plainText(file ?? "no file"))}`);
    await printConfig(cli, diagnosis.configuration);
    for (const warning of warnings)
      await out.line(`${out.style.yellow("!")} ${plainText(warning)}`);
  }
  await out.line(
    diagnosis.usable
      ? `\n${green("✓")} Sandboxes can run here.`
      : `\n${red("✗")} Sandboxes cannot run here yet.`,
  );
}

async function printCheck({ out }: Cli, { name, ok, detail, remedy }: Check): Promise<void> {
  const { green, red, dim } = out.style;
  await out.line(`${ok ? green("✓") : red("✗")} ${plainText(name)} ${dim(plainText(detail))}`);
  if (!ok && remedy !== undefined) await out.line(`  → ${plainText(remedy)}`);
}

/** One line for each fact, for programs: kind, name, state or source, detail, remedy. */
async function printLines({ out }: Cli, diagnosis: Diagnosis): Promise<void> {
  const checks = diagnosis.backends.flatMap((backend) =>
    backend.checks.map((check) => ({ ...check, name: `${backend.name}.${check.name}` })),
  );
  for (const { name, ok, detail, remedy } of [...diagnosis.machine, ...checks, diagnosis.daemon])
    await out.line(["check", name, ok ? "✓" : "✗", detail, remedy ?? ""].map(plainText).join("\t"));
  for (const { key, value, source } of diagnosis.configuration?.settings ?? [])
    await out.line(
      ["setting", key, source.name, JSON.stringify(value ?? null)].map(plainText).join("\t"),
    );
  await out.line(`usable\t${diagnosis.usable ? "yes" : "no"}`);
}
