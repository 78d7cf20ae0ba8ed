import { execFile } from "node:child_process";
import { access, chmod, chown, constants, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { IsolationReport } from "@sandkasten/daemon";
import { describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { MIB, SandboxMachine } from "../support/sandbox-machine.ts";

const run = promisify(execFile);

describe("gVisor", () => {
  test("a sandbox remembers, times out, keeps files and is said to be strong", async (ctx) => {
    const present = await access("/usr/bin/runsc", constants.X_OK).then(
      () => true,
      () => false,
    );
    if (!present) ctx.skip("runsc is not installed");
    await using machine = await SandboxMachine.start({ runtime: "runsc" });
    const sandbox = await machine.sandbox({
      limits: {
        memoryBytes: 512 << 20,
        cpuMillicores: 1000,
        pids: 512,
        diskBytes: 64 << 20,
        diskInodes: 8192,
      },
    });
    await sandbox.sh("cd /tmp; KEPT=yes");
    expect(await sandbox.sh("echo $KEPT; pwd; echo oops >&2")).toMatchObject({
      stdout: "yes\n/tmp\n",
      stderr: "oops\n",
    });
    await sandbox.channel.writeFile("file", Buffer.from("content"));
    expect((await sandbox.sh("read line </workspace/file; echo $line")).stdout).toBe("content\n");
    expect(await sandbox.sh("while :; do :; done", { timeoutMs: 500 })).toMatchObject({
      reason: "timeout",
    });
    expect((await sandbox.sh("echo $KEPT")).stdout).toBe("yes\n");
    expect(await machine.backend.isolation(sandbox.id)).toMatchObject({ tier: "strong" });
  });

  test("programs of the image run", async (ctx) => {
    const version = await run("runsc", ["--version"]).then(
      ({ stdout }) => stdout.split("\n")[0] ?? "",
      () => "none",
    );
    const date = Number(/\d{8}/u.exec(version)?.[0] ?? 0);
    if (date < 20_230_701)
      ctx.skip(`${version}: too old for current glibc programs, whose statx() it refuses`);
    await using machine = await SandboxMachine.start({ runtime: "runsc" });
    const sandbox = await machine.sandbox();
    expect((await sandbox.sh("ls -d /usr")).stdout).toBe("/usr\n");
  });
});

describe("without root", () => {
  test("a sandbox works, and what is not enforced is said", async (ctx) => {
    const uid = 64_321;
    const asUser = ["--reuid", String(uid), "--regid", String(uid), "--clear-groups"];
    const script = fileURLToPath(new URL("./rootless-sandbox.ts", import.meta.url));
    for (const path of [script, process.execPath]) {
      const readable = await run("setpriv", [...asUser, "test", "-r", path]).then(
        () => true,
        () => false,
      );
      if (!readable) ctx.skip(`${dirname(path)} is closed to other users`);
    }
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    try {
      await chown(dataDir, uid, uid);
      await chmod(dataDir, 0o700);
      const { stdout } = await run("setpriv", [...asUser, process.execPath, script, dataDir], {
        env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: dataDir },
      });
      const told = JSON.parse(stdout) as {
        shell: string;
        timeout: string;
        jobs: string;
        survivors: string;
        network: string;
        isolation: IsolationReport;
        left: unknown[];
      };
      expect(told).toMatchObject({
        shell: "yes\n/tmp\ncontent",
        timeout: "timeout",
        jobs: "1",
        // The job from before is alive, what the command started is not.
        survivors: "1",
        network: "1",
        left: [],
      });
      const enforced = new Map(told.isolation.facts.map((fact) => [fact.name, fact.enforced]));
      for (const wall of ["user_namespace", "seccomp", "no_new_privileges", "code_capabilities"])
        expect([wall, enforced.get(wall)]).toEqual([wall, true]);
      for (const missing of ["disk_quota", "memory_limit", "unique_ids"])
        expect([missing, enforced.get(missing)]).toEqual([missing, false]);
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe("the runner", () => {
  test("takes at most 2 MB of memory when idle, and is PID 1", async () => {
    await using machine = await SandboxMachine.start();
    const sandbox = await machine.sandbox();
    expect((await sandbox.channel.ping()).rssBytes).toBeLessThanOrEqual(2 * MIB);
    const { facts } = await machine.backend.isolation(sandbox.id);
    expect(facts.find(({ name }) => name === "init_protected")?.enforced).toBe(true);
  });

  test("runs in an image of musl, whose programs it starts", async () => {
    await using machine = await SandboxMachine.start();
    const sandbox = await machine.sandbox({
      image: await importSmallImage(machine.embedded, "musl"),
    });
    expect(await sandbox.sh("hello; echo $?")).toMatchObject({ stdout: "hello from musl\n0\n" });
    expect(await sandbox.run(["hello"])).toMatchObject({ stdout: "hello from musl\n" });
  });
});
