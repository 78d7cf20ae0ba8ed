/** Threats: new namespaces, mounting filesystems, device access, changing kernel settings, reading kernel state, rare kernel interfaces, foreign system calls and gaining privileges. System calls of code in a sandbox, and their results. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { X86_64_SYSCALLS } from "../../packages/daemon/src/backends/container/seccomp/syscall-table.generated.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import type { Attacker } from "./probe/build-probes.ts";
import { hostIds } from "./probe/host-ids.ts";
import { isolationSuite } from "./probe/isolation-suite.ts";

const ERRNO = { EPERM: 1, ENOENT: 2, EACCES: 13, EINVAL: 22, EROFS: 30, ENOSYS: 38 } as const;
const SIGSYS = 31;
const CLONE_NEWUSER = 0x1000_0000;
const SIGCHLD = 17;

/**
 * The expected answers. gVisor's kernel is a separate process with ids that no other sandbox has:
 * what it has or allows inside affects only itself, and the host stays unchanged.
 */
const ANSWERS =
  runtimeUnderTest() === "runsc"
    ? {
        // Namespaces it creates are in gVisor's kernel, and its seccomp supports only one errno.
        clone3: `errno=${ERRNO.EINVAL}`,
        foreignEntry: `errno=${ERRNO.EPERM}`,
        unknownCall: `errno=${ERRNO.EPERM}`,
        // Permissions are checked before the mount.
        writeToRoot: /Permission denied/gu,
        // No host device is behind it, and mounting a file system with it is refused.
        fuse: `read=${ERRNO.EPERM} write=0`,
        devices: [
          "full",
          "fuse",
          "net/tun",
          "null",
          "pts/ptmx",
          "random",
          "tty",
          "urandom",
          "zero",
        ],
        kernelCommand: "BOOT_IMAGE=/vmlinuz-4.19.-gvisor quiet\n",
        sys: [
          "block",
          "bus",
          "class",
          "dev",
          "devices",
          "firmware",
          "fs",
          "kernel",
          "module",
          "power",
        ],
      }
    : {
        clone3: `errno=${ERRNO.ENOSYS}`,
        foreignEntry: `signal=${SIGSYS}`,
        unknownCall: `errno=${ERRNO.ENOSYS}`,
        writeToRoot: /Read-only/gu,
        fuse: `read=${ERRNO.ENOENT} write=${ERRNO.ENOENT}`,
        devices: ["full", "null", "pts/ptmx", "random", "tty", "urandom", "zero"],
        kernelCommand: "",
        sys: [],
      };

const call = (name: string, ...args: readonly (string | number)[]): string => {
  const number = X86_64_SYSCALLS[name];
  if (number === undefined) throw new Error(`no system call is called ${name}`);
  return `${number}:${args.join(",")}`;
};

/** The same outcome for every label. */
const allOf = (calls: Readonly<Record<string, string>>, outcome: string): Record<string, string> =>
  Object.fromEntries(Object.keys(calls).map((label) => [label, outcome]));

describe("hostile code", () => {
  const attacked = isolationSuite();

  test("cannot unshare user or mount namespaces", () =>
    attacked(async ({ sh }) => {
      for (const command of ["unshare -Ur true", "unshare -m true", "unshare -n true"])
        expect(await sh(command)).toMatchObject({
          exitCode: 1,
          stderr: "unshare: unshare failed: Operation not permitted\n",
        });
    }));

  test("cannot clone into new namespaces", () =>
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
        clone3: ANSWERS.clone3,
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

  test("cannot mount, remount, unmount or change its root", () =>
    attacked(async ({ sh, trySyscalls }) => {
      const before = await sh("cat /proc/self/mountinfo");
      expect(await trySyscalls(MOUNT_CALLS)).toEqual(allOf(MOUNT_CALLS, `errno=${ERRNO.EPERM}`));
      expect((await sh("cat /proc/self/mountinfo")).stdout).toBe(before.stdout);
      expect((await sh("touch /x /usr/x /etc/x")).stderr.match(ANSWERS.writeToRoot)).toHaveLength(
        3,
      );
    }));

  test("has only harmless devices, and cannot create others", () =>
    attacked(async ({ sh, attack, trySyscalls }) => {
      const block = { mode: 0o060600, device: 0x800 };
      const calls = {
        block: call("mknod", "s/workspace/sda", block.mode, block.device),
        blockAt: call("mknodat", -100, "s/tmp/sda", block.mode, block.device),
        character: call("mknod", "s/workspace/mem", 0o020600, 0x101),
      };
      expect(await trySyscalls(calls)).toEqual(allOf(calls, `errno=${ERRNO.EPERM}`));
      const devices = ["mem", "kmsg", "kvm", "vda", "sda", "loop0", "loop-control", "port"];
      const opened = await attack("open", "/dev/fuse", ...devices.map((name) => `/dev/${name}`));
      expect(opened.stdout).toBe(
        `/dev/fuse ${ANSWERS.fuse}\n` +
          devices.map((name) => `/dev/${name} read=2 write=2\n`).join(""),
      );
      // Inspects each one: to `find`, a bound node is a plain file.
      const nodes = await sh(
        "for f in $(find /dev /workspace /tmp /home); do [ -L $f ] || if [ -b $f ] || [ -c $f ]; then echo $f; fi; done | sort",
      );
      expect(nodes.stdout.replace("/dev/console\n", "")).toBe(
        ANSWERS.devices.map((name) => `/dev/${name}\n`).join(""),
      );
    }));

  test("cannot write kernel settings", () =>
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

  test("reads nothing about the machine from /proc and /sys", () =>
    attacked(async ({ sh }) => {
      const files = ["kcore", "keys", "timer_list", "interrupts", "kallsyms", "kmsg", "modules"];
      const disks = ["diskstats", "partitions", "swaps", "locks", "zoneinfo", "buddyinfo"];
      const shown = async (file: string): Promise<string> =>
        (await sh(`timeout 5 head -c 4096 /proc/${file} 2>/dev/null | tr -d 0`)).stdout;
      for (const file of [...files, ...disks, "iomem", "slabinfo", "sched_debug"])
        expect([file, await shown(file)]).toEqual([file, ""]);
      expect(await shown("cmdline")).toBe(ANSWERS.kernelCommand);
      for (const directory of ["fs", "pressure", "bus"])
        expect(await sh(`ls -A /proc/${directory}`)).toMatchObject({ stdout: "" });
      expect((await sh("ls -A /sys")).stdout.split("\n").filter(Boolean)).toEqual(ANSWERS.sys);
      // Nothing of the host's bus, disks, firmware or cards.
      const machine =
        "/sys/block /sys/bus /sys/firmware /sys/kernel /sys/class/net /sys/class/block";
      expect((await sh(`find ${machine} -mindepth 1 2>/dev/null`)).stdout).toBe("");
    }));

  test("is refused dangerous system calls", () =>
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

  test("gets no unusual sockets, pairs or line disciplines", () =>
    attacked(async ({ trySyscalls, sh }) => {
      const refused = {
        mptcp: call("socket", 2, 1, 262),
        mptcp6: call("socket", 10, 1, 262),
        sctp: call("socket", 2, 1, 132),
        sctpPackets: call("socket", 2, 5, 132),
        udpLite: call("socket", 10, 2, 136),
        icmp: call("socket", 2, 2, 1),
        raw: call("socket", 2, 3, 255),
        dccp: call("socket", 2, 6, 33),
        l2tp: call("socket", 2, 2, 115),
        tipcPair: call("socketpair", 30, 1, 0, 0),
        discipline: call("ioctl", 0, 0x5423, 0),
      };
      const outcomes = await trySyscalls(refused);
      expect(Object.keys(outcomes)).toEqual(Object.keys(refused));
      for (const [name, outcome] of Object.entries(outcomes))
        expect([name, outcome]).toEqual([name, expect.stringMatching(/^errno=(1|38|93)$/u)]);
      const python = `import socket
a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9).decode())
s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())
c.send(b'tcp'); print(s.accept()[0].recv(9).decode())
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP); print(u.proto)`;
      expect((await sh(`python3 -c "${python}"`)).output).toBe("pair\ntcp\n17\n");
    }));

  test("gains nothing from the 32-bit and x32 entry points, and finds no unknown call", () =>
    attacked(async ({ trySyscalls, sh }) => {
      expect(
        await trySyscalls({ int80: "int80/20", x32: String(0x4000_0000 + 39), unknown: "999" }),
      ).toEqual({
        int80: ANSWERS.foreignEntry,
        x32: ANSWERS.foreignEntry,
        unknown: ANSWERS.unknownCall,
      });
      expect(await sh("echo alive")).toMatchObject({ stdout: "alive\n", shellRestarted: false });
    }));

  test("has no privileges and gains none", () =>
    attacked(async ({ id, sh, run, attack }, { machine }) => {
      const status = (await run(["cat", "/proc/self/status"])).stdout;
      const field = (name: string): string =>
        new RegExp(`^${name}:[ \\t]*(.*)$`, "mu").exec(status)?.[1] ?? "";
      expect(field("Uid")).toBe("1000\t1000\t1000\t1000");
      expect(field("Groups").trim()).toBe("");
      for (const set of ["CapInh", "CapPrm", "CapEff", "CapAmb"])
        expect([set, field(set)]).toEqual([set, "0000000000000000"]);
      expect([field("NoNewPrivs"), field("Seccomp")]).toEqual(["1", "2"]);
      const { inside, outside, count } = await hostIds(machine, id);
      expect([inside, count]).toEqual([0, 65_536]);
      expect(outside).toBeGreaterThanOrEqual(1_000_000);
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

    test("still cannot create namespaces, mount, or create devices (A1, A3, A4)", () =>
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

    test("still cannot write kernel settings or the machine's programs", () =>
      asRoot(async ({ sh }) => {
        for (const path of [
          "/proc/sys/kernel/core_pattern",
          "/proc/sysrq-trigger",
          "/usr/bin/x",
          "/.sandkasten/runner",
        ])
          expect([path, (await sh(`echo x > ${path}`)).exitCode]).toEqual([path, 1]);
        expect((await sh("cat /proc/keys /proc/kallsyms 2>/dev/null")).output).toBe("");
        expect((await sh("ls -A /sys")).stdout.split("\n").filter(Boolean)).toEqual(ANSWERS.sys);
      }));
  });
});
