/** `sandkasten doctor`: whether sandboxes can run here, and what to fix if not. */
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
  /** What can create sandboxes, in use or not. */
  readonly backends: readonly CheckedBackend[];
  readonly configuration: ConfigDescription | undefined;
  readonly daemon: Check;
}

export function addDoctorCommand(program: Command, cli: Cli): void {
  const command = program
    .command("doctor")
    .summary("check whether sandboxes can run here")
    .description(
      "Checks everything that sandboxes need on this machine, shows the configuration in effect and " +
        "whether a daemon responds. Works without a daemon. Exits with 1 if sandboxes cannot run here.",
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
    const remedy = "Correct the named file, variable or flag.";
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

/** A problem that prevents the checks is the first thing to fix. */
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
  const { bold, dim } = out.style;
  await printVerdict(cli, diagnosis);
  await out.line(`\n${bold("Machine")}`);
  for (const check of diagnosis.machine) await printCheck(cli, check, "needed");
  for (const backend of diagnosis.backends) {
    const { name, configured, usable, checks } = backend;
    const use = configured ? "in use" : usable ? "works, not in use" : "not in use";
    await out.line(`\n${bold(`Backend ${plainText(name)}`)} ${dim(use)}`);
    for (const check of checks) await printCheck(cli, check, weightOf(backend, diagnosis));
  }
  await out.line(`\n${bold("Daemon")}`);
  await printCheck(cli, diagnosis.daemon, "optional");
  if (diagnosis.configuration !== undefined) {
    const { file, warnings } = diagnosis.configuration;
    await out.line(`\n${bold("Configuration")} ${out.style.dim(plainText(file ?? "no file"))}`);
    await printConfig(cli, diagnosis.configuration);
    for (const warning of warnings)
      await out.line(`${out.style.yellow("!")} ${plainText(warning)}`);
  }
}

/** The answer, with the first step to take if it is no. */
async function printVerdict({ out }: Cli, diagnosis: Diagnosis): Promise<void> {
  const { green, red } = out.style;
  const { usable, machine, backends } = diagnosis;
  if (usable) return await out.line(`${green("✓")} Sandboxes can run here.`);
  await out.line(`${red("✗")} Sandboxes cannot run here yet.`);
  const needed = backends.filter((backend) => weightOf(backend, diagnosis) === "needed");
  const all = [...machine, ...needed.flatMap(({ checks }) => checks)];
  for (const { ok, remedy } of all)
    if (!ok && remedy !== undefined) await out.line(`  → ${plainText(remedy)}`);
}

/**
 * What a missing item means: no sandboxes, sandboxes with less isolation, or nothing. If no backend
 * works, any of them would help.
 */
type Weight = "needed" | "useful" | "optional";

function weightOf(backend: CheckedBackend, { backends }: Diagnosis): Weight {
  if (!backend.configured && backends.some(({ configured }) => configured)) return "optional";
  return backend.usable ? "useful" : "needed";
}

const MARKS: Readonly<Record<Weight, string>> = { needed: "✗", useful: "!", optional: "–" };

async function printCheck({ out }: Cli, check: Check, weight: Weight): Promise<void> {
  const { green, red, yellow, dim } = out.style;
  const { name, ok, detail, remedy } = check;
  const colour = { needed: red, useful: yellow, optional: dim }[weight];
  const mark = ok ? green("✓") : colour(MARKS[weight]);
  await out.line(`${mark} ${plainText(name)} ${dim(plainText(detail))}`);
  if (!ok && remedy !== undefined) await out.line(`  → ${plainText(remedy)}`);
}

/** One line for each fact, for programs: kind, name, state or source, detail, remedy. */
async function printLines({ out }: Cli, diagnosis: Diagnosis): Promise<void> {
  const weigh = (check: Check, weight: Weight) => ({
    ...check,
    mark: check.ok ? "✓" : MARKS[weight],
  });
  const checks = [
    ...diagnosis.machine.map((check) => weigh(check, "needed")),
    ...diagnosis.backends.flatMap((backend) =>
      backend.checks.map((check) =>
        weigh({ ...check, name: `${backend.name}.${check.name}` }, weightOf(backend, diagnosis)),
      ),
    ),
    weigh(diagnosis.daemon, "optional"),
  ];
  await out.line(`usable\t${diagnosis.usable ? "yes" : "no"}`);
  for (const { name, mark, detail, remedy } of checks)
    await out.line(["check", name, mark, detail, remedy ?? ""].map(plainText).join("\t"));
  for (const { key, value, source } of diagnosis.configuration?.settings ?? [])
    await out.line(
      ["setting", key, source.name, JSON.stringify(value ?? null)].map(plainText).join("\t"),
    );
}
