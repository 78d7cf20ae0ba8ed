/** Which runtime a test that runs on several is running on now; vitest.config.ts says. */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    runtime: "crun" | "runc";
  }
}

export function runtimeUnderTest(): "crun" | "runc" {
  return inject("runtime");
}
