/** Measures a container's actual isolation: as reported by the engine, and as found from inside. */
import type { IsolationFact } from "../../ports/backend.ts";
import type { Measured } from "../container/container-driver.ts";
import { insideFacts } from "../container/probe.ts";
import { limitFacts } from "../container/limit-facts.ts";
import { oomScoreFact } from "../container/oom-score.ts";
import type { Probe } from "../container/probe.ts";
import { isCurrent } from "../container/runtime-versions.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";
import type { EngineContainer, EngineFacts, EngineUsage } from "./engine-view.ts";
import type { SandboxNotes } from "./sandbox-labels.ts";

export interface Measurements {
  readonly notes: SandboxNotes;
  readonly container: EngineContainer;
  readonly facts: EngineFacts;
  readonly usage: EngineUsage;
  readonly daemonOomScore: number;
  /** The inside view is a claim of the sandbox; if the engine reports the same property, the engine counts. */
  readonly inside: Probe;
}

export function measureIsolation(measured: Measurements): Measured {
  const { notes, container, facts: engine, inside } = measured;
  const kind = runtimeKind(container, engine);
  const version = kind === "runc" ? (engine.runcVersion ?? "unknown") : "of unknown version";
  const runtime = `${kind} ${version}`;
  const facts = [
    ...namespaceFacts(measured),
    ...identityFacts(inside),
    ...insideFacts(notes.profile, inside),
    ...resourceFacts(measured),
    oomFact(kind, measured),
    {
      name: "init_hidden",
      enforced: inside.pid_one !== "runner",
      measured: `the name of PID 1: ${inside.pid_one}`,
    },
    {
      name: "own_kernel",
      enforced: kind === "runsc" && inside.kernel !== engine.kernel,
      measured: `kernel ${inside.kernel} inside, ${engine.kernel} outside`,
    },
    {
      name: "runtime_current",
      enforced: kind === "runc" && isCurrent(kind, version),
      measured: runtime,
    },
  ];
  return { runtime: `Docker ${engine.version} with ${runtime}`, facts };
}

function runtimeKind({ runtime }: EngineContainer, engine: EngineFacts): RuntimeKind {
  const name = runtime === "" ? engine.defaultRuntime : runtime;
  if (name.includes("runsc")) return "runsc";
  return name.includes("crun") ? "crun" : "runc";
}

/** The engine creates a separate namespace unless it is told to share one. */
function namespaceFacts({ container, inside }: Measurements): IsolationFact[] {
  const { pidMode, ipcMode, utsMode, networkMode } = container.settings;
  const own = (name: string, mode: string, shared: boolean): IsolationFact => ({
    name: `${name}_namespace`,
    enforced: !shared,
    measured: `reported by the engine: ${mode === "" ? "private" : mode}`,
  });
  const isShared = (mode: string): boolean => mode === "host" || mode.startsWith("container:");
  const uidMap = inside.uid_map.replaceAll(/\s+/gu, " ");
  return [
    {
      name: "user_namespace",
      // Mapping all ids to themselves is what a machine without namespaces shows.
      enforced: !/^0 0 4294967295$/u.test(uidMap),
      measured: `uid_map ${uidMap}`,
    },
    own("pid", pidMode, isShared(pidMode)),
    own("mount", "", false),
    own("network", networkMode, isShared(networkMode)),
    own("ipc", ipcMode, isShared(ipcMode)),
    own("uts", utsMode, isShared(utsMode)),
  ];
}

function identityFacts(inside: Probe): IsolationFact[] {
  const codeUid = inside.uid.split(/\s+/u)[0] ?? "";
  return [
    {
      name: "unique_ids",
      // Even an engine that remaps users gives all containers the same ids.
      enforced: false,
      measured: "all containers of the engine have the same user ids",
    },
    {
      name: "seccomp",
      enforced: inside.seccomp === "2",
      measured: `mode ${inside.seccomp} inside`,
    },
    {
      name: "no_new_privileges",
      enforced: inside.no_new_privs === "1",
      measured: `${inside.no_new_privs} inside`,
    },
    {
      name: "code_user",
      enforced: codeUid !== "0",
      measured: `code runs as uid ${codeUid} inside`,
    },
  ];
}

/** For a daemon on the engine's machine; elsewhere the engine is what must outlive code. */
function oomFact(
  kind: RuntimeKind,
  { container, inside, daemonOomScore }: Measurements,
): IsolationFact {
  if (kind !== "runsc") return oomScoreFact(inside, daemonOomScore);
  // Code only changes scores in gVisor's kernel; the engine has set that of gVisor's processes.
  const score = container.settings.oomScoreAdj;
  return oomScoreFact({ oom_score: score, oom_score_lowest: score }, daemonOomScore);
}

/** What the kernel enforces according to the engine, not what was requested. */
function resourceFacts({ notes, container, usage, inside }: Measurements): IsolationFact[] {
  const { limits } = notes;
  const cpuMillicores = container.settings.nanoCpus / 1_000_000;
  return [
    ...limitFacts({ ...usage, cpuMillicores }, limits),
    {
      name: "own_kernel_counts",
      enforced: false,
      measured:
        "inotify instances and message queues are shared by all containers of the same user",
    },
    {
      name: "disk_quota",
      enforced: inside.workspace_bytes > 0 && inside.workspace_bytes <= limits.diskBytes,
      measured: `the workspace is on a shared disk of ${inside.workspace_bytes} bytes`,
    },
  ];
}
