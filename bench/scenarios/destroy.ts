/** Destroy: until nothing of a sandbox is left. */
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

export const destroy: Scenario = {
  name: "destroy",
  what: "until nothing of the sandbox is left",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { spawnTimer, machines, docker, signal, progress } = context;
  const contestants: Record<string, Contestant> = {
    "fork+exec+wait": () => spawnTimer.timeUs(["/bin/true"]),
  };
  for (const [runtime, machine] of machines)
    contestants[runtime] = async () => {
      const sandbox = await machine.create();
      await run(sandbox.channel, TRUE_IN_SHELL);
      return await timeUs(() => machine.destroy(sandbox));
    };
  if (docker !== undefined)
    contestants["docker rm -f"] = async () => {
      const container = await docker.startContainer();
      return await spawnTimer.timeUs(docker.command("rm", "-f", container));
    };
  return await interleave(contestants, {
    scenario: destroy.name,
    rounds: context.quick ? 5 : 20,
    warmUpRounds: 1,
    signal,
    onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
  });
}
