/** Finds the OCI runtimes of this machine and picks one by its version. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxError } from "@sandkasten/protocol";
import { isCurrent } from "../container/runtime-versions.ts";
import type { RuntimeKind } from "../container/runtime-versions.ts";

export interface Runtime {
  readonly kind: RuntimeKind;
  readonly path: string;
  readonly version: string;
  /** True when the version has all fixes that we know to matter. */
  readonly current: boolean;
}

const DIRECTORIES = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

const run = promisify(execFile);
const BROKEN = "does not run";

/** All runtimes that are there, the one to be picked first. */
export async function findRuntimes(): Promise<Runtime[]> {
  const found = await Promise.all((["crun", "runc", "runsc"] as const).map(findRuntime));
  const present = found.filter((runtime) => runtime !== undefined);
  // gVisor is the strong tier and only by choice: it is slower and not every program runs on it.
  const rank = (runtime: Runtime): number =>
    runtime.version === BROKEN ? 3 : runtime.kind === "runsc" ? 2 : runtime.current ? 0 : 1;
  return present.toSorted((a, b) => rank(a) - rank(b));
}

/** The runtime that is asked for, or the best one. */
export async function pickRuntime(wanted?: RuntimeKind): Promise<Runtime> {
  const runtimes = (await findRuntimes()).filter(({ version }) => version !== BROKEN);
  const picked =
    wanted === undefined
      ? runtimes.find((runtime) => runtime.kind !== "runsc")
      : runtimes.find((runtime) => runtime.kind === wanted);
  if (picked !== undefined) return picked;
  throw new SandboxError(
    "UNSUPPORTED",
    `no ${wanted ?? "crun or runc"} on this machine; install it (apt-get install ${wanted ?? "crun"})`,
  );
}

async function findRuntime(kind: RuntimeKind): Promise<Runtime | undefined> {
  for (const directory of DIRECTORIES) {
    const path = join(directory, kind);
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (!executable) continue;
    // One that is broken must not keep the others from being used.
    const stdout = await run(path, ["--version"], { timeout: 10_000 }).then(
      (answer) => answer.stdout,
      () => "",
    );
    if (stdout === "") return { kind, path, version: BROKEN, current: false };
    const version = /version\s+(?:release-)?(\S+)/u.exec(stdout)?.[1] ?? "unknown";
    return { kind, path, version, current: isCurrent(kind, version) };
  }
  return undefined;
}
