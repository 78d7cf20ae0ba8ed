/**
 * Runs the checks and tests of `npm test` and prints one line for each, then the totals: `node scripts/check.ts`.
 * `--torture` runs every test instead, with all rounds; `--seed NUMBER` repeats an earlier run's random choices.
 * With names (`node scripts/check.ts lint types`) it runs only those and shows their output as it comes.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Stages, type Step, type StepEnd, stages, tortureStages } from "./steps.ts";
import { type Report, summaryLine } from "./tally.ts";
import { parseSeed, seedLine, seedVariable } from "./test-run.ts";

const root = join(import.meta.dirname, "..");
const usualTimeoutMs = 45 * 60_000;

/** Flags from the environment would test different binaries than those shipped. */
const withoutFlags = {
  RUSTFLAGS: undefined,
  CARGO_ENCODED_RUSTFLAGS: undefined,
  CARGO_BUILD_RUSTFLAGS: undefined,
  CARGO_BUILD_TARGET: undefined,
};
/** Colour codes would make the results hard to parse. */
const withoutColours = { NO_COLOR: "1", FORCE_COLOR: undefined, CARGO_TERM_COLOR: "never" };

/**
 * Resolves with the exit code. The end of the process counts, not the end of its output: a process
 * that a broken test left running must not delay the verdict.
 */
function run(step: Step, scratchDir: string, output: number | "inherit"): Promise<number> {
  const [command, ...args] = step.argv;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: join(root, step.cwd ?? "."),
      env: {
        ...process.env,
        ...withoutFlags,
        ...(output === "inherit" ? {} : withoutColours),
        ...step.env?.(scratchDir),
        PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
      },
      stdio: ["ignore", output, output],
      timeout: step.timeoutMs ?? usualTimeoutMs,
    });
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

async function runCaptured(step: Step, scratchDir: string): Promise<StepEnd> {
  const outputPath = join(scratchDir, "output");
  const output = openSync(outputPath, "w");
  let failure = "";
  let exitCode = 1;
  try {
    exitCode = await run(step, scratchDir, output);
  } catch (error) {
    failure = `\nThe step could not be run: ${String(error)}`;
  } finally {
    closeSync(output);
  }
  return { exitCode, output: (await readFile(outputPath, "utf8")) + failure, scratchDir };
}

async function judge(step: Step, end: StepEnd): Promise<Report & { readonly note: string }> {
  const failure = { passed: 0, failed: 1, skipped: 0, skippedNames: [] };
  if (step.tally === undefined) {
    const report = end.exitCode === 0 ? { ...failure, passed: 1, failed: 0 } : failure;
    return { ...report, note: "" };
  }
  try {
    const report = await step.tally(end);
    return { ...report, note: ` (${summaryLine(report)})` };
  } catch (error) {
    return { ...failure, note: ` (${error instanceof Error ? error.message : String(error)})` };
  }
}

async function checkOne(step: Step): Promise<Report> {
  const scratchDir = await mkdtemp(join(tmpdir(), "sandkasten-check-"));
  try {
    const startedMs = performance.now();
    const end = await runCaptured(step, scratchDir);
    const report = await judge(step, end);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    console.log(`${report.failed > 0 ? "✗" : "✓"} ${step.name} ${seconds} s${report.note}`);
    for (const name of report.skippedNames) console.log(`  skipped: ${name}`);
    if (report.failed > 0) console.log(end.output);
    return report;
  } finally {
    await rm(scratchDir, { recursive: true, force: true });
  }
}

async function checkAll(chosen: Stages): Promise<boolean> {
  const total = { passed: 0, failed: 0, skipped: 0 };
  const checkRow = async (row: readonly Step[]): Promise<void> => {
    for (const step of row) {
      const { passed, failed, skipped } = await checkOne(step);
      total.passed += passed;
      total.failed += failed;
      total.skipped += skipped;
    }
  };
  for (const rows of chosen) await Promise.all(rows.map(checkRow));
  console.log(summaryLine(total));
  return total.failed === 0;
}

async function checkNamed(names: readonly string[]): Promise<boolean> {
  let ok = true;
  const steps = [...stages, ...tortureStages].flat(2);
  for (const name of names) {
    const step = steps.find((candidate) => candidate.name === name);
    if (step === undefined) {
      const known = steps.map((candidate) => candidate.name).join(", ");
      throw new Error(`There is no step "${name}"; there are ${known}.`);
    }
    const scratchDir = await mkdtemp(join(tmpdir(), "sandkasten-check-"));
    try {
      ok = (await run(step, scratchDir, "inherit")) === 0 && ok;
    } finally {
      await rm(scratchDir, { recursive: true, force: true });
    }
  }
  return ok;
}

const { values, positionals } = parseArgs({
  options: { seed: { type: "string" }, torture: { type: "boolean", default: false } },
  allowPositionals: true,
});
const seed = parseSeed(values.seed ?? process.env[seedVariable]);
process.env[seedVariable] = String(seed);
if (positionals.length === 0) console.log(seedLine(seed));
const isOk =
  positionals.length > 0
    ? await checkNamed(positionals)
    : await checkAll(values.torture ? tortureStages : stages);
process.exitCode = isOk ? 0 : 1;
