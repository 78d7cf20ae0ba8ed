/** What a sandbox that does nothing takes of the machine's memory, and of everyone's speed. */
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchSandbox } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { collectGarbage, processesIn, processMemory } from "../process-memory.ts";
import type { Series } from "../series.ts";

/** Sandboxes made and destroyed first, so that code and caches are there before we count. */
const WARM_UP_SANDBOXES = 10;

export const idleMemory: Scenario = {
  name: "idle sandbox",
  what: "memory per sandbox that has run one command and now waits",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress } = context;
  const count = context.idleSandboxes;
  const usedSandbox = async (): Promise<BenchSandbox> => {
    signal.throwIfAborted();
    const sandbox = await machine.create();
    await run(sandbox.channel, TRUE_IN_SHELL);
    return sandbox;
  };
  for (let made = 0; made < WARM_UP_SANDBOXES; made++) {
    progress("warming up");
    await machine.destroy(await usedSandbox());
  }
  const sandboxes = [await usedSandbox()];
  collectGarbage();
  const rssBeforeBytes = process.memoryUsage.rss();
  const samples: Record<string, number[]> = {
    "cgroup (with kernel's share)": [],
    "runner RSS": [],
    "runner PSS": [],
    "shell RSS": [],
    "shell PSS": [],
  };
  while (sandboxes.length <= count) {
    progress(`${sandboxes.length} of ${count}`);
    sandboxes.push(await usedSandbox());
  }
  collectGarbage();
  const daemonShare = (process.memoryUsage.rss() - rssBeforeBytes) / count;
  // The first one paid for pages of files that the others share.
  for (const sandbox of sandboxes.slice(1)) {
    const { memoryBytes } = await machine.backend.stats(sandbox.id);
    samples["cgroup (with kernel's share)"]?.push(memoryBytes);
    const pids = await processesIn(await machine.memoryCgroup(sandbox));
    for (const { command, rssBytes, pssBytes } of await Promise.all(pids.map(processMemory))) {
      const who = command === "bash" || command === "sh" ? "shell" : "runner";
      samples[`${who} RSS`]?.push(rssBytes);
      samples[`${who} PSS`]?.push(pssBytes);
    }
  }
  const total = samples["cgroup (with kernel's share)"]?.map((bytes) => bytes + daemonShare) ?? [];
  await Promise.all(sandboxes.map((sandbox) => machine.destroy(sandbox)));
  return Object.entries({ ...samples, "daemon's share": [daemonShare], "in all": total }).map(
    ([name, taken]) => ({ scenario: idleMemory.name, name, unit: "bytes", samples: taken }),
  );
}
