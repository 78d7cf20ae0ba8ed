/**
 * Nearly everything runs side by side, each file with a data directory of its own; what measures the
 * machine runs alone. What races file calls and attacks PID 1 runs a second time, in containers of a
 * Docker engine.
 */
import { configDefaults, defineConfig } from "vitest/config";
import { reportPathVariable, TallyReporter } from "./scripts/tally-reporter.ts";

const sandboxTests = [
  "tests/**/*.test.ts",
  "packages/daemon/src/backends/**/*.test.ts",
  "packages/daemon/src/images/**/*.test.ts",
  "packages/**/*.serial.test.ts",
];

const daemonTests = [
  "tests/e2e/{agent-examples,documentation,http-contract,sdk*}.test.ts",
  "tests/torture/daemon-*.test.ts",
  "packages/cli/**/*.serial.test.ts",
  "packages/daemon/src/{store,journal}/**/*.serial.test.ts",
];

/** Tests that need a Docker engine, which one set-up starts for all of them. */
const dockerTests = [
  "packages/daemon/src/backends/docker/**/*.test.ts",
  "tests/docker/**/*.test.ts",
];

/** Attacks on file calls and on PID 1 that an engine's containers have to stand as well. */
const runnerAttacks = ["tests/hostile/{files-races,runner-init}.test.ts"];

/** What needs the machine for itself, because it looks at shares, times or all of its memory. */
const measuringTests = ["tests/hostile/resources*.test.ts", "tests/support/oracles/*.test.ts"];

/** A worker keeps what it has loaded for the next file: loading it anew takes longer than most tests. */
const keepingLoaded = { isolate: false };

const reportPath = process.env[reportPathVariable];

export default defineConfig({
  test: {
    pool: "forks",
    reporters: ["default", ...(reportPath === undefined ? [] : [new TallyReporter(reportPath)])],
    projects: [
      {
        test: {
          name: "unit",
          ...keepingLoaded,
          include: ["packages/**/*.test.ts", "scripts/**/*.test.ts", "bench/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...sandboxTests],
          testTimeout: 20_000,
          hookTimeout: 20_000,
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: "sandbox",
          ...keepingLoaded,
          include: sandboxTests,
          exclude: [...configDefaults.exclude, ...daemonTests, ...dockerTests, ...measuringTests],
          provide: { runtime: "crun" },
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "daemon",
          ...keepingLoaded,
          include: daemonTests,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "docker",
          ...keepingLoaded,
          include: [...dockerTests, ...runnerAttacks],
          provide: { runtime: "docker" },
          globalSetup: "tests/support/docker-for-run.ts",
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "measuring",
          // The memory of a process says something only when nothing ran in it before.
          isolate: true,
          include: measuringTests,
          provide: { runtime: "crun" },
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
