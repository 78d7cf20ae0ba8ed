/** The mounts of a sandbox, in order. */
import { SandboxError } from "@sandkasten/protocol";
import type { ImageRootfs } from "../../../ports/image-store.ts";
import type { MemoryBackedStorage, TmpfsSize } from "../../container/memory-backed-storage.ts";
import {
  DEVICES_PATH,
  HOME_PATH,
  RUNNER_PATH,
  VAR_TMP_PATH,
  WORKSPACE_PATH,
} from "../../container/paths.ts";
import type { OciMount } from "./oci-spec.ts";

/** Sources that the launcher replaces once it has created the session's disk. */
export const PLACEHOLDERS = {
  workspace: "@disk/workspace",
  home: "@disk/home",
  varTmp: "@disk/tmp",
  runner: "@runner",
  devices: "@dev",
} as const;

/**
 * SECURITY: against gaining privileges: `nosuid` and `nodev` on every bind mount. crun 1.8 ignores
 * both on a writable bind but honours their recursive forms, which in turn it cannot apply to a
 * file. Guarded by isolation.container.test.ts, which reads them back.
 */
const SAFE_FILE = ["nosuid", "nodev"];
const SAFE_DIRECTORY = [...SAFE_FILE, "rnosuid", "rnodev"];

export function mountsOf(storage: MemoryBackedStorage, binds: ImageRootfs["binds"]): OciMount[] {
  return [
    ...binds.map(imageBind),
    // SECURITY: against reading kernel state and attacks on PID 1: hidepid=2 hides PID 1, and all
    // processes of another uid, from code. gid=0 lets the runner, which is in that group while code
    // is not, see everything without CAP_SYS_PTRACE.
    {
      destination: "/proc",
      type: "proc",
      source: "proc",
      options: ["nosuid", "nodev", "noexec", "hidepid=2", "gid=0"],
    },
    // SECURITY: against device access: a tmpfs on which the launcher has created null, zero, full,
    // random, urandom and tty for this sandbox only. Other mounts are nodev, and mknod of devices
    // is refused.
    bind(PLACEHOLDERS.devices, DEVICES_PATH, [
      "rbind",
      "rw",
      "nosuid",
      "noexec",
      "rnosuid",
      "rnoexec",
    ]),
    // SECURITY: against using up descriptors: terminals are counted for the whole machine; `max`
    // prevents one sandbox from taking all of them.
    {
      destination: "/dev/pts",
      type: "devpts",
      source: "devpts",
      options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "max=128"],
    },
    tmpfs("/dev/shm", storage.shm, ["mode=1777", "nosuid", "nodev"]),
    tmpfs("/tmp", storage.tmp, ["mode=1777", "nosuid", "nodev"]),
    tmpfs("/run", storage.run, ["mode=755", "nosuid", "nodev", "noexec"]),
    bind(PLACEHOLDERS.runner, RUNNER_PATH, ["bind", "ro", ...SAFE_FILE]),
    bind(PLACEHOLDERS.workspace, WORKSPACE_PATH, ["bind", "rw", ...SAFE_DIRECTORY]),
    bind(PLACEHOLDERS.home, HOME_PATH, ["bind", "rw", ...SAFE_DIRECTORY]),
    // For data that is too large for memory; programs expect to be able to write there.
    bind(PLACEHOLDERS.varTmp, VAR_TMP_PATH, ["bind", "rw", ...SAFE_DIRECTORY]),
    // SECURITY: against changing kernel settings and reading kernel state: no /sys, no cgroup
    // filesystem, no mqueue: sandboxes need none of them.
  ];
}

function tmpfs(destination: string, size: TmpfsSize, options: readonly string[]): OciMount {
  return {
    destination,
    type: "tmpfs",
    source: "tmpfs",
    options: [...options, `size=${size.bytes}`, `nr_inodes=${size.inodes}`],
  };
}

function bind(source: string, destination: string, options: readonly string[]): OciMount {
  return { destination, type: "bind", source, options };
}

/**
 * A directory of the machine that is part of the image.
 *
 * SECURITY: against touching the host's files: `rro` also makes the mounts below it read-only, which `ro` does not.
 */
function imageBind({ from, to }: ImageRootfs["binds"][number]): OciMount {
  for (const path of [from, to]) {
    if (
      !/^(\/[^/\0]+)+$/.test(path) ||
      path.split("/").some((part) => part === "." || part === "..")
    ) {
      throw new SandboxError(
        "INVALID_IMAGE",
        `the image cannot mount ${JSON.stringify(path)}; use an absolute path without "." and ".."`,
      );
    }
  }
  return bind(from, to, ["rbind", "ro", "rro", ...SAFE_DIRECTORY]);
}
