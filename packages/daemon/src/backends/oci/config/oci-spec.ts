/** The parts of the OCI runtime specification's `config.json` that sandboxes use. */
import type { SeccompProfile } from "../../container/seccomp/profile.ts";

export interface OciMount {
  readonly destination: string;
  readonly type: "proc" | "tmpfs" | "devpts" | "cgroup" | "bind";
  readonly source: string;
  readonly options: readonly string[];
}

export interface OciRlimit {
  readonly type: string;
  readonly soft: number;
  readonly hard: number;
}

export interface OciCapabilities {
  readonly bounding: readonly string[];
  readonly permitted: readonly string[];
  readonly effective: readonly string[];
  readonly inheritable: readonly string[];
  readonly ambient: readonly string[];
}

export interface OciProcess {
  readonly terminal: false;
  readonly user: {
    readonly uid: number;
    readonly gid: number;
    readonly umask: number;
    readonly additionalGids: readonly number[];
  };
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
  readonly capabilities: OciCapabilities;
  readonly rlimits: readonly OciRlimit[];
  readonly noNewPrivileges: boolean;
}

export interface OciNamespace {
  readonly type: "pid" | "network" | "ipc" | "uts" | "mount" | "user" | "cgroup";
}

export interface OciLinux {
  readonly namespaces: readonly OciNamespace[];
  readonly rootfsPropagation: "private";
  readonly sysctl: Readonly<Record<string, string>>;
  readonly seccomp: SeccompProfile;
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
}

export interface OciConfig {
  readonly ociVersion: string;
  readonly root: { readonly path: string; readonly readonly: boolean };
  readonly hostname: string;
  readonly process: OciProcess;
  readonly mounts: readonly OciMount[];
  readonly linux: OciLinux;
  readonly annotations?: Readonly<Record<string, string>>;
}
