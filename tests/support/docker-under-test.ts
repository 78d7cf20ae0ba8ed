/** The Docker engine that the tests of a run share. */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** `unix://…` of an engine that exists only for the tests. */
    dockerHost: string;
  }
}

export { DOCKER_IMAGES } from "./docker-images.ts";

export function dockerUnderTest(): string {
  return inject("dockerHost");
}
