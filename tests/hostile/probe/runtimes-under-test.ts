/** Which OCI runtimes hostile code is tried on here, and why not on the others. */
import { execFileSync } from "node:child_process";
import { beforeEach } from "vitest";

export const RUNTIMES = ["crun", "runc", "runsc"] as const;
export type RuntimeUnderTest = (typeof RUNTIMES)[number];

/** From this release on gVisor knows the flags that the `ls` and `stat` of glibc systems pass. */
const FIRST_USABLE_RUNSC = 20_230_701;

/** Says why nothing can be tried, or nothing when it can. */
function whyNot(runtime: RuntimeUnderTest): string | undefined {
  if (process.getuid?.() !== 0) return "sandboxes with host ids of their own need root";
  if (process.arch !== "x64") return "the system calls that are tried have the numbers of x86_64";
  if (!runs("cc")) return "cc is not installed, which compiles the attacks";
  if (!runs(runtime)) return `${runtime} is not installed`;
  if (runtime !== "runsc") return undefined;
  const date = Number(/\d{8}/u.exec(versionOf("runsc"))?.[0] ?? 0);
  return date >= FIRST_USABLE_RUNSC
    ? undefined
    : `runsc of ${date} cannot run this machine's coreutils (ls and stat end with EINVAL); ${FIRST_USABLE_RUNSC} or later can`;
}

/** Skips every test of the current suite, with the reason in the report. */
export function skipUnlessUsable(runtime: RuntimeUnderTest): string | undefined {
  const reason = whyNot(runtime);
  beforeEach((context) => {
    if (reason !== undefined) context.skip(reason);
  });
  if (reason !== undefined) console.log(`not tried on ${runtime}: ${reason}`);
  return reason;
}

function runs(program: string): boolean {
  try {
    versionOf(program);
    return true;
  } catch {
    return false;
  }
}

function versionOf(program: string): string {
  return execFileSync(program, ["--version"], { encoding: "utf8", timeout: 10_000 });
}
