/** Fits a configuration to gVisor, whose kernel is its own and which reads fewer mount options. */
import type { OciConfig } from "./oci-spec.ts";

/** Recursive forms, and options of the host's proc and devpts, which gVisor does not have. */
const FOREIGN = /^(?:rnosuid|rnodev|rro|hidepid=.*|gid=.*|max=.*|newinstance|ptmxmode=.*)$/u;

/**
 * SECURITY: what is left out here is about the host's kernel. gVisor shows none of it: mounts,
 * processes and terminals inside are its own, and the plain forms of the flags stay.
 */
export function fitForGvisor(config: OciConfig): OciConfig {
  return {
    ...config,
    mounts: config.mounts.map((mount) => ({
      ...mount,
      options: mount.options.filter((option) => !FOREIGN.test(option)),
    })),
  };
}
