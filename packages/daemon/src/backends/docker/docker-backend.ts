/** The Docker backend: sandboxes are containers of an engine, on this machine or another. */
import { ContainerBackend } from "../container/container-backend.ts";
import { DockerDriver } from "./docker-driver.ts";
import type { DockerDriverOptions } from "./docker-driver.ts";
import { readRunner } from "./runner-volume.ts";
import type { DockerContainer } from "./sandbox-usage.ts";

export type DockerBackend = ContainerBackend<DockerContainer>;
export type DockerBackendOptions = DockerDriverOptions;

/** Does not connect: the engine may start later. */
export async function openDockerBackend(options: DockerBackendOptions): Promise<DockerBackend> {
  return new ContainerBackend(new DockerDriver(options, await readRunner(options.runner)));
}
