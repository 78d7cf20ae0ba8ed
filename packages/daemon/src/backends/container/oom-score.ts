/** Who goes first when the machine runs out of memory: code in sandboxes, before the daemon. */
import { readFile } from "node:fs/promises";
import type { IsolationFact } from "../../ports/backend.ts";
import type { Probe } from "./probe.ts";

/** As the kernel of this machine has it. */
export async function readOomScore(process: number | "self"): Promise<number> {
  return Number(await readFile(`/proc/${process}/oom_score_adj`, "utf8"));
}

/** The kernel kills by size and by this score: code that has the daemon's can have the daemon killed. */
export function oomScoreFact(
  { oom_score: score, oom_score_lowest: lowest }: Pick<Probe, "oom_score" | "oom_score_lowest">,
  own: number,
): IsolationFact {
  return {
    name: "oom_score",
    enforced: lowest > own,
    measured: `code has ${score} and can lower it to ${lowest}; the daemon has ${own}`,
  };
}
