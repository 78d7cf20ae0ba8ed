/** The request to the launcher for a new sandbox. */
import type { SandboxSpec } from "../../ports/backend.ts";
import type { ImageRootfs } from "../../ports/image-store.ts";
import { buildOciConfig } from "./config/build-oci-config.ts";
import { fitForGvisor, hostLimitsForGvisor } from "./config/gvisor.ts";
import type { LauncherCreate, LauncherIdentity } from "./launcher.ts";
import type { WorkspaceDisks } from "./workspace-disks.ts";

export interface CreateInputs {
  readonly spec: SandboxSpec;
  readonly identity: LauncherIdentity;
  readonly rootfs: ImageRootfs;
  /** Files that stand over those of the image, in this sandbox alone. */
  readonly rootFiles: LauncherCreate["rootfs"]["files"];
  readonly disks: WorkspaceDisks;
  readonly templatesDir: string;
  readonly runner: string;
  readonly maxOpenFiles: number;
  readonly cgroupNamespace: boolean;
}

export function createRequest(inputs: CreateInputs): LauncherCreate {
  const { spec, identity, rootfs, rootFiles, disks, templatesDir, runner } = inputs;
  const { limits, workspace, workspaces = [] } = spec;
  const inGvisor = identity.runtime.kind === "runsc";
  const hostLimits = inGvisor ? hostLimitsForGvisor(limits) : limits;
  const config = buildOciConfig({
    profile: spec.profile,
    memoryBytes: limits.memoryBytes,
    imageEnv: rootfs.env,
    env: spec.env,
    // The launcher mounts these itself, before the runtime starts.
    binds: [],
    architecture: process.arch,
    cgroupNamespace: inputs.cgroupNamespace,
    transport: inGvisor ? "relay" : "socket",
    maxOpenFiles: inputs.maxOpenFiles,
    network: spec.network,
  });
  return {
    ...identity,
    rootfs: {
      path: rootfs.path,
      binds: rootfs.binds,
      writable: spec.profile === "root",
      files: rootFiles,
    },
    runner,
    disk: { bytes: limits.diskBytes, inodes: limits.diskInodes, templates_dir: templatesDir },
    ...(workspace !== undefined && { workspace: disks.request(workspace) }),
    workspaces: workspaces.map((further) => ({
      workspace: disks.request(further),
      path: further.path,
      read_only: further.readOnly,
    })),
    limits: {
      memory_bytes: hostLimits.memoryBytes,
      cpu_millicores: hostLimits.cpuMillicores,
      pids: hostLimits.pids,
    },
    network: spec.network === "gateway",
    config: inGvisor ? fitForGvisor(config, limits) : config,
    meta: { image: spec.image, image_digest: rootfs.digest, profile: spec.profile, limits },
  };
}
