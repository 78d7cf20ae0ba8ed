/** Finds the OCI runtimes of this machine and picks one by its version. */
import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxError } from "@sandkasten/protocol";

export type RuntimeKind = "crun" | "runc" | "runsc";

export interface Runtime {
  readonly kind: RuntimeKind;
  readonly path: string;
  readonly version: string;
  /** True when the version has all fixes that we know to matter. */
  readonly current: boolean;
}

/**
 * From these versions on a runtime is preferred. Older ones run all the same: what they are known
 * for (a rootfs whose mount points are links, descriptors of the host left open) is refused or
 * prevented before they are started.
 */
const CURRENT_FROM: Readonly<Record<RuntimeKind, readonly number[]>> = {
  crun: [1, 8],
  runc: [1, 2, 8],
  // Its versions are dates; systrap, without which it is slow, came with 2023.
  runsc: [20_230_701],
};

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
    return { kind, path, version, current: atLeast(version, CURRENT_FROM[kind]) };
  }
  return undefined;
}

/** Compares the numbers in a version one after the other; `0.0~20221219.0` counts by its date. */
export function atLeast(version: string, floor: readonly number[]): boolean {
  const text = version.includes("~") ? version.slice(version.indexOf("~") + 1) : version;
  const numbers = text.split(/\D+/u).filter(Boolean).map(Number);
  for (const [index, wanted] of floor.entries()) {
    const actual = numbers[index] ?? 0;
    if (actual !== wanted) return actual > wanted;
  }
  return true;
}
