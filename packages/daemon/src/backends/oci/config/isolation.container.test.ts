import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HOST_ID_BASE, type Runtime, TestBundle, whyNoContainers } from "./testing/test-bundle.ts";

const MIB = 1024 * 1024;
const EPERM = 1;

/** The result of reading or writing each path: the error's name, or the number of bytes. */
const TRY_PATHS = `
import errno, os, sys
for path in sys.argv[2:]:
    try:
        if sys.argv[1] == "read":
            with open(path, "rb") as f: print(path, len(f.read(4096)))
        else:
            fd = os.open(path, os.O_WRONLY); print(path, "opened"); os.close(fd)
    except OSError as e:
        print(path, errno.errorcode[e.errno])
`;

const TRY_CONNECTS = `
import errno, socket, sys
def attempt(label, family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    try: s.connect(address); print(label, "connected")
    except OSError as e: print(label, errno.errorcode.get(e.errno, str(e)))
attempt("outside", socket.AF_INET, ("192.0.2.1", 80))
attempt("metadata", socket.AF_INET, ("169.254.169.254", 80))
attempt("host-port", socket.AF_INET, ("127.0.0.1", int(sys.argv[1])))
attempt("host-abstract", socket.AF_UNIX, "\\0" + sys.argv[2])
with socket.create_server(("127.0.0.1", 0)) as own: attempt("own-port", socket.AF_INET, own.getsockname())
`;

/** Reads the memory of PID 1 as a debugger would. */
const READ_PID_1 = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
local, remote = Vec(ctypes.addressof(buffer), 16), Vec(0x400000, 16)
print(libc.process_vm_readv(1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0), errno.errorcode[ctypes.get_errno()])
`;

/** The lines of an output, each split into a word and the rest. */
function pairs(text: string): Record<string, string> {
  return Object.fromEntries(
    text
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/[\s:]+(.*)/s).slice(0, 2) as [string, string]),
  );
}

async function listening(server: Server, where: number | string): Promise<Server> {
  if (typeof where === "number") server.listen(where, "127.0.0.1");
  else server.listen(where);
  await once(server, "listening");
  return server;
}

describe.each(["crun", "runc"] as const)("isolation under %s", (runtime: Runtime) => {
  const reason = whyNoContainers(runtime);
  if (reason !== undefined)
    process.stderr.write(`isolation under ${runtime} is not tested: ${reason}\n`);

  describe.skipIf(reason !== undefined)("a sandbox", () => {
    let bundle: TestBundle;
    beforeAll(async () => {
      bundle = await TestBundle.create();
    });
    afterAll(async () => {
      await bundle?.remove();
    });

    async function run(args: readonly string[], config = bundle.config()): Promise<string> {
      const end = await bundle.run(runtime, config, args);
      expect(end).toMatchObject({ exitCode: 0, stderr: "" });
      return end.stdout;
    }

    test("cannot unshare user or mount namespaces", async () => {
      const output = await run([
        "run",
        "sh",
        "-c",
        "unshare -Ur true 2>&1; echo $?; unshare -m true 2>&1; echo $?",
      ]);
      expect(output).toBe("unshare: unshare failed: Operation not permitted\n1\n".repeat(2));
    });

    test("has exactly seven devices", async () => {
      const found = (
        await run([
          "run",
          "sh",
          "-c",
          "for f in $(find /dev | sort); do [ -L $f ] || [ -f $f ] || [ -d $f ] || echo $f; done",
        ])
      )
        .trimEnd()
        .split("\n");
      expect(found.filter((path) => path !== "/dev/console")).toEqual([
        "/dev/full",
        "/dev/null",
        "/dev/pts/ptmx",
        "/dev/random",
        "/dev/tty",
        "/dev/urandom",
        "/dev/zero",
      ]);
    });

    test("cannot write kernel settings", async () => {
      const switches = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/release_agent",
      ];
      const outcomes = pairs(await run(["run", "python3", "-c", TRY_PATHS, "write", ...switches]));
      expect(Object.keys(outcomes)).toEqual(switches);
      for (const outcome of Object.values(outcomes))
        expect(outcome).toMatch(/^(EROFS|EACCES|ENOENT)$/);
    });

    test("reads nothing from masked files, and has no /sys", async () => {
      const paths = [
        "kcore",
        "keys",
        "timer_list",
        "interrupts",
        "kallsyms",
        "cmdline",
        "modules",
        "sched_debug",
      ].map((name) => `/proc/${name}`);
      const outcomes = pairs(
        await run(["run", "python3", "-c", TRY_PATHS, "read", ...paths, "/sys/kernel/notes"]),
      );
      expect(Object.keys(outcomes)).toHaveLength(9);
      for (const outcome of Object.values(outcomes)) expect(outcome).toMatch(/^(0|ENOENT)$/);
    });

    test("runs code as an unprivileged id that cannot gain anything", async () => {
      const status = pairs(await run(["run", "cat", "/proc/self/status"]));
      expect(status).toMatchObject({
        Uid: "1000\t1000\t1000\t1000",
        CapInh: "0000000000000000",
        CapPrm: "0000000000000000",
        CapEff: "0000000000000000",
        CapBnd: "00000000000000e0",
        CapAmb: "0000000000000000",
        NoNewPrivs: "1",
        Seccomp: "2",
      });
      expect((await run(["run", "cat", "/proc/self/uid_map"])).trim().split(/\s+/)).toEqual([
        "0",
        String(HOST_ID_BASE),
        "65536",
      ]);
    });

    test("gains nothing from a planted set-uid program", async () => {
      expect(await run(["run", "/setuid-id", "-u"])).toBe("1000\n");
    });

    test("reaches only itself over the network", async () => {
      const abstract = `sandkasten-${randomUUID()}`;
      const tcp = await listening(createServer(), 0);
      const unix = await listening(createServer(), `\0${abstract}`);
      try {
        const { port } = tcp.address() as { port: number };
        expect(
          pairs(await run(["run", "python3", "-c", TRY_CONNECTS, String(port), abstract])),
        ).toEqual({
          outside: "ENETUNREACH",
          metadata: "ENETUNREACH",
          "host-port": "ECONNREFUSED",
          "host-abstract": "ECONNREFUSED",
          "own-port": "connected",
        });
      } finally {
        tcp.close();
        unix.close();
      }
      const devices = (await run(["run", "cat", "/proc/net/dev"])).match(/^\s*\w+:/gm);
      expect(devices?.map((device) => device.trim())).toEqual(["lo:"]);
    });

    test("inherits no variables and no descriptors of the daemon", async () => {
      process.env["SANDKASTEN_TEST_SECRET"] = "hunter2";
      try {
        const names = Object.keys(
          pairs((await run(["run", "env", "-u", "PWD"])).replaceAll("=", " ")),
        );
        expect(names.sort()).toEqual(["HOME", "LANG", "LOGNAME", "PATH", "USER"]);
      } finally {
        delete process.env["SANDKASTEN_TEST_SECRET"];
      }
      // The fourth is the directory that is being listed.
      expect(await run(["run", "ls", "/proc/self/fd"])).toBe("0\n1\n2\n3\n");
    });

    test("protects PID 1 from code", async () => {
      const [attach, kill, nofile, priority] = [
        "ptrace=101:16,1,0,0",
        "kill=62:1,9",
        "prlimit64=302:1,7,0,0",
        "setpriority=141:0,1,19",
      ] as const;
      const outcomes = pairs(await run(["try", attach, kill, nofile, priority]));
      expect(Object.values(outcomes)).toEqual(Array(4).fill(`errno=${EPERM}`));
      expect(await run(["run", "python3", "-c", READ_PID_1])).toBe("-1 EPERM\n");
      const files = pairs(
        await run([
          "run",
          "python3",
          "-c",
          TRY_PATHS,
          "read",
          "/proc/1/mem",
          "/proc/1/environ",
          "/proc/1/status",
        ]),
      );
      expect(Object.values(files)).toEqual(["ENOENT", "ENOENT", "ENOENT"]);
    });

    test("lets PID 1 see code's processes without CAP_SYS_PTRACE", async () => {
      expect((await run(["proc"])).trimEnd().split("\n")).toEqual([
        "root stat ok",
        "root fd errno=13",
        "as-code stat ok",
        "as-code fd ok",
        "as-code environ ok",
      ]);
    });

    test("has each mount with the requested flags", async () => {
      const flags = new Map(
        (await run(["run", "cat", "/proc/self/mountinfo"]))
          .trimEnd()
          .split("\n")
          .map((line) => {
            const [, , , , destination, options] = line.split(" ");
            return [destination ?? "", (options ?? "").split(",")] as const;
          }),
      );
      const expected: Readonly<Record<string, string[]>> = {
        "/": ["ro"],
        "/usr": ["ro", "nosuid", "nodev"],
        // The rest cannot occur on procfs, which has no programs and no devices.
        "/proc": ["ro"],
        "/proc/sys": ["ro"],
        "/dev": ["rw", "nosuid", "noexec"],
        "/dev/pts": ["rw", "nosuid", "noexec"],
        "/dev/shm": ["rw", "nosuid", "nodev"],
        "/tmp": ["rw", "nosuid", "nodev"],
        "/run": ["rw", "nosuid", "nodev", "noexec"],
        "/.sandkasten/runner": ["ro", "nosuid", "nodev"],
        "/workspace": ["rw", "nosuid", "nodev"],
        "/home/sandbox": ["rw", "nosuid", "nodev"],
        "/var/tmp": ["rw", "nosuid", "nodev"],
      };
      for (const [destination, wanted] of Object.entries(expected)) {
        expect([destination, flags.get(destination)]).toEqual([
          destination,
          expect.arrayContaining(wanted),
        ]);
      }
    });

    test("can write only to its workspace, home and temporary directories", async () => {
      const script =
        "for d in /workspace /home/sandbox /var/tmp /tmp /dev/shm / /usr /run /etc /run/sandkasten; do touch $d/x 2>/dev/null && rm $d/x && echo $d; done; exit 0";
      expect(await run(["run", "sh", "-c", script])).toBe(
        "/workspace\n/home/sandbox\n/var/tmp\n/tmp\n/dev/shm\n",
      );
    });

    test("limits storage in memory to half of the memory limit", async () => {
      const memoryBytes = 64 * MIB;
      const script = [
        "for d in /tmp /dev/shm; do head -c 100M /dev/zero > $d/fill 2>/dev/null; stat -c %s $d/fill; rm $d/fill; done",
        "for d in /tmp /dev/shm; do i=0; while true 2>/dev/null > $d/$i; do i=$((i+1)); done; echo $i; done",
        "s=0; while ipcmk -M 1048576 >/dev/null 2>&1; do s=$((s+1048576)); done; echo $s",
      ].join("\n");
      const [tmp, shm, tmpInodes, shmInodes, segments] = (
        await run(["run", "sh", "-c", script], bundle.config({ memoryBytes }))
      )
        .trimEnd()
        .split("\n")
        .map(Number) as [number, number, number, number, number];
      const total = tmp + shm + segments + (tmpInodes + shmInodes) * 1024;
      expect(Math.min(tmp, shm, segments, tmpInodes, shmInodes)).toBeGreaterThan(0);
      expect(total).toBeLessThanOrEqual(memoryBytes / 2);
    });

    test("limits open files, and writes no core dumps", async () => {
      expect(
        await run(["run", "bash", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Hc; ulimit -Hr"]),
      ).toBe("1024\n4096\n0\n0\n");
    });

    describe("of the root profile", () => {
      test("is root over its own files, with a writable root", async () => {
        const script =
          "id -u; touch /x && chown 5:5 /x && stat -c %u:%g /x && rm /x; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status";
        expect(
          await run(["run-root", "sh", "-c", script], bundle.config({ profile: "root" })),
        ).toBe("0\n5:5\nCapEff:\t00000000000004fb\nNoNewPrivs:\t1\n");
      });

      test("still cannot mount, change its root, create devices or namespaces (A1, A3, A4)", async () => {
        const script = [
          "busybox mount -t tmpfs x /tmp",
          "busybox mount -o remount,rw /usr",
          "busybox umount /proc/keys",
          "busybox chroot / true",
          "busybox mknod /tmp/sda b 8 0",
          "busybox unshare -m true",
          "busybox hostname other",
        ]
          .map((command) => `${command} 2>/dev/null && echo '${command}'`)
          .join("\n");
        expect(
          await run(
            ["run-root", "sh", "-c", `${script}\nexit 0`],
            bundle.config({ profile: "root" }),
          ),
        ).toBe("");
      });
    });
  });
});
