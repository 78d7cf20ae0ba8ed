/** The current runtime of a test that runs on several, as set by vitest.config.ts. */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    runtime: RuntimeOfRun;
  }
}

/** `docker`: sandboxes on the engine of the test run. */
export type RuntimeOfRun = EmbeddedRuntime | "docker";

export type EmbeddedRuntime = "crun" | "runc" | "runsc";

export function runtimeUnderTest(): RuntimeOfRun {
  return inject("runtime");
}

/** For suites that inspect what the embedded backend keeps on the host. */
export function embeddedRuntimeUnderTest(): EmbeddedRuntime {
  const runtime = runtimeUnderTest();
  if (runtime === "docker") throw new Error("this suite is for embedded sandboxes only");
  return runtime;
}
