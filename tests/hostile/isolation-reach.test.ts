/** Threats: reaching a network, reaching another sandbox and leaked secrets and descriptors. What code in a sandbox can reach, see or inherit of the host and of other sandboxes. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readlink } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import type { SandboxMachine } from "../support/sandbox-machine.ts";
import type { Attacker } from "./probe/build-probes.ts";
import { hostIds, hostPid } from "./probe/host-ids.ts";
import { isolationSuite } from "./probe/isolation-suite.ts";

const ENOENT = 2;
const ENETUNREACH = 101;
const ECONNREFUSED = 111;

describe("the environment of hostile code", () => {
  const attacked = isolationSuite();

  test("reaches no network, no port and no socket of the host", () =>
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
      // The kernel names the runner's ends of its shells' sockets itself; nothing listens there.
      const abstracts = (await sh("cat /proc/net/unix")).stdout.match(/@.*$/gmu) ?? [];
      for (const name of abstracts) {
        expect(name).toMatch(/^@[0-9a-f]{5}$/u);
        expect((await attack("reach", "abstract", name.slice(1))).stdout).toBe(
          `reach ${ECONNREFUSED}\n`,
        );
      }
    }));

  test("sees, reads and ends nothing of another sandbox", () =>
    attacked(async (victim, { another, machine }) => {
      const attacker = await another();
      expect(await victim.attackAndHold("serve", "victim-socket")).toBe("serving");
      await victim.attack("shm", "put", "4711", "the victim's segment");
      await victim.sh(
        "for d in /workspace /tmp /dev/shm ~; do echo victims > $d/victims-file; done",
      );
      const pid = (await victim.sh("sleep 4242 & echo $!")).stdout.trim();

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
      const [own, others] = [
        await hostIds(machine, attacker.id),
        await hostIds(machine, victim.id),
      ];
      expect(Math.abs(own.outside - others.outside)).toBeGreaterThanOrEqual(own.count);

      // The same from its own side: everything is still there.
      expect((await victim.sh(`kill -0 ${pid} && cat /tmp/victims-file`)).stdout).toBe("victims\n");
      expect((await victim.attack("shm", "get", "4711")).stdout).toBe("the victim's segment\n");
      expect((await victim.attack("reach", "abstract", "victim-socket")).stdout).toBe("reach 0\n");
    }));

  test("inherits no key, no descriptor and no environment of the daemon", async () => {
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
        // The fourth is the directory being listed.
        expect((await attacker.run(["ls", "/proc/self/fd"])).stdout).toBe("0\n1\n2\n3\n");
        const targets = async (directory: string): Promise<readonly string[]> =>
          (await attacker.sh(`ls -l ${directory} | sed -n 's/.* -> //p'`)).stdout
            .trim()
            .split("\n");
        const harmless = /^(\/dev\/null|\/run\/sandkasten\/[\w-]+|pipe:\[\d+\]|\/proc\/\d+\/fd)$/u;
        for (const target of await targets("/proc/self/fd")) expect(target).toMatch(harmless);
        // The shell reports on one socket, which its child processes do not get.
        const ofShell = (await targets("/proc/$$/fd")).filter((target) => !harmless.test(target));
        expect(ofShell).toEqual([expect.stringMatching(/^socket:\[\d+\]$/u)]);
        await expectNoHostPaths(attacker, machine);
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

/** Neither the data directory nor a digest of an image; the image `host` consists of `/usr`. */
async function expectNoHostPaths({ sh }: Attacker, machine: SandboxMachine): Promise<void> {
  const { stdout } = await sh("cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats");
  expect(stdout).toContain(" / ");
  const names = machine.dataDir.split("/").filter((name) => name !== "" && name !== "tmp");
  for (const name of [...names, "/images/", "sandboxes", "native/bin", "backing_file"])
    expect(stdout).not.toContain(name);
  expect(stdout).not.toMatch(/[0-9a-f]{32}/u);
}

/** From outside: PID 1 holds its sockets, pipes, own cgroup and own score, and no file of the host. */
async function expectHarmlessRunner(machine: SandboxMachine, id: string): Promise<void> {
  const pid = await hostPid(machine, id);
  const fds = `/proc/${pid}/fd`;
  const targets = await Promise.all((await readdir(fds)).map((fd) => readlink(join(fds, fd))));
  const known =
    /^(socket:|pipe:|anon_inode:|\/dev\/null$|\/memory\.oom_control$|\/memory\.events$|\/exec-\d+\/cgroup\.procs$|\/$|\/run\/sandkasten\/[\w-]+$|\/memfd:)/u;
  // gVisor's kernel opens the sandbox's own files, which are at /root in its mounts.
  const ownFiles = runtimeUnderTest() === "runsc" ? /^\/(root(\/|$)|null$)/u : /^$/u;
  const strange = targets.filter(
    (target) =>
      !known.test(target) &&
      !ownFiles.test(target) &&
      target !== `/${pid}/oom_score_adj` &&
      !target.includes(`/${id}`),
  );
  expect(strange).toEqual([]);
}
