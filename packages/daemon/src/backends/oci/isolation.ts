/** Measures a sandbox's actual isolation, from inside and outside. */
import { readFile, readlink } from "node:fs/promises";
import { release } from "node:os";
import type { IsolationFact } from "../../ports/backend.ts";
import type { Measured } from "../container/container-driver.ts";
import { insideFacts } from "../container/probe.ts";
import { limitFacts } from "../container/limit-facts.ts";
import { oomScoreFact, readOomScore } from "../container/oom-score.ts";
import type { Probe } from "../container/probe.ts";
import { readCpuMillicores, readUsage } from "./cgroups.ts";
import { hostLimitsForGvisor } from "./config/gvisor.ts";
import type { Runtime } from "./runtimes.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

/** The first host id that may belong to a sandbox. */
const FIRST_SANDBOX_ID = 1_000_000;
const NAMESPACES = ["user", "pid", "mnt", "net", "ipc", "uts"] as const;

/**
 * The inside view is a claim of the sandbox; for properties that are also visible outside (ids,
 * namespaces, limits, seccomp mode of PID 1) the outside view counts.
 */
export async function measureIsolation(
  record: SandboxRecord,
  runtime: Runtime,
  inside: Probe,
): Promise<Measured> {
  const ownKernel = record.runtime.kind === "runsc" && inside.kernel !== release();
  const facts = [
    ...(await namespaceFacts(record)),
    ...(await identityFacts(record, inside)),
    ...insideFacts(record.meta.profile, inside, ownKernel),
    ...resourceFacts(record, inside),
    await oomFact(record, inside),
    {
      name: "own_kernel",
      enforced: ownKernel,
      measured: `kernel ${inside.kernel} inside, ${release()} outside`,
    },
    {
      name: "runtime_current",
      enforced: runtime.current,
      measured: `${runtime.kind} ${runtime.version}`,
    },
  ];
  return { runtime: `${runtime.kind} ${runtime.version}`, facts };
}

function namespaceFactName(name: (typeof NAMESPACES)[number]): string {
  return `${name === "mnt" ? "mount" : name === "net" ? "network" : name}_namespace`;
}

async function namespaceFacts(record: SandboxRecord): Promise<IsolationFact[]> {
  return await Promise.all(
    NAMESPACES.map(async (name) => {
      const [theirs, ours] = await Promise.all([
        readlink(`/proc/${record.pid}/ns/${name}`),
        readlink(`/proc/self/ns/${name}`),
      ]);
      return {
        name: namespaceFactName(name),
        enforced: theirs !== ours,
        measured: theirs,
      };
    }),
  );
}

async function identityFacts(record: SandboxRecord, inside: Probe): Promise<IsolationFact[]> {
  const status = await readFile(`/proc/${record.pid}/status`, "utf8");
  const field = (name: string): string =>
    new RegExp(`^${name}:\\s*(.*)$`, "mu").exec(status)?.[1] ?? "";
  const uidMap = (await readFile(`/proc/${record.pid}/uid_map`, "utf8")).trim();
  const firstId = Number(uidMap.split(/\s+/u)[1]);
  const codeUid = inside.uid.split(/\s+/u)[0] ?? "";
  return [
    {
      name: "unique_ids",
      enforced: firstId >= FIRST_SANDBOX_ID,
      measured: `uid_map ${uidMap.replaceAll(/\s+/gu, " ")}`,
    },
    {
      name: "seccomp",
      enforced: field("Seccomp") === "2" && inside.seccomp === "2",
      measured: `mode ${field("Seccomp")} outside, ${inside.seccomp} inside`,
    },
    {
      name: "no_new_privileges",
      enforced: field("NoNewPrivs") === "1" && inside.no_new_privs === "1",
      measured: `${field("NoNewPrivs")} outside, ${inside.no_new_privs} inside`,
    },
    {
      name: "code_user",
      enforced: codeUid !== "0",
      measured: `code runs as uid ${codeUid} inside`,
    },
  ];
}

/** What the kernel enforces, not what was requested. */
function resourceFacts(record: SandboxRecord, inside: Probe): IsolationFact[] {
  const usage = readUsage(record.cgroups);
  const cpuMillicores = readCpuMillicores(record.cgroups);
  const { limits } = record.meta;
  if (record.runtime.kind === "runsc")
    return [
      ...limitFacts({ ...usage, cpuMillicores }, hostLimitsForGvisor(limits)).map((fact) =>
        withGuestLimit(fact, record, inside),
      ),
      {
        name: "own_kernel_counts",
        enforced: true,
        measured: "inotify instances and message queues belong to gVisor's kernel",
      },
      diskFact(record, inside),
    ];
  return [
    ...limitFacts({ ...usage, cpuMillicores }, limits),
    {
      name: "own_kernel_counts",
      enforced: !record.not_enforced.includes("shared_kernel_counts"),
      measured: record.not_enforced.includes("shared_kernel_counts")
        ? "inotify instances and message queues also count against the daemon's user"
        : "inotify instances and message queues count against the sandbox's own ids",
    },
    diskFact(record, inside),
    {
      name: "host_paths_hidden",
      enforced: !record.not_enforced.includes("host_paths"),
      measured: record.not_enforced.includes("host_paths")
        ? "mounts reveal where on the machine their files are"
        : "mounts reveal no path of the machine",
    },
  ];
}

async function oomFact(record: SandboxRecord, inside: Probe): Promise<IsolationFact> {
  const own = await readOomScore("self");
  if (record.runtime.kind !== "runsc") return oomScoreFact(inside, own);
  // Code only changes scores in gVisor's kernel; the machine's kernel sees gVisor's processes.
  const score = await readOomScore(record.pid);
  return oomScoreFact({ oom_score: score, oom_score_lowest: score }, own);
}

/** The host's limit applies to gVisor as a whole; code hits its own limit, inside, before that. */
function withGuestLimit(fact: IsolationFact, record: SandboxRecord, inside: Probe): IsolationFact {
  const { pids, memoryBytes } = record.meta.limits;
  if (fact.name === "pids_limit")
    return {
      ...fact,
      enforced: fact.enforced && inside.pids_max === String(pids),
      measured: `${inside.pids_max} processes inside, ${fact.measured} and threads for gVisor as a whole`,
    };
  if (fact.name === "memory_limit")
    return {
      ...fact,
      measured: `the runner kills processes above ${memoryBytes} bytes inside, ${fact.measured} for gVisor as a whole`,
    };
  return fact;
}

/**
 * The inside sees the disk of the workspace. If that is a persistent one, the sandbox's own disk is
 * a different one, which the launcher checked when it mounted it.
 */
function diskFact(record: SandboxRecord, inside: Probe): IsolationFact {
  const { workspace } = record;
  const ownHolds = !record.not_enforced.includes("disk_quota");
  return {
    name: "disk_quota",
    enforced:
      workspace === undefined
        ? inside.workspace_bytes <= record.meta.limits.diskBytes
        : inside.workspace_bytes <= workspace.bytes && ownHolds,
    measured:
      workspace === undefined
        ? `the workspace is on a disk of ${inside.workspace_bytes} bytes`
        : `the persistent workspace is on a disk of ${inside.workspace_bytes} bytes, the rest ${ownHolds ? "on a separate disk" : "without a limit"}`,
  };
}
