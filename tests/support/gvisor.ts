/** The gVisor that set-up has built; distributions have none that is new enough. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Where set-up puts runtimes that tests use instead of the system's. */
export const RUNTIME_DIR = join(import.meta.dirname, "../../.toolchain/runtimes");

/** Says why strong isolation cannot be tried, or nothing when it can. */
export function whyNoGvisor(): string | undefined {
  if (process.getuid?.() !== 0) return "gVisor needs root here";
  return existsSync(join(RUNTIME_DIR, "runsc"))
    ? undefined
    : "gVisor was not built, because Go is not installed";
}
