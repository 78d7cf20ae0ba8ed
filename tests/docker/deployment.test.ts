/** Images and compose files, on a dedicated engine, so leftovers can be detected. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { DockerEngine } from "../support/docker-engine.ts";
import { buildImages } from "../support/image-builds.ts";
import { testCompose } from "./deployment/compose.ts";
import { testImages } from "./deployment/images.ts";
import type { Built } from "./deployment/images.ts";

/** A Debian root file system may have to be created first, which is then cached. */
const FIRST_BUILD_TIMEOUT_MS = 15 * 60_000;

let directory: string;
let engine: DockerEngine;
let built: Built;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-deployment-"));
  engine = await DockerEngine.start(join(directory, "e"));
  built = { engine, directory, printed: await buildImages(engine.host) };
}, FIRST_BUILD_TIMEOUT_MS);
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

testImages(() => built);
testCompose(() => built);
