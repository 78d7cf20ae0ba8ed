/** Whether hostile code can be tested on the run's runtime here, and why not. */
import { execFileSync } from "node:child_process";
import { beforeEach } from "vitest";
import { whyNoGvisor } from "../../support/gvisor.ts";
import { runtimeUnderTest } from "../../support/runtime-under-test.ts";

/** Why nothing can be tested; undefined if it can. */
function whyNot(runtime: string): string | undefined {
  if (process.getuid?.() !== 0) return "sandboxes with host ids of their own need root";
  if (process.arch !== "x64") return "the system calls that are tried have the numbers of x86_64";
  if (!runs("cc")) return "cc is not installed, which compiles the attacks";
  if (runtime === "runsc") return whyNoGvisor();
  return runs(runtime) ? undefined : `${runtime} is not installed`;
}

/** Skips every test of the current suite, with the reason in the report. */
export function skipUnlessUsable(): string | undefined {
  const runtime = runtimeUnderTest();
  const reason = whyNot(runtime);
  beforeEach((context) => {
    if (reason !== undefined) context.skip(reason);
  });
  if (reason !== undefined) console.log(`not tried on ${runtime}: ${reason}`);
  return reason;
}

function runs(program: string): boolean {
  try {
    execFileSync(program, ["--version"], { timeout: 10_000, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
