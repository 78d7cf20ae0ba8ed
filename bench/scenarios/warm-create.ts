/** Warm create over HTTP: from a request to the end of the first command in a pooled sandbox. */
import { setTimeout as sleep } from "node:timers/promises";
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { everyRounds, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

const POOL_SIZE = 4;
const LOOK_EVERY_MS = 5;
/** Slow contestants only take part in some rounds. */
const SLOW_EVERY_ROUNDS = 2;
/** Custom limits prevent a session from getting a pooled sandbox. */
const COLD = { limits: { pids: 250 } };

export const warmCreate: Scenario = {
  name: "warm create",
  what: "a session from the pool and its first `true`, over HTTP",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { spawnTimer, docker, signal, progress } = context;
  const scenario = warmCreate.name;
  await using daemon = await context.startDaemon({ POOL: `host=${POOL_SIZE}` });
  await poolIsFull(daemon, signal);
  // A daemon's code is compiled while it runs, and one with a pool creates many sandboxes.
  for (let made = 0; made < (context.quick ? 4 : 100); made++) {
    await createAndRun(daemon, "pool");
    await poolIsFull(daemon, signal);
  }
  const warmUpRounds = 4;
  const creates: number[] = [];
  const contestants: Record<string, Contestant> = {
    "fork+exec+wait": () => spawnTimer.timeUs(["/bin/true"]),
    "HTTP, healthz": () => timeUs(() => daemon.client.text("GET", "/healthz")),
    "HTTP, warm, first true": async () => {
      const { createdUs, elapsedUs } = await createAndRun(daemon, "pool");
      creates.push(createdUs);
      await poolIsFull(daemon, signal);
      return elapsedUs;
    },
    "HTTP, cold, first true": everyRounds(
      SLOW_EVERY_ROUNDS,
      async () => (await createAndRun(daemon, "cold")).elapsedUs,
    ),
  };
  if (docker !== undefined)
    contestants["docker run"] = everyRounds(SLOW_EVERY_ROUNDS, () =>
      spawnTimer.timeUs(docker.runCommand(["--rm"], "true")),
    );
  const series = await interleave(contestants, {
    scenario,
    rounds: context.quick ? 10 : 60,
    warmUpRounds,
    signal,
    onRound: (round, rounds) => {
      if (round % 10 === 0) progress(`round ${round} of ${rounds}`);
    },
  });
  const created = creates.slice(warmUpRounds);
  return [...series, { scenario, name: "HTTP, warm, created", unit: "us", samples: created }];
}

/** One session from nothing to the end of its first command; destroying it is not measured. */
async function createAndRun(
  daemon: BenchDaemon,
  source: "pool" | "cold",
): Promise<{ readonly createdUs: number; readonly elapsedUs: number }> {
  const startedMs = performance.now();
  const session = await daemon.open(source === "cold" ? COLD : {});
  const createdMs = performance.now();
  await session.exec("true");
  const endedMs = performance.now();
  if (session.acquireSource !== source)
    throw new Error(`a session was to come from ${source} and came from ${session.acquireSource}`);
  await session.destroy();
  return { createdUs: (createdMs - startedMs) * 1000, elapsedUs: (endedMs - startedMs) * 1000 };
}

async function poolIsFull(daemon: BenchDaemon, signal: AbortSignal): Promise<void> {
  while ((await daemon.pooledSandboxes()) < POOL_SIZE) {
    signal.throwIfAborted();
    await sleep(LOOK_EVERY_MS);
  }
}
