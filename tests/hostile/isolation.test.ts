/** Threats A1–A11: what code in a sandbox asks of the kernel, and what it gets. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { X86_64_SYSCALLS } from "../../packages/daemon/src/backends/container/seccomp/syscall-table.generated.ts";
import type { Attacker } from "./probe/build-probes.ts";
import { isolationSuite } from "./probe/isolation-suite.ts";
import { RUNTIMES } from "./probe/runtimes-under-test.ts";

const ERRNO = { EPERM: 1, ENOENT: 2, EACCES: 13, EROFS: 30, ENOSYS: 38 } as const;
const SIGSYS = 31;
const CLONE_NEWUSER = 0x1000_0000;
const SIGCHLD = 17;

const call = (name: string, ...args: readonly (string | number)[]): string => {
  const number = X86_64_SYSCALLS[name];
  if (number === undefined) throw new Error(`no system call is called ${name}`);
  return `${number}:${args.join(",")}`;
};

/** Every label's outcome is this one. */
const allOf = (calls: Readonly<Record<string, string>>, outcome: string): Record<string, string> =>
  Object.fromEntries(Object.keys(calls).map((label) => [label, outcome]));

describe.each(RUNTIMES)("hostile code under %s", (runtime) => {
  const attacked = isolationSuite(runtime);

  test("cannot unshare user or mount namespaces (A1)", () =>
    attacked(async ({ sh }) => {
      for (const command of ["unshare -Ur true", "unshare -m true", "unshare -n true"])
        expect(await sh(command)).toMatchObject({
          exitCode: 1,
          stderr: "unshare: unshare failed: Operation not permitted\n",
        });
    }));

  test("cannot clone into new namespaces (A2)", () =>
    attacked(async ({ trySyscalls }) => {
      expect(
        await trySyscalls({
          clone: call("clone", CLONE_NEWUSER + SIGCHLD, 0, 0, 0, 0),
          unshare: call("unshare", CLONE_NEWUSER),
          setns: call("setns", 0, 0),
          clone3: call("clone3", 0, 0),
        }),
      ).toEqual({
        clone: `errno=${ERRNO.EPERM}`,
        unshare: `errno=${ERRNO.EPERM}`,
        setns: `errno=${ERRNO.EPERM}`,
        clone3: `errno=${ERRNO.ENOSYS}`,
      });
    }));

  const MOUNT_CALLS = {
    tmpfs: call("mount", "sx", "s/tmp", "stmpfs", 0, 0),
    bind: call("mount", "s/", "s/workspace", "snone", 0x1000, 0),
    remount: call("mount", "snone", "s/", "snone", 0x20, 0),
    unmask: call("umount2", "s/proc/keys", 2),
    pivot: call("pivot_root", "s/tmp", "s/tmp"),
    chroot: call("chroot", "s/workspace"),
    fsopen: call("fsopen", "stmpfs", 0),
    fspick: call("fspick", -100, "s/", 0),
    openTree: call("open_tree", -100, "s/", 1),
    moveMount: call("move_mount", -100, "s/tmp", -100, "s/dev", 0),
    setAttributes: call("mount_setattr", -100, "s/", 0, 0, 32),
  };

  test("cannot mount, remount, unmount or change its root (A3)", () =>
    attacked(async ({ sh, trySyscalls }) => {
      const before = await sh("cat /proc/self/mountinfo");
      expect(await trySyscalls(MOUNT_CALLS)).toEqual(allOf(MOUNT_CALLS, `errno=${ERRNO.EPERM}`));
      expect((await sh("cat /proc/self/mountinfo")).stdout).toBe(before.stdout);
      expect((await sh("touch /x /usr/x /etc/x")).stderr.match(/Read-only/gu)).toHaveLength(3);
    }));

  test("has no device beyond the harmless ones, and makes none (A4)", () =>
    attacked(async ({ sh, attack, trySyscalls }) => {
      const block = { mode: 0o060600, device: 0x800 };
      const calls = {
        block: call("mknod", "s/workspace/sda", block.mode, block.device),
        blockAt: call("mknodat", -100, "s/tmp/sda", block.mode, block.device),
        character: call("mknod", "s/workspace/mem", 0o020600, 0x101),
      };
      expect(await trySyscalls(calls)).toEqual(allOf(calls, `errno=${ERRNO.EPERM}`));
      const devices = ["mem", "kmsg", "kvm", "fuse", "vda", "sda", "loop0", "loop-control", "port"];
      const opened = await attack("open", ...devices.map((name) => `/dev/${name}`));
      expect(opened.stdout).toBe(devices.map((name) => `/dev/${name} read=2 write=2\n`).join(""));
      // By looking at each: what is bound there is a plain file to `find`.
      const nodes = await sh(
        "for f in $(find /dev /workspace /tmp /home); do [ -L $f ] || if [ -b $f ] || [ -c $f ]; then echo $f; fi; done | sort",
      );
      const known = ["full", "null", "pts/ptmx", "random", "tty", "urandom", "zero"];
      expect(nodes.stdout.replace("/dev/console\n", "")).toBe(
        known.map((name) => `/dev/${name}\n`).join(""),
      );
    }));

  test("cannot write the machine's switches (A5)", () =>
    attacked(async ({ attack }) => {
      const corePattern = await readFile("/proc/sys/kernel/core_pattern", "utf8");
      const { stdout } = await attack(
        "open",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/panic_on_oom",
        "/proc/sys/fs/file-max",
        "/proc/sysrq-trigger",
        "/proc/irq/default_smp_affinity",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/power/state",
      );
      const written = [...stdout.matchAll(/write=(\d+)/gu)].map((match) => Number(match[1]));
      expect(written).toHaveLength(11);
      const refusals: number[] = [ERRNO.EACCES, ERRNO.EROFS, ERRNO.ENOENT, ERRNO.EPERM];
      expect(written.filter((errno) => !refusals.includes(errno))).toEqual([]);
      expect(await readFile("/proc/sys/kernel/core_pattern", "utf8")).toBe(corePattern);
    }));

  test("reads nothing about the machine from /proc and /sys (A6)", () =>
    attacked(async ({ sh }) => {
      const files = ["kcore", "keys", "timer_list", "interrupts", "kallsyms", "kmsg", "modules"];
      for (const file of [...files, "cmdline", "iomem", "slabinfo", "sched_debug"])
        expect(
          await sh(`timeout 5 head -c 4096 /proc/${file} 2>/dev/null | tr -d 0`),
        ).toMatchObject({
          stdout: "",
        });
      expect(await sh("ls -A /sys")).toMatchObject({ stdout: "", exitCode: 0 });
    }));

  test("is refused the kernel's dangerous calls (A7)", () =>
    attacked(async ({ trySyscalls }) => {
      const calls = {
        bpf: call("bpf", 5, 0, 0),
        perf: call("perf_event_open", 0, 0, -1, -1, 0),
        userfaultfd: call("userfaultfd", 1),
        ioUring: call("io_uring_setup", 8, 0),
        keyctl: call("keyctl", 0, -3, 1),
        addKey: call("add_key", "suser", "sx", "sx", 1, -3),
        requestKey: call("request_key", "suser", "sx", 0, -3),
        nameToHandle: call("name_to_handle_at", -100, "s/", 0, 0, 0),
        openByHandle: call("open_by_handle_at", 0, 0, 0),
        kexec: call("kexec_load", 0, 0, 0, 0),
        kexecFile: call("kexec_file_load", 0, 0, 0, 0, 0),
        module: call("init_module", 0, 0, 0),
        moduleFile: call("finit_module", 0, 0, 0),
        reboot: call("reboot", 0xfee1_dead, 672_274_793, 0, 0),
        clock: call("settimeofday", 0, 0),
        kernelLog: call("syslog", 3, 0, 0),
        fanotify: call("fanotify_init", 0, 0),
      };
      expect(await trySyscalls(calls)).toEqual(allOf(calls, `errno=${ERRNO.EPERM}`));
    }));

  test("is killed at the 32-bit and x32 entries, and finds no unknown call (A9)", () =>
    attacked(async ({ trySyscalls, sh }) => {
      expect(
        await trySyscalls({ int80: "int80/20", x32: String(0x4000_0000 + 39), unknown: "999" }),
      ).toEqual({
        int80: `signal=${SIGSYS}`,
        x32: `signal=${SIGSYS}`,
        unknown: `errno=${ERRNO.ENOSYS}`,
      });
      expect(await sh("echo alive")).toMatchObject({ stdout: "alive\n", shellRestarted: false });
    }));

  test("has no privilege and gains none (A11)", () =>
    attacked(async ({ sh, run, attack }) => {
      const status = (await run(["cat", "/proc/self/status"])).stdout;
      const field = (name: string): string =>
        new RegExp(`^${name}:[ \\t]*(.*)$`, "mu").exec(status)?.[1] ?? "";
      expect(field("Uid")).toBe("1000\t1000\t1000\t1000");
      expect(field("Groups").trim()).toBe("");
      for (const set of ["CapInh", "CapPrm", "CapEff", "CapAmb"])
        expect([set, field(set)]).toEqual([set, "0000000000000000"]);
      expect([field("NoNewPrivs"), field("Seccomp")]).toEqual(["1", "2"]);
      const [inside, outside, count] = (await sh("cat /proc/self/uid_map")).stdout
        .trim()
        .split(/\s+/u);
      expect([inside, count]).toEqual(["0", "65536"]);
      expect(Number(outside)).toBeGreaterThanOrEqual(1_000_000);
      // Its own file with both bits set, and the set-uid programs of the machine itself.
      expect(await sh("cp ~/attack own && chmod 6755 own && ./own ids")).toMatchObject({
        stdout: "1000 1000 1000 1000 1000 1000\n",
      });
      expect((await attack("ids")).stdout).toBe("1000 1000 1000 1000 1000 1000\n");
      expect((await sh("su -c id root < /dev/null; sudo -n id; pkexec id")).stdout).toBe("");
    }));

  describe("as root inside", () => {
    const asRoot = (attack: (attacker: Attacker) => Promise<void>): Promise<void> =>
      attacked(attack, "root");

    test("still cannot take namespaces, mount, or make devices (A1, A3, A4)", () =>
      asRoot(async ({ sh }) => {
        expect((await sh("id -u; touch /etc/x && ls /etc/x")).stdout).toBe("0\n/etc/x\n");
        for (const command of [
          "unshare -Ur true",
          "unshare -m true",
          "nsenter -t 1 -m true",
          "mount -t tmpfs x /tmp",
          "mount -t proc x /mnt",
          "mount -o remount,rw /usr",
          "mount --bind / /mnt",
          "umount /proc/keys",
          "umount -l /usr",
          "chroot / true",
          "mknod /tmp/sda b 8 0",
          "mknod /root/mem c 1 1",
          "hostname other",
          "date -s 2001-01-01",
          "dmesg",
        ])
          expect([command, (await sh(`${command} > /dev/null`)).exitCode]).not.toEqual([
            command,
            0,
          ]);
      }));

    test("still cannot write the machine's switches or its programs (A5)", () =>
      asRoot(async ({ sh }) => {
        for (const path of [
          "/proc/sys/kernel/core_pattern",
          "/proc/sysrq-trigger",
          "/usr/bin/x",
          "/.sandkasten/runner",
        ])
          expect([path, (await sh(`echo x > ${path}`)).exitCode]).toEqual([path, 1]);
        expect((await sh("cat /proc/keys /proc/kallsyms; ls -A /sys")).output.trim()).toBe("");
      }));
  });
});
