/**
 * Nearly everything runs in parallel, each file with a separate data directory; what measures the
 * machine runs alone. `npm test` runs unit tests, the core's suites and the hostile suites on crun whole,
 * and a part of the long suites, and of what runs on the other runtimes, chosen by the seed.
 * `npm run torture` leaves nothing out, and runs more rounds.
 */
import { globSync } from "node:fs";
import { configDefaults, defineConfig } from "vitest/config";
import type { TestProjectInlineConfiguration } from "vitest/config";
import { resolve } from "node:path";
import { slowFilesFirst } from "./scripts/slow-files-first.ts";
import { reportPathVariable, TallyReporter } from "./scripts/tally-reporter.ts";
import { parseSeed, SeedReporter, seedVariable, tortureVariable } from "./scripts/test-run.ts";
import type {} from "./tests/support/docker-under-test.ts";
import type {} from "./tests/support/postgres-under-test.ts";
import { whyNoGvisor } from "./tests/support/gvisor.ts";
import type {} from "./tests/support/rounds.ts";
import type { RuntimeOfRun } from "./tests/support/runtime-under-test.ts";
import { pick, randomFor } from "./tests/support/seeded.ts";

const isTorture = process.env[tortureVariable] === "1";
const seed = parseSeed(process.env[seedVariable]);

const minutes = 60_000;

const sandboxTests = [
  "tests/**/*.test.ts",
  "packages/daemon/src/backends/**/*.test.ts",
  "packages/daemon/src/images/**/*.test.ts",
  "packages/**/*.serial.test.ts",
];

const daemonTests = [
  "tests/e2e/{agent-examples,dashboard*,documentation,exec-api,http-contract,network*,previews*,python-client,sdk*,site}.test.ts",
  "tests/torture/daemon-*.test.ts",
  "packages/cli/**/*.serial.test.ts",
  "packages/daemon/src/{store,journal}/**/*.serial.test.ts",
];

/** Tests that need a Docker engine, which a global set-up starts once for all of them. */
const dockerTests = [
  "packages/daemon/src/backends/docker/**/*.test.ts",
  "tests/docker/**/*.test.ts",
];

/** Tests that need a Postgres database, in a cluster that a global set-up starts once for all of them. */
const postgresTests = ["packages/daemon/src/**/postgres/**/*.test.ts"];

/**
 * Tests that need the whole machine, because they measure shares, times or total memory, or a
 * process of their own: Genkit permanently takes the tracer that it finds at its first action.
 */
const measuringTests = [
  "packages/agents/src/telemetry/agent-telemetry.serial.test.ts",
  "tests/hostile/resources*.test.ts",
  "tests/support/oracles/*.test.ts",
  "packages/daemon/src/surfaces/stalls.test.ts",
];

/** Suites that are too long for `npm test` as a whole: it runs `count` of their files. */
const longSuites = {
  /** They kill, fill and starve things. */
  torture: {
    files: filesOf(
      "tests/torture/*.test.ts",
      "packages/agents/src/{workflows/service-crash,runs/dead-processes}.serial.test.ts",
    ),
    count: 2,
  },
  deployments: {
    files: filesOf(
      "tests/install/*.test.ts",
      "tests/docker/{daemons-at-once,deployment,several-daemons}.test.ts",
      "packages/daemon/src/backends/docker/docker-{strategies,faults}.test.ts",
      "tests/e2e/{dashboard-scale,image-build,image-recipes}.test.ts",
    ),
    count: 1,
  },
  /** What a Docker engine does beside running sandboxes. */
  docker: {
    files: filesOf(
      "tests/docker/{agents,daemon,engine,image-build}.test.ts",
      "packages/daemon/src/backends/docker/docker-{gateway,imports,network,pulls,shared-engine,var-tmp}.test.ts",
      "packages/daemon/src/backends/docker/engine-{connection,tls}.test.ts",
    ),
    count: 3,
  },
  agents: {
    files: filesOf(
      "packages/agents/src/runs/{acceptance,hung-daemon,nasty-agents}.serial.test.ts",
      "packages/agents/src/workflows/shared-sandbox.serial.test.ts",
      "packages/{cli,mcp,tools}/src/**/*.serial.test.ts",
    ),
    count: 8,
  },
  product: {
    files: filesOf(
      "tests/e2e/{agent-examples,commit,dashboard,dashboard-previews,dashboard-runs,grafana-dashboard,python-client}.test.ts",
      "tests/e2e/{sdk-browser,sdk-pool,site,strong-isolation,telemetry}.test.ts",
    ),
    count: 4,
  },
  oracles: { files: filesOf("tests/support/oracles/*.test.ts"), count: 0 },
  /** It fetches a gigabyte of packages. */
  downloads: { files: filesOf("tests/e2e/standard-images.test.ts"), count: 0 },
};

/** The long suites that this run leaves out. */
const leftOut = Object.entries(longSuites).flatMap(([name, { files, count }]) => {
  const chosen = new Set(partOf(`long ${name}`, files, count));
  return files.filter((file) => !chosen.has(file));
});

/** Files that run longer than others, although they need not look like it. */
const slow = new Set(
  [
    ...Object.values(longSuites).flatMap(({ files }) => files),
    ...filesOf(
      "tests/e2e/{event-replay,shell,shell-stops}.test.ts",
      "packages/daemon/src/**/*-backend.test.ts",
    ),
  ].map((file) => resolve(file)),
);

/** What runs on every embedded runtime, and what containers of a Docker engine must withstand as well. */
const suites = {
  embedded: filesOf(
    "tests/hostile/!(resources*).test.ts",
    "tests/torture/*.test.ts",
    "tests/e2e/shell-ends.test.ts",
  ),
  embeddedMeasuring: filesOf("tests/hostile/resources*.test.ts"),
  docker: filesOf("tests/hostile/{files,runner}-*.test.ts"),
  dockerMeasuring: filesOf("tests/hostile/resources*.test.ts"),
};

/** The embedded runtimes besides crun; `npm test` runs one file on each. */
const otherRuntimes: readonly RuntimeOfRun[] = ["runc", "runsc"];

function filesOf(...patterns: readonly string[]): readonly string[] {
  return patterns.flatMap((pattern) => {
    const files = globSync(pattern);
    if (files.length === 0) throw new Error(`no test matches ${pattern}`);
    return files.toSorted();
  });
}

/** All files in the torture run, otherwise a number of them chosen by the seed. */
function partOf(name: string, files: readonly string[], count: number): string[] {
  return isTorture ? [...files] : pick(files, count, randomFor(seed, name));
}

type ProjectTest = NonNullable<TestProjectInlineConfiguration["test"]>;

function project(name: string, runtime: RuntimeOfRun, test: ProjectTest) {
  return {
    test: {
      name,
      // A worker keeps loaded modules for the next file: loading them again takes longer than most
      // tests.
      isolate: false,
      // The leak oracle collects garbage before it measures.
      execArgv: ["--expose-gc"],
      provide: { runtime, seed, isTorture },
      testTimeout: (isTorture ? 60 : 5) * minutes,
      hookTimeout: 2 * minutes,
      // The default of one second is too short on a busy machine.
      expect: { poll: { timeout: 1 * minutes } },
      maxWorkers: 6,
      setupFiles: "tests/support/oracles/host-devices.ts",
      ...test,
    },
  } satisfies TestProjectInlineConfiguration;
}

/** One file after the other, each in a new process: it measures its own memory. */
const alone = { isolate: true, fileParallelism: false, maxWorkers: 1 } satisfies ProjectTest;

const onCrun = [
  project("unit", "crun", {
    include: ["packages/**/*.test.ts", "scripts/**/*.test.ts", "bench/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...sandboxTests, ...postgresTests, ...measuringTests],
    ...(isTorture ? {} : { testTimeout: 20_000, hookTimeout: 20_000 }),
    maxWorkers: 3,
    setupFiles: [],
    sequence: { groupOrder: 0 },
  }),
  project("postgres", "crun", {
    include: postgresTests,
    setupFiles: [],
    globalSetup: "tests/support/postgres-for-run.ts",
    sequence: { groupOrder: 1 },
  }),
  project("sandbox", "crun", {
    include: sandboxTests,
    exclude: [
      ...configDefaults.exclude,
      ...daemonTests,
      ...dockerTests,
      ...measuringTests,
      ...leftOut,
    ],
    sequence: { groupOrder: 1 },
  }),
  project("daemon", "crun", {
    include: daemonTests,
    exclude: [...configDefaults.exclude, ...leftOut],
    sequence: { groupOrder: 1 },
  }),
  project("measuring", "crun", {
    ...alone,
    include: measuringTests,
    exclude: [...configDefaults.exclude, ...leftOut],
    sequence: { groupOrder: 2 },
  }),
];

const noGvisor = whyNoGvisor();
if (noGvisor !== undefined) process.stdout.write(`not run on runsc: ${noGvisor}\n`);
const usable = otherRuntimes.filter((runtime) => runtime !== "runsc" || noGvisor === undefined);

/** `npm test` measures on one of the other runtimes and engines. */
const measured = new Set(partOf("measured", [...usable, "docker"], 1));

function measuredPart(runtime: RuntimeOfRun, files: readonly string[]): string[] {
  return measured.has(runtime) ? partOf(`${runtime} measuring`, files, 1) : [];
}

const onOtherRuntimes = usable.flatMap((runtime) => [
  project(runtime, runtime, {
    include: partOf(runtime, suites.embedded, 1),
    sequence: { groupOrder: 1 },
  }),
  project(`${runtime} measuring`, runtime, {
    ...alone,
    include: measuredPart(runtime, suites.embeddedMeasuring),
    sequence: { groupOrder: 2 },
  }),
]);

const onDocker = [
  project("docker", "docker", {
    include: [...dockerTests, ...partOf("docker", suites.docker, 1)],
    exclude: [...configDefaults.exclude, ...leftOut],
    globalSetup: "tests/support/docker-for-run.ts",
    sequence: { groupOrder: 1 },
  }),
  project("docker measuring", "docker", {
    ...alone,
    include: measuredPart("docker", suites.dockerMeasuring),
    globalSetup: "tests/support/docker-for-run.ts",
    sequence: { groupOrder: 2 },
  }),
];

const reportPath = process.env[reportPathVariable];

export default defineConfig({
  test: {
    pool: "forks",
    reporters: [
      "default",
      new SeedReporter(seed),
      ...(reportPath === undefined ? [] : [new TallyReporter(reportPath)]),
    ],
    sequence: { sequencer: slowFilesFirst((path) => slow.has(path)) },
    projects: [...onCrun, ...onOtherRuntimes, ...onDocker],
  },
});
