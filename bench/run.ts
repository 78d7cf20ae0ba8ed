/**
 * Measures everything side by side in one run and prints ratios against the budgets:
 * `node bench/run.ts [--quick] [--docker] [--idle N] [--density N] [--only NAME] [--json FILE]`.
 */
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { cpus, loadavg, release, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SandboxError } from "@sandkasten/protocol";
import { BenchDaemon } from "./bench-daemon.ts";
import { BenchDocker } from "./bench-docker.ts";
import { BenchMachine, RUNTIMES } from "./bench-machine.ts";
import type { BenchRuntime } from "./bench-machine.ts";
import { BUDGETS, judge } from "./budgets.ts";
import type { BenchContext, Scenario } from "./context.ts";

import { jsonReport, renderReport } from "./report.ts";
import { agentRuns } from "./scenarios/agent-runs.ts";
import { createBurst } from "./scenarios/create-burst.ts";
import { coldCreate } from "./scenarios/cold-create.ts";
import { dashboard } from "./scenarios/dashboard.ts";
import { density } from "./scenarios/density.ts";
import { destroy } from "./scenarios/destroy.ts";
import { dockerFiles } from "./scenarios/docker-files.ts";
import { execTrue } from "./scenarios/exec-true.ts";
import { stores } from "./scenarios/stores.ts";
import { gateway } from "./scenarios/gateway.ts";
import { idleMemory } from "./scenarios/idle-memory.ts";
import { largeFile } from "./scenarios/large-file.ts";
import { preview } from "./scenarios/preview.ts";
import { smallFile } from "./scenarios/small-file.ts";
import { stdoutFlood } from "./scenarios/stdout-flood.ts";
import { telemetry } from "./scenarios/telemetry.ts";
import { toolCalls } from "./scenarios/tool-calls.ts";
import { warmCreate } from "./scenarios/warm-create.ts";
import { workflowSteps } from "./scenarios/workflow-steps.ts";
import type { Series } from "./series.ts";
import { SpawnTimer } from "./spawn-timer.ts";

const NATIVE_DIR = join(import.meta.dirname, "../native/bin");

/** Scenarios that measure this process's memory come first, while it is still small. */
const SCENARIOS: readonly Scenario[] = [
  stdoutFlood,
  gateway,
  idleMemory,
  warmCreate,
  coldCreate,
  createBurst,
  agentRuns,
  execTrue,
  stores,
  smallFile,
  largeFile,
  preview,
  telemetry,
  toolCalls,
  workflowSteps,
  dashboard,
  dockerFiles,
  destroy,
  density,
];

const USAGE = `usage: node bench/run.ts [--quick] [--docker] [--idle N] [--density N] [--only NAME] [--json FILE]

  --quick      fewer rounds: a look, not a verdict
  --docker     start a private dockerd and compare with it
  --idle N     how many idle sandboxes to measure the memory of (20)
  --density N  how many sandboxes there are at once when many are measured (500, quick: 60)
  --only NAME  one scenario, more with more of these: ${SCENARIOS.map(({ name }) => `"${name}"`).join(", ")}
  --json FILE  write every sample and verdict there, too`;

interface Wanted {
  readonly quick: boolean;
  readonly docker: boolean;
  readonly idleSandboxes: number;
  readonly densitySandboxes: number;
  readonly scenarios: readonly Scenario[];
  readonly jsonPath: string | undefined;
}

function parse(args: readonly string[]): Wanted {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      docker: { type: "boolean", default: false },
      idle: { type: "string", default: "20" },
      density: { type: "string" },
      only: { type: "string", multiple: true, default: [] },
      json: { type: "string" },
    },
  });
  const idleSandboxes = sandboxCount("--idle", values.idle, 1);
  const densitySandboxes = sandboxCount(
    "--density",
    values.density ?? (values.quick ? "60" : "500"),
    2,
  );
  const unknown = values.only.find((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined) throw new TypeError(`there is no scenario ${JSON.stringify(unknown)}`);
  const scenarios = SCENARIOS.filter(
    ({ name }) => values.only.length === 0 || values.only.includes(name),
  );
  const { quick, docker, json: jsonPath } = values;
  return { quick, docker, idleSandboxes, densitySandboxes, scenarios, jsonPath };
}

function sandboxCount(flag: string, text: string, least: number): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < least)
    throw new TypeError(`${flag} takes a number of sandboxes, at least ${least}, not ${text}`);
  return count;
}

function say(text: string): void {
  // On a terminal the line is overwritten; in a log every state gets a line.
  if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${text}`);
  else process.stderr.write(`${text}\n`);
}

async function measureAll(wanted: Wanted, signal: AbortSignal): Promise<Series[]> {
  await using stack = new AsyncDisposableStack();
  const scratchDir = await mkdtemp(join(tmpdir(), "sandkasten-bench-"));
  stack.defer(() => rm(scratchDir, { recursive: true, force: true }));
  say("preparing");
  const spawnTimer = stack.use(await SpawnTimer.start(scratchDir));
  // A copy, so the whole run measures the same programs, even if others are built meanwhile.
  const nativeDir = join(scratchDir, "native");
  await cp(NATIVE_DIR, nativeDir, { recursive: true });
  const machines = new Map<BenchRuntime, BenchMachine>();
  for (const runtime of RUNTIMES) {
    const options = { dataDir: join(scratchDir, runtime), runtime, nativeDir };
    try {
      machines.set(runtime, stack.use(await BenchMachine.start(options)));
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      process.stderr.write(`without ${runtime}: ${error.message}\n`);
    }
  }
  const [preferred] = machines;
  if (preferred === undefined) throw new Error("no runtime of this machine makes sandboxes");
  const [runtime, machine] = preferred;
  const docker = wanted.docker
    ? stack.use(await BenchDocker.start(join(scratchDir, "docker"), signal))
    : undefined;
  let daemons = 0;
  const startDaemon: BenchContext["startDaemon"] = (settings = {}, program) =>
    BenchDaemon.start({
      directory: join(scratchDir, `daemon-${++daemons}`),
      runtime,
      settings,
      program,
    });
  const measured: Series[] = [];
  for (const scenario of wanted.scenarios) {
    const context: BenchContext = {
      quick: wanted.quick,
      idleSandboxes: wanted.idleSandboxes,
      densitySandboxes: wanted.densitySandboxes,
      signal,
      machines,
      machine,
      startDaemon,
      spawnTimer,
      docker,
      scratchDir,
      progress: (text) => say(`${scenario.name}: ${text}`),
    };
    say(`${scenario.name}: ${scenario.what}`);
    measured.push(...(await scenario.run(context)));
  }
  say("cleaning up");
  return measured;
}

async function main(): Promise<number> {
  let wanted: Wanted;
  try {
    wanted = parse(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    process.stderr.write(`${error.message}\n${USAGE}\n`);
    return 2;
  }
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => {
      say(`stopping after ${name}\n`);
      interrupted.abort(new Error(`stopped by ${name}`));
    });
  const facts = {
    node: process.version,
    kernel: release(),
    processors: cpus().length,
    loadBefore: loadavg()[0],
    quick: wanted.quick,
  };
  let measured: Series[];
  try {
    measured = await measureAll(wanted, interrupted.signal);
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    return 130;
  }
  say("");
  const verdicts = judge(BUDGETS, measured);
  const styled = process.stdout.isTTY && process.env["NO_COLOR"] === undefined;
  process.stdout.write(`${renderReport(measured, verdicts, { styled })}\n`);
  if (wanted.jsonPath !== undefined)
    await writeFile(wanted.jsonPath, jsonReport(facts, measured, verdicts));
  return 0;
}

process.exitCode = await main();
