/** Which runtime a test that runs on several is running on now; vitest.config.ts says. */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    runtime: RuntimeOfRun;
  }
}

/** `docker`: sandboxes on the engine of the test run. */
export type RuntimeOfRun = "crun" | "runc" | "docker";

export function runtimeUnderTest(): RuntimeOfRun {
  return inject("runtime");
}
