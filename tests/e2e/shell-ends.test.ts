/** Where the next shell starts when one has ended, however it ended. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { newExecId, SandboxMachine, TEST_LIMITS } from "../support/sandbox-machine.ts";
import type { Ran, TestSandbox } from "../support/sandbox-machine.ts";

describe.each(["bash", "dash", "busybox"] as const)("a shell (%s) that ends", (shell) => {
  let machine: SandboxMachine;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
    const image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    sandbox = await machine.sandbox({ image });
  });

  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    await sandbox.sh("trap - EXIT; cd /");
  });

  /** Runs a text that ends the shell, and returns where that was and where the next one is. */
  async function places(text: string): Promise<readonly string[]> {
    const ended = await sandbox.sh(text);
    expect([text, ended.shellRestarted]).toEqual([text, true]);
    const next = await sandbox.sh("pwd");
    expect([text, next.shellRestarted]).toEqual([text, true]);
    return [ended.cwd ?? "", next.stdout.replace(/\n$/u, "")];
  }

  test.each([
    ["exit", "cd /tmp; exit 3"],
    ["a failure", "set -e; cd /tmp; false"],
    ["an EXIT trap", "trap 'echo bye' EXIT; cd /tmp; exit 3"],
    ["an EXIT trap that a function sets", "f() { trap 'echo bye' EXIT; }; cd /tmp; f; exit 3"],
    ["an EXIT trap that changes it", "trap 'cd /tmp' EXIT; exit 3"],
    ["an EXIT trap, traced", "set -x; trap 'echo bye' EXIT; cd /tmp; exit 3"],
    ["a list of traps", "cd /tmp; trap; exit 3"],
    ["a name for `exit` that the text does not have", "cd /tmp; e=xit; eval e$e"],
    ["exec", "cd /tmp; exec true"],
    ["exec of what changes it", "exec sh -c 'cd /tmp; exit 3'"],
    ["exec of what is not there", "cd /tmp; shopt -u execfail 2>/dev/null; exec ./nothing"],
    ["a kill", "cd /tmp; kill -9 $$"],
    ["a kill after a false word", "cd /tmp; PWD=/usr; OLDPWD=; kill -9 $$"],
    ["exit without a word", "cd /tmp; unset PWD; exit"],
  ])("passes its directory on to the next: %s", async (_, text) => {
    expect(await places(text)).toEqual(["/tmp", "/tmp"]);
  });

  test.runIf(shell === "bash")("leaves its directory with all traps of bash set", async () => {
    const traps = "trap 'echo bye' EXIT; trap ': d' DEBUG; trap ': r' RETURN; set -T";
    expect(await places(`${traps}; cd /tmp; exit 3`)).toEqual(["/tmp", "/tmp"]);
    expect(await places(`cd /tmp; trap(){ :; }; builtin trap ': x' EXIT; exit`)).toEqual([
      "/tmp",
      "/tmp",
    ]);
  });

  test("keeps the name of its directory as long as it leads there", async () => {
    const busybox = shell === "bash" ? "" : "busybox ";
    await sandbox.sh(`mkdir -p /tmp/real; ${busybox}ln -sfn real /tmp/link; cd /tmp/link`);
    // The next shell determines its directory itself.
    expect(await places("exit")).toEqual(["/tmp/link", "/tmp/real"]);
    await sandbox.sh("cd /tmp/link");
    expect(await places("rm /tmp/link; exit")).toEqual(["/tmp/real", "/tmp/real"]);
    await sandbox.sh("cd /tmp/real");
    expect(await places(`${busybox}mv /tmp/real /tmp/moved; exit`)).toEqual([
      "/tmp/moved",
      "/tmp/moved",
    ]);
  });

  test("passes on the last existing directory if its own was removed or locked", async () => {
    expect(await places("mkdir /tmp/gone; cd /tmp/gone; rm -r /tmp/gone; exit")).toEqual([
      "/",
      "/",
    ]);
    const lock = shell === "bash" ? "chmod 0 ." : "busybox chmod 0 .";
    expect(await places(`mkdir /tmp/locked; cd /tmp/locked; ${lock}; exit`)).toEqual([
      "/tmp/locked",
      "/",
    ]);
    const gone = "'/tmp/gone (deleted)'";
    expect(await places(`mkdir /tmp/gone ${gone}; cd /tmp/gone; rm -r /tmp/gone; exit`)).toEqual([
      "/",
      "/",
    ]);
    expect(await places(`cd ${gone}; kill -9 $$`)).toEqual(Array(2).fill("/tmp/gone (deleted)"));
  });

  test("passes on a directory with a long or unusual name", async () => {
    for (const path of [
      `/tmp/${Array(19).fill("n".repeat(200)).join("/")}`,
      "/tmp/it's a\n'trap -- \"$x\" EXIT'\u{1F980}",
    ]) {
      const quoted = `'${path.replaceAll("'", "'\\''")}'`;
      expect(await places(`mkdir -p ${quoted}; cd ${quoted}; kill -9 $$`)).toEqual([path, path]);
    }
  });

  test("does not pass on a directory that was for one command", async () => {
    const ended = await sandbox.sh("pwd; exit", { cwd: "/tmp" });
    expect(ended).toMatchObject({ stdout: "/tmp\n", cwd: "/", shellRestarted: true });
    expect((await sandbox.sh("pwd")).stdout).toBe("/\n");
  });

  test("shares its directory and umask with no other shell, program or file call", async () => {
    const other = async (text: string): Promise<Pick<Ran, "stdout">> => {
      const command = { kind: "shell", text, shell: "other" } as const;
      const stream = await sandbox.channel.exec(command, { execId: newExecId() });
      let stdout = "";
      for await (const { bytes } of stream) stdout += Buffer.from(bytes).toString();
      await stream.ended;
      return { stdout };
    };
    const tell = "pwd; umask";
    expect((await other(`cd /bin; ${tell}`)).stdout).toBe("/bin\n0022\n");
    await sandbox.sh("cd /tmp; umask 077");
    expect((await other(tell)).stdout).toBe("/bin\n0022\n");
    expect((await sandbox.run(["sh", "-c", tell])).stdout).toBe("/workspace\n0022\n");
    await sandbox.channel.writeFile("shared/file", Buffer.from("x"));
    const listed = await sandbox.run(["ls", "-ld", "shared", "shared/file"]);
    expect(listed.stdout).toMatch(/^drwxr-xr-x .*\n-rw-r--r-- /u);
    expect(await places("exit")).toEqual(["/tmp", "/tmp"]);
    // The last shell's umask does not affect a new one.
    expect((await sandbox.sh("umask")).stdout).toBe("0022\n");
    expect((await other(tell)).stdout).toBe("/bin\n0022\n");
    await sandbox.channel.closeShell("other");
  });

  test("shows its EXIT trap only its own state", async () => {
    const shown = await sandbox.sh("trap 'echo bye' EXIT; type trap; false && exit; trap");
    expect(shown.stdout).toMatch(
      /^trap is a (?:special )?shell builtin\ntrap -- 'echo bye' EXIT\n$/u,
    );
    expect((await sandbox.sh("e=EXIT; tr''ap -- '' $e; tr''ap - $e; tr''ap")).stdout).not.toContain(
      "EXIT",
    );
  });

  // bash would wait for room in its profile, and gVisor's kernel counts otherwise.
  test.runIf(shell !== "bash" && runtimeUnderTest() !== "runsc")(
    "passes on the last reported directory if there was no room for a thread",
    async () => {
      const limits = { ...TEST_LIMITS, pids: 16 };
      const crowded = await machine.sandbox({ image: `test-${shell}:latest`, limits });
      const pids = async (): Promise<number> => (await machine.backend.stats(crowded.id)).pids;
      await crowded.sh("cd /tmp");
      const withShell = await pids();
      expect((await crowded.sh("exit")).cwd).toBe("/tmp");
      await expect.poll(pids).toBe(withShell - 2);
      // They leave room for one.
      const sleeps = Array(limits.pids - withShell)
        .fill("sleep 1000 &")
        .join(" ");
      const argv = ["sh", "-c", `${sleeps} echo ready; exec sleep 1000`];
      const crowd = await crowded.channel.exec({ kind: "process", argv }, { execId: "crowd" });
      let output = "";
      for await (const { bytes } of crowd) {
        output += Buffer.from(bytes).toString();
        if (output === "ready\n") break;
      }
      expect(await pids()).toBe(limits.pids - 1);
      for (let round = 0; round < 3; round += 1) {
        const ended = await crowded.sh("pwd; cd /; exit 3");
        expect(ended).toMatchObject({ stdout: "/tmp\n", exitCode: 3, cwd: "/tmp" });
        expect(await pids()).toBe(limits.pids - 1);
      }
      await crowded.channel.cancel("crowd");
      await crowd.ended;
      await crowded.sh("exit");
      expect(await crowded.sh("cd /; exit 3")).toMatchObject({ exitCode: 3, cwd: "/" });
    },
  );
});
