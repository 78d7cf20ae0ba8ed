/** Threats A12–A14: what code in a sandbox can reach, see or inherit of the host and of other sandboxes. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { SandboxMachine } from "../support/sandbox-machine.ts";
import type { Attacker } from "./probe/build-probes.ts";
import { isolationSuite } from "./probe/isolation-suite.ts";
import { RUNTIMES } from "./probe/runtimes-under-test.ts";

const ENOENT = 2;
const ENETUNREACH = 101;
const ECONNREFUSED = 111;

describe.each(RUNTIMES)("the world of hostile code under %s", (runtime) => {
  const attacked = isolationSuite(runtime);

  test("reaches no network, no port and no socket of the host (A12)", () =>
    attacked(async ({ sh, attack }) => {
      const abstract = `sandkasten-${randomBytes(8).toString("hex")}`;
      const tcp = await listening(createServer(), 0);
      const unix = await listening(createServer(), `\0${abstract}`);
      try {
        const port = String((tcp.address() as { port: number }).port);
        const outcomes = {
          outside: (await attack("reach", "tcp", "192.0.2.1", "80")).stdout,
          metadata: (await attack("reach", "tcp", "169.254.169.254", "80")).stdout,
          bridge: (await attack("reach", "tcp", "172.17.0.1", port)).stdout,
          hostPort: (await attack("reach", "tcp", "127.0.0.1", port)).stdout,
          hostAbstract: (await attack("reach", "abstract", abstract)).stdout,
        };
        expect(outcomes).toEqual({
          outside: `reach ${ENETUNREACH}\n`,
          metadata: `reach ${ENETUNREACH}\n`,
          bridge: `reach ${ENETUNREACH}\n`,
          hostPort: `reach ${ECONNREFUSED}\n`,
          hostAbstract: `reach ${ECONNREFUSED}\n`,
        });
      } finally {
        tcp.close();
        unix.close();
      }
      const devices = (await sh("cat /proc/net/dev")).stdout.match(/^\s*\w+:/gmu);
      expect(devices?.map((device) => device.trim())).toEqual(["lo:"]);
      expect((await sh("cat /proc/net/unix")).stdout).not.toContain("@");
    }));

  test("sees, reads and ends nothing of another sandbox (A13)", () =>
    attacked(async (victim, { another }) => {
      const attacker = await another();
      expect(await victim.attackAndHold("serve", "victim-socket")).toBe("serving");
      await victim.attack("shm", "put", "4711", "the victim's segment");
      await victim.sh(
        "for d in /workspace /tmp /dev/shm ~; do echo victims > $d/victims-file; done",
      );
      const { stdout: seen } = await victim.sh("sleep 4242 & echo $!; cat /proc/self/uid_map");
      const [pid = "", ids = ""] = seen.split("\n");

      expect((await attacker.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout).not.toMatch(
        /4242|victim/u,
      );
      expect((await attacker.sh(`kill -9 ${pid}`)).stderr).toContain("No such process");
      expect((await attacker.attack("shm", "get", "4711")).stdout).toBe(`shm ${ENOENT}\n`);
      expect((await attacker.attack("reach", "abstract", "victim-socket")).stdout).toBe(
        `reach ${ECONNREFUSED}\n`,
      );
      expect(
        (await attacker.sh("find / -name victims-file -not -path '/proc/*' 2>/dev/null")).stdout,
      ).toBe("");
      expect((await attacker.sh("cat /proc/self/uid_map")).stdout).not.toContain(ids.trim());

      // The same from its own side: all is still there.
      expect((await victim.sh(`kill -0 ${pid} && cat /tmp/victims-file`)).stdout).toBe("victims\n");
      expect((await victim.attack("shm", "get", "4711")).stdout).toBe("the victim's segment\n");
      expect((await victim.attack("reach", "abstract", "victim-socket")).stdout).toBe("reach 0\n");
    }));

  test("inherits no key, no descriptor and no environment of the daemon (A14)", async () => {
    const key = `key-${randomBytes(8).toString("hex")}`;
    process.env["SANDKASTEN_API_KEY"] = key;
    try {
      await attacked(async (attacker, { machine }) => {
        const names = (await attacker.run(["env"])).stdout.match(/^\w+(?==)/gmu);
        expect(names?.toSorted()).toEqual(["HOME", "LANG", "LOGNAME", "PATH", "USER"]);
        const seen = await attacker.sh(
          "env; cat /proc/*/environ /proc/*/mountinfo /proc/*/cmdline; ls -l /proc/*/fd; ls -la /proc/1",
        );
        expect(seen.output).not.toContain(key);
        // The fourth is the directory that is being listed.
        expect((await attacker.run(["ls", "/proc/self/fd"])).stdout).toBe("0\n1\n2\n3\n");
        const targets = (
          await attacker.sh("ls -l /proc/$$/fd /proc/self/fd | sed -n 's/.* -> //p'")
        ).stdout;
        for (const target of targets.trim().split("\n"))
          expect(target).toMatch(
            /^(\/dev\/null|\/run\/sandkasten\/[\w-]+|pipe:\[\d+\]|\/proc\/\d+\/fd)$/u,
          );
        await reportHostPaths(attacker, runtime);
        await expectHarmlessRunner(machine, attacker.id);
      });
    } finally {
      delete process.env["SANDKASTEN_API_KEY"];
    }
  });

  test("finds no path to a file of the host", () =>
    attacked(async ({ sh, channel }, { sentinel, machine }) => {
      const { path } = sentinel;
      const ways = [
        "",
        "/proc/1/root",
        "/proc/self/root",
        "/proc/1/cwd",
        "/proc/self/cwd/../..",
        "/..",
      ];
      for (const way of [...ways, "/proc/self/fd/0/..", "/dev/fd/3/../.."])
        expect((await sh(`cat ${way}${path}`)).exitCode).not.toBe(0);
      await sh(`ln -s ${path} link; ln -s / root; ln -s /proc/1/root init`);
      for (const way of [
        "link",
        `root${path}`,
        `init${path}`,
        `/proc/1/root${path}`,
        `../../../..${path}`,
      ])
        await expect(channel.readFile(way)).rejects.toThrow(
          /No such file|Permission denied|levels of symbolic links/u,
        );
      expect((await sh(`find / -xdev -name sentinel 2>/dev/null`)).stdout).toBe("");
      expect((await sh(`ls ${machine.dataDir} /root /var/lib/sandkasten /etc/shadow`)).stdout).toBe(
        "",
      );
    }));
});

async function listening(server: Server, where: number | string): Promise<Server> {
  if (typeof where === "number") server.listen(where, "127.0.0.1");
  else server.listen(where);
  await once(server, "listening");
  return server;
}

/** The kernel names the sources of bind mounts; the sandbox learns paths, not what is there. */
async function reportHostPaths({ sh }: Attacker, runtime: string): Promise<void> {
  const { stdout } = await sh("cat /proc/self/mountinfo");
  const roots = stdout.split("\n").flatMap((line) => {
    const [, , , root, mountPoint] = line.split(" ");
    const telling =
      root !== undefined && root !== "/" && root !== mountPoint && !line.includes("devtmpfs");
    return telling ? [`${String(mountPoint)} is ${root}`] : [];
  });
  console.log(`paths of the host that mountinfo shows under ${runtime}:\n  ${roots.join("\n  ")}`);
}

/** From outside: PID 1 holds its sockets, pipes and own cgroup, and no file of the host. */
async function expectHarmlessRunner(machine: SandboxMachine, id: string): Promise<void> {
  const record = JSON.parse(
    await readFile(join(machine.dataDir, "sandboxes", id, "sandbox.json"), "utf8"),
  ) as { pid: number };
  const fds = `/proc/${record.pid}/fd`;
  const targets = await Promise.all((await readdir(fds)).map((fd) => readlink(join(fds, fd))));
  const known =
    /^(socket:|pipe:|anon_inode:|\/dev\/null$|\/memory\.oom_control$|\/memory\.events$|\/$|\/run\/sandkasten\/[\w-]+$|\/memfd:)/u;
  const strange = targets.filter((target) => !known.test(target) && !target.includes(`/${id}`));
  expect(strange).toEqual([]);
}
