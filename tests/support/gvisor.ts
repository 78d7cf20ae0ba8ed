/** The gVisor built by set-up; distributions have no recent enough version. */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Where set-up installs runtimes that tests use instead of the system's. */
export const RUNTIME_DIR = join(import.meta.dirname, "../../.toolchain/runtimes");

/** Why strong isolation cannot be tested; undefined if it can. */
export function whyNoGvisor(): string | undefined {
  if (process.getuid?.() !== 0) return "gVisor needs root here";
  return existsSync(join(RUNTIME_DIR, "runsc"))
    ? undefined
    : "gVisor was not built, because Go is not installed";
}
