/** What the kernel kills first when the machine runs out of memory: code in sandboxes, before the daemon. */
import { readFile } from "node:fs/promises";
import type { IsolationFact } from "../../ports/backend.ts";
import type { Probe } from "./probe.ts";

/** As reported by this machine's kernel. */
export async function readOomScore(process: number | "self"): Promise<number> {
  return Number(await readFile(`/proc/${process}/oom_score_adj`, "utf8"));
}

/** The kernel kills by size and by this score: code with the daemon's score can get the daemon killed. */
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
