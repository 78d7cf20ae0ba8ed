/** A clean machine on which systemd is PID 1, with a part of every cgroup hierarchy for itself. */
import type { ChildProcess } from "node:child_process";
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { ENTER_ROOT, ENVIRONMENT, PRELUDE, runScript } from "./clean-machine.ts";
import type { CleanMachine } from "./clean-machine.ts";

const run = promisify(execFile);
const BOOT_TIMEOUT_MS = 2 * 60_000;
const PAUSE_MS = 100;
const NAMESPACES = ["--cgroup", "--mount", "--pid", "--ipc", "--uts", "--net"];

const CGROUP_MOUNTS = "findmnt --raw --noheadings --types cgroup,cgroup2 --output";

/** Version 1 of cpuset takes no process before its cgroup has processors and memory. */
const JOIN_CGROUPS = `
set -e
for hierarchy in $(${CGROUP_MOUNTS} TARGET); do
  mkdir "$hierarchy/$2"
  for file in cpuset.cpus cpuset.mems; do
    [ ! -e "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$2/$file"
  done
  echo $$ >"$hierarchy/$2/cgroup.procs"
done
exec unshare ${NAMESPACES.join(" ")} --fork --kill-child bash -c "$3" boot "$1"
`;

/**
 * systemd and the services that start with a system would change what namespaces do not isolate:
 * kernel settings, modules, devices, terminals, and how a file system is mounted. Only the journal
 * remains of the services, and hierarchies are mounted in a new directory.
 */
const BOOT = `
set -e
root=$1
${ENTER_ROOT}
hierarchies=$(${CGROUP_MOUNTS} TARGET,FSTYPE,FS-OPTIONS)
umount --recursive /sys/fs/cgroup
! grep --quiet ' cgroup ' <<<"$hierarchies" || mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
while read -r target type options; do
  mkdir --parents "$target"
  mount -t "$type" -o "$options" "$type" "$target"
done <<<"$hierarchies"
mount --bind /dev/null /dev/console
find /etc/systemd/system /usr/lib/systemd/system -path '*.target.wants/*' ! -name 'systemd-journald.s*' -delete
for unit in systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-remount-fs.service; do
  ln --symbolic --force /dev/null "/etc/systemd/system/$unit"
done
exec env -i container=test ${ENVIRONMENT} /lib/systemd/systemd --unit=multi-user.target
`;

/** Ends when the last process of a killed machine is gone. */
const REMOVE_CGROUPS = `
set -e
for hierarchy in $(${CGROUP_MOUNTS} TARGET); do
  [ -d "$hierarchy/$1" ] || continue
  for _ in $(seq 100); do
    ! find "$hierarchy/$1" -depth -type d -exec rmdir {} + 2>/dev/null || continue 2
    sleep 0.1
  done
  find "$hierarchy/$1" -depth -type d -exec rmdir {} +
done
`;

export class BootedMachine implements AsyncDisposable {
  readonly #cgroup: string;
  readonly #process: ChildProcess;
  #init: string | undefined;

  private constructor(root: string) {
    this.#cgroup = `sandkasten-test-${randomBytes(6).toString("hex")}`;
    const args = ["-c", JOIN_CGROUPS, "join", root, this.#cgroup, BOOT];
    this.#process = spawn("bash", args, { stdio: ["ignore", "ignore", "inherit"] });
  }

  static async boot(machine: CleanMachine): Promise<BootedMachine> {
    const booted = new BootedMachine(machine.root);
    try {
      await booted.#untilRunning();
      return booted;
    } catch (error) {
      await booted[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Runs a bash script as root, outside of any service. */
  async run(script: string): Promise<string> {
    if (this.#init === undefined) throw new Error("systemd has not started");
    const target = ["--target", this.#init, ...NAMESPACES, "--root"];
    const command = `cd /root\n${PRELUDE}${script}`;
    const bash = ["env", "-i", ...ENVIRONMENT.split(" "), "bash", "--norc", "-euo", "pipefail"];
    return await runScript("nsenter", [...target, ...bash, "-c", command]);
  }

  async #untilRunning(): Promise<void> {
    const deadline = Date.now() + BOOT_TIMEOUT_MS;
    for (;;) {
      try {
        this.#init = await systemdOf(this.#process);
        await this.run("systemctl is-system-running --wait");
        return;
      } catch (error) {
        if (this.#process.exitCode !== null || Date.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = once(this.#process, "exit");
      // With this, the kernel kills PID 1 of the namespace, and thereby every process of the
      // machine.
      this.#process.kill("SIGKILL");
      await ended;
    }
    await run("bash", ["-c", REMOVE_CGROUPS, "remove", this.#cgroup]);
  }
}

/** PID 1 of the machine, as the host numbers it. */
async function systemdOf({ pid }: ChildProcess): Promise<string> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  const child = children.trim();
  // A child that is not systemd may still be in the namespaces of the host.
  const name = await readFile(`/proc/${child}/comm`, "utf8");
  if (name !== "systemd\n") throw new Error(`systemd has not started, but ${name}`);
  return child;
}
