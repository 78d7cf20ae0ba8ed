/** Cold create: from nothing to a sandbox's first answer and its first command. */
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

const BUBBLEWRAP =
  "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all --die-with-parent true".split(" ");

export const coldCreate: Scenario = {
  name: "cold create",
  what: "from nothing to the first answer, and to the first `true`",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { spawnTimer, machines, docker, signal, progress } = context;
  const scenario = coldCreate.name;
  const firstTrue: Series[] = [];
  const contestants: Record<string, Contestant> = {
    "fork+exec+wait": () => spawnTimer.timeUs(["/bin/true"]),
    bwrap: () => spawnTimer.timeUs(BUBBLEWRAP),
  };
  const warmUpRounds = 2;
  for (const [runtime, machine] of machines) {
    const samples: number[] = [];
    firstTrue.push({ scenario, name: `${runtime}, first true`, unit: "us", samples });
    contestants[`${runtime}, ping`] = async () => {
      const startedMs = performance.now();
      const sandbox = await machine.create();
      const createdMs = performance.now();
      await run(sandbox.channel, TRUE_IN_SHELL);
      samples.push((performance.now() - startedMs) * 1000);
      await machine.destroy(sandbox);
      return (createdMs - startedMs) * 1000;
    };
  }
  if (docker !== undefined)
    contestants["docker run"] = () => spawnTimer.timeUs(docker.runCommand(["--rm"], "true"));
  const series = await interleave(contestants, {
    scenario,
    rounds: context.quick ? 5 : 30,
    warmUpRounds,
    signal,
    onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
  });
  const counted = firstTrue.map((one) => ({ ...one, samples: one.samples.slice(warmUpRounds) }));
  return [...series, ...counted];
}
