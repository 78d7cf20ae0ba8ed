/** The directory of one command, and of the stateful shell before and after it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { importSmallImage } from "../support/images.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import type { TestSandbox } from "../support/sandbox-machine.ts";

describe.each(["bash", "dash", "busybox"] as const)("a shell (%s)", (shell) => {
  let machine: SandboxMachine;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    machine = await SandboxMachine.start();
    const image = shell === "bash" ? "host" : await importSmallImage(machine.embedded, shell);
    sandbox = await machine.sandbox({ image });
  });

  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
  });

  test("keeps a directory whose name is not UTF-8", async () => {
    const odd = String.raw`"$(printf '/tmp/\377 %%d\n\047\\n')"`;
    expect((await sandbox.sh(`mkdir ${odd} && cd ${odd} && : > here`)).exitCode).toBe(0);
    const there = "[ -e here ] && echo there; [ -e ./usr ] || echo not root";
    const found = { stdout: "there\nnot root\n", stderr: "" };
    expect(await sandbox.sh(there)).toMatchObject(found);
    expect((await sandbox.sh("pwd", { cwd: "/tmp" })).stdout).toBe("/tmp\n");
    expect(await sandbox.sh(there)).toMatchObject(found);
    // The directory before it, too.
    await sandbox.sh("cd /tmp");
    expect((await sandbox.sh("pwd", { cwd: "/" })).stdout).toBe("/\n");
    expect(await sandbox.sh(`cd - >/dev/null; ${there}`)).toMatchObject(found);
    expect((await sandbox.sh("exit 3")).shellRestarted).toBe(true);
    expect(await sandbox.sh(there)).toMatchObject(found);
    await sandbox.sh("cd /");
  });

  test("does not run a command in another directory than that which it asks for", async () => {
    // The sandbox hides PID 1 from code, but not from the runner.
    const cwd = "/proc/1";
    for (const flags of ["", "set -e", "set -u"]) {
      await sandbox.sh(`KEPT=yes; ${flags}`);
      for (const env of [{}, { A: "b" }])
        expect(await sandbox.sh("echo run; pwd", { cwd, env })).toMatchObject({
          exitCode: 1,
          reason: "exited",
          stdout: "",
          stderr: "cd: /proc/1: cannot be entered; the command did not run\n",
          cwd: "/",
        });
      expect(await sandbox.sh("echo $KEPT; set +eu")).toMatchObject({
        stdout: "yes\n",
        shellRestarted: false,
      });
    }
  });

  test("enters a directory that it cannot note", async () => {
    await sandbox.sh("KEPT=yes; readonly PWD OLDPWD");
    for (let round = 0; round < 2; round += 1)
      expect(
        await sandbox.sh("[ -d null ] || [ -e null ] && echo $KEPT", { cwd: "/dev" }),
      ).toMatchObject({
        stdout: "yes\n",
        stderr: "",
        shellRestarted: false,
      });
    expect((await sandbox.sh("[ -e null ] || echo back")).stdout).toBe("back\n");
    await sandbox.sh("exit");
  });
});
