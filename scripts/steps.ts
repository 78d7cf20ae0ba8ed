/** The checks and test runs that make up a full verification. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { reportPathVariable } from "./tally-reporter.ts";
import { tortureVariable } from "./test-run.ts";
import { type Report, tallyCargo, tallyVitest } from "./tally.ts";

export interface StepEnd {
  readonly exitCode: number;
  readonly output: string;
  /** A directory for the step's reports. */
  readonly scratchDir: string;
}

export interface Step {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly env?: (scratchDir: string) => Readonly<Record<string, string>>;
  /** Relative to the project's root, which is the default. */
  readonly cwd?: string;
  /** The step's timeout, if it is longer than usual. */
  readonly timeoutMs?: number;
  /** Counts the tests of the step. A step without it is one check, which passes if it exits with 0. */
  readonly tally?: (end: StepEnd) => Report | Promise<Report>;
}

const vitestReport = (scratchDir: string): string => join(scratchDir, "vitest.json");

const checks: readonly Step[] = [
  { name: "format", argv: ["oxfmt", "--check", "."] },
  { name: "lint", argv: ["oxlint"] },
  // TypeScript 7, which has no compiler API; the `tsc` in PATH is 6, kept for tools that need one.
  {
    name: "types",
    argv: ["node", "node_modules/typescript-native/bin/tsc", "--project", "."],
  },
  // It runs in browsers, which have other globals.
  {
    name: "types-dashboard",
    argv: ["node", "node_modules/typescript-native/bin/tsc", "--project", "packages/dashboard"],
  },
  { name: "boundaries", argv: ["node", "scripts/boundaries.ts"] },
  { name: "deadcode", argv: ["knip", "--no-progress", "--no-config-hints"] },
];

const rust: readonly Step[] = [
  { name: "rust-format", argv: ["cargo", "fmt", "--all", "--check"], cwd: "native" },
  {
    name: "rust-lint",
    argv: ["cargo", "clippy", "--locked", "--all-targets", "--", "--deny", "warnings"],
    cwd: "native",
  },
  {
    name: "rust-tests",
    argv: ["cargo", "test", "--locked", "--no-fail-fast"],
    cwd: "native",
    tally: ({ output, exitCode }) => tallyCargo(output, exitCode),
  },
];

const tests: Step = {
  name: "tests",
  argv: ["vitest", "run"],
  env: (scratchDir) => ({ [reportPathVariable]: vitestReport(scratchDir) }),
  tally: async ({ scratchDir, exitCode }) =>
    tallyVitest(await readFile(vitestReport(scratchDir), "utf8"), exitCode),
};

const torture: Step = {
  ...tests,
  name: "torture",
  env: (scratchDir) => ({ ...tests.env?.(scratchDir), [tortureVariable]: "1" }),
  timeoutMs: 6 * 60 * 60_000,
};

/** Stages run one after the other; the rows of a stage run in parallel, and the steps of each row in order. */
export type Stages = readonly (readonly (readonly Step[])[])[];

/** What CI runs. */
export const stages: Stages = [[checks, rust], [[tests]]];

/** Every test, on every runtime and with all rounds. */
export const tortureStages: Stages = [[[torture]]];
