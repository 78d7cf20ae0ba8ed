/** One Docker engine for all tests of a run, with the images they need; no test may leave anything in it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { DockerEngine } from "./docker-engine.ts";
import { DOCKER_IMAGES } from "./docker-images.ts";
import type {} from "./docker-under-test.ts";
import { smallDebianRootfs } from "./small-debian.ts";

/** Vitest calls the returned function when the run is over. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const parent = await mkdtemp(join(tmpdir(), "sandkasten-docker-"));
  const engine = await DockerEngine.start(join(parent, "e"));
  const close = async (): Promise<void> => {
    await engine[Symbol.asyncDispose]();
    await rm(parent, { recursive: true, force: true });
  };
  try {
    await Promise.all([
      engine.importSmallImage(DOCKER_IMAGES.busybox, "busybox"),
      engine.importSmallImage(DOCKER_IMAGES.bare, "bare"),
      engine.importTarball(DOCKER_IMAGES.debian, await smallDebianRootfs(), ["ENV FROM_IMAGE=yes"]),
    ]);
  } catch (error) {
    await close();
    throw error;
  }
  project.provide("dockerHost", engine.host);
  return async () => {
    try {
      await engine.assertNothingLeft();
    } finally {
      await close();
    }
  };
}
