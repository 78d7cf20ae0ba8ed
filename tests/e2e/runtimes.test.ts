import { execFile } from "node:child_process";
import { chmod, chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { release, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { IsolationReport } from "@sandkasten/daemon";
import { describe, expect, test } from "vitest";
import { whyNoGvisor } from "../support/gvisor.ts";
import { importSmallImage } from "../support/images.ts";
import { MIB, SandboxMachine } from "../support/sandbox-machine.ts";

const run = promisify(execFile);

describe("gVisor", () => {
  test("a sandbox keeps its state, enforces timeouts, keeps files and is reported as strong", async (ctx) => {
    ctx.skip(whyNoGvisor() !== undefined, whyNoGvisor());
    await using machine = await SandboxMachine.start({ runtime: "runsc" });
    const sandbox = await machine.sandbox();
    await sandbox.sh("cd /tmp; KEPT=yes");
    expect(await sandbox.sh("echo $KEPT; pwd; echo oops >&2; ls -d /usr")).toMatchObject({
      stdout: "yes\n/tmp\n/usr\n",
      stderr: "oops\n",
    });
    await sandbox.channel.writeFile("file", Buffer.from("content"));
    expect((await sandbox.sh("cat /workspace/file")).stdout).toBe("content");
    expect(
      await sandbox.sh("setsid sleep 77 & while :; do :; done", { timeoutMs: 500 }),
    ).toMatchObject({
      reason: "timeout",
    });
    expect((await sandbox.sh("echo $KEPT; pgrep -c sleep")).stdout).toBe("yes\n0\n");
    const { tier, facts } = await machine.backend.isolation(sandbox.id);
    expect(tier).toBe("strong");
    expect(facts.filter(({ enforced }) => !enforced)).toEqual([]);
  });

  test("two sandboxes of a machine can differ in isolation, and nothing of either is left", async (ctx) => {
    ctx.skip(whyNoGvisor() !== undefined, whyNoGvisor());
    await using machine = await SandboxMachine.start();
    const strong = await machine.sandbox({ isolation: "strong" });
    const standard = await machine.sandbox();
    expect((await strong.sh("uname -r")).stdout).toMatch(/gvisor/u);
    expect((await standard.sh("uname -r")).stdout).toBe(`${release()}\n`);
    expect(await machine.backend.isolation(standard.id)).toMatchObject({ tier: "standard" });

    const again = await (await machine.reopen()).open(strong.id);
    expect(await again.ping()).toMatchObject({ tracking: "cgroup" });
    again.close();
    await machine.destroy(strong.id);
    await machine.destroy(standard.id);
    expect(await machine.backend.list()).toEqual([]);
    for (const left of ["sandboxes", "runtime"])
      expect(await readdir(join(machine.dataDir, left))).toEqual([]);
  });

  test("strong isolation is refused with what to do if gVisor is missing", async () => {
    await using machine = await SandboxMachine.start({ runtimeDir: "/nonexistent" });
    await expect(machine.sandbox({ isolation: "strong" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(/install runsc/u),
    });
  });
});

describe("without root", () => {
  test("a sandbox works, and the report lists what is not enforced", async (ctx) => {
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
        // The earlier job is alive; processes of the command are not.
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
  test("uses at most 2 MB of memory when idle, and is PID 1", async () => {
    await using machine = await SandboxMachine.start();
    const sandbox = await machine.sandbox();
    expect((await sandbox.channel.ping()).rssBytes).toBeLessThanOrEqual(2 * MIB);
    const { facts } = await machine.backend.isolation(sandbox.id);
    expect(facts.find(({ name }) => name === "init_protected")?.enforced).toBe(true);
  });

  test("runs in an image with musl, and starts its programs", async () => {
    await using machine = await SandboxMachine.start();
    const sandbox = await machine.sandbox({
      image: await importSmallImage(machine.embedded, "musl"),
    });
    expect(await sandbox.sh("hello; echo $?")).toMatchObject({ stdout: "hello from musl\n0\n" });
    expect(await sandbox.run(["hello"])).toMatchObject({ stdout: "hello from musl\n" });
  });
});
