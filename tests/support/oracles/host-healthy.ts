/** Oracle H: while a sandbox is attacking, its neighbour answers as before. */
import { setTimeout as sleep } from "node:timers/promises";
import type { TestSandbox } from "../sandbox-machine.ts";

/** How long a neighbour's `echo` may take during an attack. */
const MAX_ANSWER_MS = 1_000;
/** On a slow machine, this much slower than without the attack still counts as healthy. */
const MAX_SLOWDOWN = 10;
const BASELINE_SAMPLES = 30;
const PAUSE_MS = 10;

export interface Health {
  readonly samples: number;
  readonly baselineP99Ms: number;
  readonly p99Ms: number;
}

/**
 * Runs the attack and, meanwhile, `echo` in the neighbour. Fails if that takes too long or goes
 * wrong. The attack should last for a while: a short one is hardly measured.
 */
export async function whileNeighbourAnswers<T>(
  neighbour: TestSandbox,
  attack: () => Promise<T>,
): Promise<{ readonly result: T; readonly health: Health }> {
  const baseline: number[] = [];
  for (let i = 0; i < BASELINE_SAMPLES; i++) baseline.push(await echoMs(neighbour));
  let attacking = true;
  const running = attack().finally(() => {
    attacking = false;
  });
  const times: number[] = [];
  const measuring = (async () => {
    do {
      times.push(await echoMs(neighbour));
      await sleep(PAUSE_MS);
    } while (attacking);
  })();
  // The attack may have failed first; in any case neither is left running.
  const [attacked, measured] = await Promise.allSettled([running, measuring]);
  if (attacked.status === "rejected") throw attacked.reason;
  if (measured.status === "rejected") throw measured.reason;
  const health = {
    samples: times.length,
    baselineP99Ms: percentile99(baseline),
    p99Ms: percentile99(times),
  };
  if (health.p99Ms > Math.max(MAX_ANSWER_MS, MAX_SLOWDOWN * health.baselineP99Ms))
    throw new Error(
      `The neighbour did not keep answering: p99 ${health.p99Ms} ms in ${health.samples} samples, ${health.baselineP99Ms} ms before the attack.`,
    );
  return { result: attacked.value, health };
}

async function echoMs(neighbour: TestSandbox): Promise<number> {
  const started = performance.now();
  const { stdout, exitCode } = await neighbour.sh("echo alive");
  const tookMs = performance.now() - started;
  if (stdout !== "alive\n" || exitCode !== 0)
    throw new Error(
      `The neighbour answered ${JSON.stringify(stdout)} with status ${String(exitCode)}.`,
    );
  return Math.round(tookMs * 10) / 10;
}

function percentile99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
}
