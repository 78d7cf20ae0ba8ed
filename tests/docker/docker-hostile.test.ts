/** Threats A–D on containers of a Docker engine: what code tries there, and what happens. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { execFile } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DENIALS, ERRNO } from "../../packages/daemon/src/backends/container/seccomp/deny-table.ts";
import { X86_64_SYSCALLS } from "../../packages/daemon/src/backends/container/seccomp/syscall-table.generated.ts";
import {
  DockerMachine,
  TEST_LIMITS,
} from "../../packages/daemon/src/backends/docker/testing/docker-machine.ts";
import type { SandboxSpec } from "../../packages/daemon/src/index.ts";
import { arm, buildProbes } from "../hostile/probe/build-probes.ts";
import type { Attacker, Probes } from "../hostile/probe/build-probes.ts";
import { DOCKER_IMAGES, dockerUnderTest } from "../support/docker-under-test.ts";
import { fillSmallRoot, packTree } from "../support/images.ts";
import { MIB, testSandbox } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";

const run = promisify(execFile);
const ENETUNREACH = 101;
const ECONNREFUSED = 111;
const ENOSPC = 28;
const EMFILE = 24;
const SIGSYS = 31;
const FAR_TOO_MUCH = String(10 * 1024 * MIB);

let machine: DockerMachine;
let probes: Probes;
/** Attacks that change nothing share one sandbox; creating one takes longer than most of them. */
let attacker: Attacker;

beforeAll(async () => {
  probes = await buildProbes();
  machine = await DockerMachine.start();
  attacker = await armed();
});
afterAll(() => machine[Symbol.asyncDispose]());

async function armed(changes: Partial<SandboxSpec> = {}): Promise<Attacker> {
  const { id } = await machine.create({ image: DOCKER_IMAGES.debian, ...changes });
  return await arm(testSandbox(id, await machine.backend.open(id)), probes);
}

describe("system calls of code", () => {
  test("are refused according to our own profile, for every denied call (A1–A3, A7)", async () => {
    const denied = DENIALS.flatMap(({ syscalls, errno }) =>
      syscalls
        .filter((name) => Object.hasOwn(X86_64_SYSCALLS, name))
        .map((name) => ({ name, outcome: `errno=${ERRNO[errno]}` })),
    );
    expect(denied.length).toBeGreaterThan(50);
    const calls = denied.map(({ name }) => [name, `${X86_64_SYSCALLS[name]}:0,0,0,0,0`]);
    expect(await attacker.trySyscalls(Object.fromEntries(calls))).toEqual(
      Object.fromEntries(denied.map(({ name, outcome }) => [name, outcome])),
    );
  });

  test("are refused at other entry points, and do not exist beyond the table (A2, A9)", async () => {
    const newUserNamespace = 0x1000_0000 + 17;
    expect(
      await attacker.trySyscalls({
        clone: `${X86_64_SYSCALLS["clone"]}:${newUserNamespace},0,0,0,0`,
        int80: "int80/20",
        x32: String(0x4000_0000 + 39),
        unknown: "999",
      }),
    ).toEqual({
      clone: `errno=${ERRNO.EPERM}`,
      int80: `signal=${SIGSYS}`,
      x32: `signal=${SIGSYS}`,
      unknown: `errno=${ERRNO.ENOSYS}`,
    });
  });

  test("gain no privileges, with any file", async () => {
    const status = (await attacker.run(["cat", "/proc/self/status"])).stdout;
    const field = (name: string): string =>
      new RegExp(`^${name}:[ \\t]*(.*)$`, "mu").exec(status)?.[1]?.trim() ?? "";
    expect(field("Uid")).toBe("1000\t1000\t1000\t1000");
    expect(field("Groups")).toBe("");
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapAmb"])
      expect([set, field(set)]).toEqual([set, "0000000000000000"]);
    expect([field("NoNewPrivs"), field("Seccomp")]).toEqual(["1", "2"]);
    expect(
      (await attacker.sh("cp ~/attack own && chmod 6755 own && ./own ids; su -c id < /dev/null"))
        .stdout,
    ).toBe("1000 1000 1000 1000 1000 1000\n");
  });
});

describe("what code can find", () => {
  test("has harmless devices, no kernel settings and nothing about the machine (A4–A6)", async () => {
    const devices = ["mem", "kmsg", "kvm", "fuse", "vda", "sda", "loop0", "loop-control", "port"];
    const opened = await attacker.attack("open", ...devices.map((name) => `/dev/${name}`));
    expect(opened.stdout).toBe(devices.map((name) => `/dev/${name} read=2 write=2\n`).join(""));
    const switches = await attacker.attack(
      "open",
      "/proc/sys/kernel/core_pattern",
      "/proc/sys/vm/panic_on_oom",
      "/proc/sysrq-trigger",
      "/proc/irq/default_smp_affinity",
      "/sys/kernel/uevent_helper",
      "/sys/fs/cgroup/memory/release_agent",
    );
    const written = [...switches.stdout.matchAll(/write=(\d+)/gu)].map(([, errno]) => errno);
    expect(written).toHaveLength(6);
    expect(written).not.toContain("0");
    for (const file of [
      "kcore",
      "keys",
      "timer_list",
      "interrupts",
      "kallsyms",
      "modules",
      "cmdline",
    ])
      expect(await attacker.sh(`head -c 4096 /proc/${file} 2>/dev/null | tr -d 0`)).toMatchObject({
        stdout: "",
      });
    expect((await attacker.sh("ls -A /sys /dev/mqueue")).stdout).toBe("/dev/mqueue:\n\n/sys:\n");
    expect(
      (await attacker.sh("touch /x /usr/x /etc/x /sys/x")).stderr.match(/Read-only/gu),
    ).toHaveLength(4);
  });

  test("has no network and no name server of the machine (A12, A14)", async () => {
    for (const address of ["192.0.2.1", "169.254.169.254", "172.17.0.1"])
      expect((await attacker.attack("reach", "tcp", address, "80")).stdout).toBe(
        `reach ${ENETUNREACH}\n`,
      );
    expect((await attacker.sh("cat /etc/resolv.conf")).stdout.trim()).toBe("nameserver 127.0.0.1");
    const devices = (await attacker.sh("cat /proc/net/dev")).stdout.match(/^\s*\w+:/gmu);
    expect(devices?.map((device) => device.trim())).toEqual(["lo:"]);
  });

  test("has no socket of the engine, and no key of the daemon (A14, CM-34)", async () => {
    const key = `key-${randomBytes(8).toString("hex")}`;
    process.env["SANDKASTEN_API_KEY"] = key;
    try {
      const fresh = await armed();
      const names = (await fresh.run(["env"])).stdout.match(/^\w+(?==)/gmu);
      expect(names?.toSorted()).toEqual([
        "FROM_IMAGE",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LOGNAME",
        "PATH",
        "SANDKASTEN_EXEC_ID",
        "USER",
      ]);
      const seen = await fresh.sh(
        "env; cat /proc/*/environ /proc/*/cmdline; ls -l /proc/*/fd; ls -la /proc/1",
      );
      expect(seen.output).not.toContain(key);
      expect(
        (await fresh.sh("find / -name '*.sock' -not -path '/proc/*' 2>/dev/null")).stdout,
      ).toBe("");
      expect((await fresh.sh("cat /proc/self/mountinfo")).stdout).not.toContain(
        dockerUnderTest().replace("unix://", ""),
      );
      await machine.backend.destroy(fresh.id);
    } finally {
      delete process.env["SANDKASTEN_API_KEY"];
    }
  });

  test("has nothing of another sandbox", async () => {
    const victim = await armed();
    expect(await victim.attackAndHold("serve", "victim-socket")).toBe("serving");
    await victim.attack("shm", "put", "4711", "the victim's segment");
    await victim.sh("for d in /workspace /tmp /dev/shm ~; do echo victims > $d/victims-file; done");
    const pid = (await victim.sh("sleep 4242 & echo $!")).stdout.trim();
    expect((await attacker.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout).not.toMatch(
      /4242|victim/u,
    );
    expect((await attacker.attack("shm", "get", "4711")).stdout).toBe("shm 2\n");
    expect((await attacker.attack("reach", "abstract", "victim-socket")).stdout).toBe(
      `reach ${ECONNREFUSED}\n`,
    );
    expect(
      (await attacker.sh("find / -name victims-file -not -path '/proc/*' 2>/dev/null")).stdout,
    ).toBe("");
    expect((await victim.sh(`kill -0 ${pid} && cat /tmp/victims-file`)).stdout).toBe("victims\n");
    await machine.backend.destroy(victim.id);
  });
});

describe("the runner and its relay", () => {
  test("cannot be reached, traced, stopped or limited by code", async () => {
    const reach = await installAttack(attacker.channel, "reach-init");
    const ran = await attacker.run([reach, "1"]);
    expect(ran.stdout).toMatch(/^\d{3,} tries on \d+ threads$/mu);
    // Without hidepid, which an engine does not offer, it is visible, but no more than that.
    const reached = new Set(ran.stdout.match(/(?<=REACHED ).*/gu));
    expect([...reached].toSorted()).toEqual([
      "reading /proc/1/oom_score_adj 1",
      "reading /proc/1/task 1",
    ]);
    // The relay is also a process of root, and its descriptors are its own.
    const [relay = ""] = /\d+(?= root .*runner relay)|\d+(?= .*runner relay)/u.exec(
      (
        await attacker.sh(
          "for p in /proc/[0-9]*; do echo ${p#/proc/} $(tr '\\0' ' ' < $p/cmdline); done",
        )
      ).stdout,
    ) ?? [""];
    expect(Number(relay)).toBeGreaterThan(1);
    for (const pid of ["1", relay]) {
      const tried = await attacker.sh(
        `for f in mem environ maps; do head -c 1 /proc/${pid}/$f && echo REACHED $f; done
         ls /proc/${pid}/fd /proc/${pid}/root/ /proc/${pid}/cwd/ && echo REACHED fd
         kill -STOP ${pid} && echo REACHED kill
         echo -1000 > /proc/${pid}/oom_score_adj && echo REACHED oom`,
      );
      expect(tried.stdout).toBe("");
    }
    expect(await attacker.sh("echo alive")).toMatchObject({ stdout: "alive\n" });
  });

  test("have a socket and a program that code can neither use nor replace", async () => {
    const ran = await attacker.sh(
      `cd /run/sandkasten
       ls . && echo REACHED list
       for name in runner.sock report new; do
         rm $name && echo REACHED remove $name
         : > $name && echo REACHED write $name
         mv $name $name.old && echo REACHED move $name
         ln -sf /var/run/docker.sock $name && echo REACHED link $name
       done
       : > /.sandkasten/runner && echo REACHED write
       rm -f /.sandkasten/runner && echo REACHED remove
       mv /.sandkasten /x && echo REACHED move
       cd /workspace
       perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0);
         connect($s, pack_sockaddr_un("/run/sandkasten/runner.sock")) and print "REACHED connect\\n";
         bind($s, pack_sockaddr_un("/run/sandkasten/own.sock")) and print "REACHED bind\\n"'
       /.sandkasten/runner --client '{"op":"ping"}' && echo REACHED client
       /.sandkasten/runner relay < /dev/null && echo REACHED relay
       true`,
    );
    expect(ran.stdout.match(/REACHED.*/gu)).toBeNull();
    expect(await attacker.channel.ping()).toMatchObject({ tracking: "processes" });
  });

  test("leave no process behind when channels are opened and closed", async () => {
    for (let i = 0; i < 5; i++) {
      const channel = await machine.backend.open(attacker.id);
      await channel.ping();
      channel.close();
    }
    const relays = async (): Promise<number> =>
      Number(
        (
          await attacker.sh(
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'runner relay' | wc -l",
          )
        ).stdout,
      );
    await expect.poll(relays).toBe(1);
  });
});

describe("code that exhausts resources", () => {
  test("has no more processes than allowed, and is still destroyed at once", async () => {
    const bomber = await armed({ limits: { ...TEST_LIMITS, pids: 100 } });
    await bomber.sh("cd /tmp; kept=before");
    const bomb = { kind: "process", argv: ["bash", "-c", ":(){ :|:& };:"] } as const;
    await bomber.channel.exec(bomb, { execId: "bomb" });
    const pids = async (): Promise<number> =>
      (await machine.backend.stats(bomber.id).catch(() => ({ pids: 100 }))).pids;
    await expect.poll(pids).toBeGreaterThan(90);
    expect(await bomber.channel.ping()).toMatchObject({ tracking: "processes" });
    await machine.backend.destroy(bomber.id);
    expect((await machine.backend.list()).some(({ id }) => id === bomber.id)).toBe(false);
  });

  test("loses the process that uses too much memory, and nothing else (B17, B18)", async () => {
    const hog = await armed({ limits: { ...TEST_LIMITS, memoryBytes: 128 * MIB } });
    await hog.sh("cd /tmp; kept=before");
    let filled = 0;
    for (const directory of ["/dev/shm", "/tmp"]) {
      const [, bytes, errno] = (await hog.attack("fill", directory)).stdout.split(" ").map(Number);
      expect(errno).toBe(ENOSPC);
      filled += bytes ?? Number.NaN;
    }
    expect(filled).toBeLessThanOrEqual(64 * MIB);
    for (let i = 0; i < 2; i++)
      expect(await hog.attack("hog", FAR_TOO_MUCH)).toMatchObject({ exitCode: 137, reason: "oom" });
    expect(await hog.sh("echo $kept; pwd")).toMatchObject({
      stdout: "before\n/tmp\n",
      shellRestarted: false,
    });
    // The engine reports it with a delay, as in resources.test.ts.
    await expect
      .poll(async () => (await machine.backend.stats(hog.id)).oomKills, { timeout: 30_000 })
      .toBeGreaterThanOrEqual(1);
    await machine.backend.destroy(hog.id);
  });

  test("runs out of descriptors, and the next command has new ones", async () => {
    const [, count, errno] = (await attacker.attack("descriptors")).stdout.split(" ").map(Number);
    expect(errno).toBe(EMFILE);
    expect(count).toBeLessThan(4_096);
    expect(await attacker.run(["echo", "next"])).toMatchObject({ stdout: "next\n" });
  });
});

describe("as root inside, code", () => {
  test("writes to its own root and still cannot leave it (A1–A5, D45)", async () => {
    const root = await armed({ profile: "root" });
    expect((await root.sh("id -u; touch /etc/x && ls /etc/x")).stdout).toBe("0\n/etc/x\n");
    for (const command of [
      "unshare -m true",
      "nsenter -t 1 -m true",
      "mount -t tmpfs x /tmp",
      "mount -o remount,rw /.sandkasten",
      "umount /sys",
      "chroot / true",
      "mknod /tmp/sda b 8 0",
      "hostname other",
      "dmesg",
      "echo x > /proc/sys/kernel/core_pattern",
      "echo x > /proc/sysrq-trigger",
      "echo x > /.sandkasten/runner",
      "rm /.sandkasten/runner",
    ])
      expect([command, (await root.sh(`${command} > /dev/null`)).exitCode]).not.toEqual([
        command,
        0,
      ]);
    expect((await root.sh("ls -A /sys; cat /proc/keys")).output).toBe("");
    expect((await root.sh("cat /proc/self/status")).stdout).toMatch(/CapEff:\t00000000000004fb/u);
    // What it does to its own runner affects only itself: it is unreachable, and can be destroyed.
    await root
      .sh("echo gone > /run/sandkasten/runner.sock; kill -9 1; kill -STOP 1")
      .catch(() => undefined);
    await machine.backend.destroy(root.id);
    expect(await attacker.channel.ping()).toMatchObject({ tracking: "processes" });
  });
});

/** With force: a backend that inspects its engine can hold any image for a moment, also of other tests. */
async function removeImage(tag: string): Promise<void> {
  await run("docker", ["-H", dockerUnderTest(), "rmi", "--force", tag]);
}

describe("a hostile image", () => {
  test.each(["workspace", "home", "tmp", "run", ".sandkasten"])(
    "with a link at /%s is refused before anything of it is started",
    async (name) => {
      const outside = await mkdtemp(join(tmpdir(), "sandkasten-outside-"));
      const tag = `hostile-${name.replace(".", "dot-")}:latest`;
      try {
        const root = join(outside, "root");
        await fillSmallRoot(root, "busybox");
        await mkdir(join(outside, "target"));
        await symlink(join(outside, "target"), join(root, name));
        await run("docker", ["-H", dockerUnderTest(), "import", await packTree(root), tag]);
        await expect(machine.create({ image: tag })).rejects.toMatchObject({
          code: "INVALID_IMAGE",
          message: expect.stringContaining(`/${name} must be a directory`),
        });
        expect(await readdir(join(outside, "target"))).toEqual([]);
      } finally {
        await removeImage(tag);
        await rm(outside, { recursive: true, force: true });
      }
    },
  );

  test("with a link at /dev has it replaced by the engine", async () => {
    const outside = await mkdtemp(join(tmpdir(), "sandkasten-outside-"));
    const tag = "hostile-dev:latest";
    try {
      const root = join(outside, "root");
      await fillSmallRoot(root, "busybox");
      await mkdir(join(outside, "target"));
      await symlink(join(outside, "target"), join(root, "dev"));
      await run("docker", ["-H", dockerUnderTest(), "import", await packTree(root), tag]);
      const { id } = await machine.create({ image: tag });
      await machine.backend.destroy(id);
      expect(await readdir(join(outside, "target"))).toEqual([]);
    } finally {
      await removeImage(tag);
      await rm(outside, { recursive: true, force: true });
    }
  });

  test("chooses neither program, user, directory, volumes nor checks", async () => {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
    const tag = "hostile-config:latest";
    const change = (text: string): string[] => ["--change", text];
    try {
      const root = join(directory, "root");
      await fillSmallRoot(root, "busybox");
      await run("docker", [
        "-H",
        dockerUnderTest(),
        "import",
        ...change('ENTRYPOINT ["/bin/false"]'),
        ...change("USER 4242"),
        ...change("WORKDIR /proc/self/fd/7"),
        ...change("VOLUME /kept"),
        ...change("ENV SANDKASTEN_SOCKET=/tmp/mine.sock LD_PRELOAD=/evil.so"),
        ...change("LABEL sandkasten.session_id=sbx_another sandkasten.instance=another"),
        ...change("HEALTHCHECK CMD touch /tmp/checked"),
        await packTree(root),
        tag,
      ]);
      const { id } = await machine.create({ image: tag });
      const channel = await machine.backend.open(id);
      const { sh } = testSandbox(id, channel);
      expect((await sh("id -u; pwd; ls -d /proc/1/cwd/bin")).stdout).toBe("1000\n/workspace\n");
      expect(await machine.backend.adopt(id)).toMatchObject({ id, image: tag });
      await machine.backend.destroy(id);
    } finally {
      await removeImage(tag);
      await rm(directory, { recursive: true, force: true });
    }
  });
});
