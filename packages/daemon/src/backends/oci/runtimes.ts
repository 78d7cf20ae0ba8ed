/** Finds the OCI runtimes of this machine and chooses one by version. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { SandboxError } from "@sandkasten/protocol";
import { findProgram } from "../../find-program.ts";
import { isCurrent } from "../container/runtime-versions.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";
import type { BackendHealth } from "../../ports/backend.ts";

export interface Runtime {
  readonly kind: RuntimeKind;
  readonly path: string;
  readonly version: string;
  /** True if the version has all relevant fixes. */
  readonly current: boolean;
}

type HealthCheck = BackendHealth["checks"][number];

/** Older releases lack what the runner needs to limit code inside. */
const OLDEST_GVISOR = "20260905";

const run = promisify(execFile);
const BROKEN = "cannot be run";

/** All installed runtimes, the preferred one first; those in `directory` take precedence over the system's. */
export async function findRuntimes(directory?: string): Promise<Runtime[]> {
  const found = await Promise.all(
    (["crun", "runc", "runsc"] as const).map((kind) => findRuntime(kind, directory)),
  );
  const present = found.filter((runtime) => runtime !== undefined);
  // gVisor is the strong tier and must be chosen: it is slower and does not run every program.
  const rank = (runtime: Runtime): number =>
    runtime.version === BROKEN ? 3 : runtime.kind === "runsc" ? 2 : runtime.current ? 0 : 1;
  return present.toSorted((a, b) => rank(a) - rank(b));
}

/** Of those found, the requested one or the best. */
export function pickRuntime(found: readonly Runtime[], wanted?: RuntimeKind): Runtime {
  const runtimes = found.filter(({ version }) => version !== BROKEN);
  const picked =
    wanted === undefined
      ? runtimes.find((runtime) => runtime.kind !== "runsc")
      : runtimes.find((runtime) => runtime.kind === wanted);
  if (picked?.kind === "runsc" && !picked.current)
    throw new SandboxError(
      "UNSUPPORTED",
      `${picked.path} is gVisor ${picked.version}; install release ${OLDEST_GVISOR} or later, or use crun`,
    );
  if (picked !== undefined) return picked;
  throw new SandboxError(
    "UNSUPPORTED",
    `no ${wanted ?? "crun or runc"} on this machine; install it (apt-get install ${wanted ?? "crun"})`,
  );
}

/** gVisor, for sessions that request strong isolation. */
export function strongRuntime(found: readonly Runtime[]): Runtime | undefined {
  return found.find(({ kind, current }) => kind === "runsc" && current);
}

/**
 * The runtime checks for `doctor`. Only the one in use can fail: another outdated runtime, or a
 * missing gVisor, only limits the choice.
 */
export function runtimeChecks(found: readonly Runtime[], inUse: RuntimeKind): HealthCheck[] {
  const checks = found.map((runtime) => {
    const { kind, version, current } = runtime;
    const name = `runtime_${kind}`;
    if (kind === inUse)
      return {
        name,
        ok: current,
        detail: `${version}, in use`,
        ...(!current && { remedy: `install a newer ${kind}` }),
      };
    return { name, ok: true, detail: `${version}, ${optionalUse(runtime)}` };
  });
  if (found.some(({ kind }) => kind === "runsc")) return checks;
  const detail = `not installed; strong isolation needs gVisor ${OLDEST_GVISOR} or later`;
  return [...checks, { name: "runtime_runsc", ok: true, detail }];
}

function optionalUse({ kind, current }: Runtime): string {
  if (kind !== "runsc") return current ? "not in use" : "not in use, and outdated";
  return current
    ? "for sessions with strong isolation"
    : `not used: strong isolation needs ${OLDEST_GVISOR} or later`;
}

async function findRuntime(kind: RuntimeKind, directory?: string): Promise<Runtime | undefined> {
  const path = await findProgram(kind, directory);
  if (path === undefined) return undefined;
  // A broken runtime must not prevent the others from being used.
  const stdout = await run(path, ["--version"], { timeout: 10_000 }).then(
    (answer) => answer.stdout,
    () => "",
  );
  if (stdout === "") return { kind, path, version: BROKEN, current: false };
  const version = /version\s+(?:release-)?(\S+)/u.exec(stdout)?.[1] ?? "unknown";
  return { kind, path, version, current: isCurrent(kind, version) };
}
