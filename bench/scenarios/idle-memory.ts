/** The memory of an idle sandbox. */
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { chargedBytes, processesIn, processMemory, rssBytes } from "../process-memory.ts";
import type { Series } from "../series.ts";

/** Sandboxes created and destroyed first, so code and caches are loaded before measuring. */
const WARM_UP_SANDBOXES = 10;

export const idleMemory: Scenario = {
  name: "idle sandbox",
  what: "memory per sandbox that has run one command and now waits",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { signal, progress } = context;
  const count = context.idleSandboxes;
  await using daemon = await context.startDaemon();
  const usedSession = async (): Promise<BenchSession> => {
    signal.throwIfAborted();
    const session = await daemon.open();
    await session.exec("true");
    return session;
  };
  progress("warming up");
  for (let made = 0; made < WARM_UP_SANDBOXES; made++) await (await usedSession()).destroy();
  // The first one pays for file pages that the others share.
  await usedSession();
  const [first = ""] = await daemon.memoryCgroups();
  await daemon.collectGarbage();
  const beforeBytes = rssBytes(daemon.pid);
  const sessions: BenchSession[] = [];
  while (sessions.length < count) {
    progress(`${sessions.length} of ${count}`);
    sessions.push(await usedSession());
  }
  await daemon.collectGarbage();
  const daemonShare = (rssBytes(daemon.pid) - beforeBytes) / count;
  const cgroups = (await daemon.memoryCgroups()).filter((cgroup) => cgroup !== first);
  const charged = await Promise.all(cgroups.map(chargedBytes));
  return Object.entries({
    "cgroup (with kernel's share)": charged,
    ...(await memoryOfProcesses(cgroups)),
    "daemon's share": [daemonShare],
    "in all": charged.map((bytes) => bytes + daemonShare),
  }).map(([name, samples]) => ({ scenario: idleMemory.name, name, unit: "bytes", samples }));
}

async function memoryOfProcesses(cgroups: readonly string[]): Promise<Record<string, number[]>> {
  const samples: Record<string, number[]> = {
    "runner RSS": [],
    "runner PSS": [],
    "shell RSS": [],
    "shell PSS": [],
  };
  for (const cgroup of cgroups) {
    const pids = await processesIn(cgroup);
    for (const memory of await Promise.all(pids.map(processMemory))) {
      const who = memory.command === "bash" || memory.command === "sh" ? "shell" : "runner";
      samples[`${who} RSS`]?.push(memory.rssBytes);
      samples[`${who} PSS`]?.push(memory.pssBytes);
    }
  }
  return samples;
}
