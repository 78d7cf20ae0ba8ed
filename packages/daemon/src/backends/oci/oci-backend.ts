/** The embedded backend: sandboxes on this machine, created by the launcher with crun, runc or runsc. */
import { ContainerBackend } from "../container/container-backend.ts";
import { OciDriver } from "./oci-driver.ts";
import type { OciContainer, OciDriverOptions } from "./oci-driver.ts";

export type OciBackend = ContainerBackend<OciContainer>;
export type OciBackendOptions = OciDriverOptions;

export async function openOciBackend(options: OciBackendOptions): Promise<OciBackend> {
  return new ContainerBackend(await OciDriver.open(options));
}
