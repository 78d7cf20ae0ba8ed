import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";
import { runTestCli } from "../testing/test-host.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("completion", () => {
  it("offers the existing sessions", async () => {
    const id = await daemon.open();
    const { stdout } = await daemon.run(["complete", "fish", "--", "exec", "ses_"]);
    expect(stdout).toBe(`${id}\trunning, host\n`);
    const images = await daemon.run(["complete", "bash", "--", "run", "--image", "py"]);
    expect(images.stdout).toBe("python:3\n");
  });

  it("escapes the colons that zsh uses as separators", async () => {
    const { stdout } = await daemon.run(["complete", "zsh", "--", "image", "rm", "py"]);
    expect(stdout).toBe("python\\:3:rootfs\n");
  });

  it("works in a real bash", async () => {
    const bin = fileURLToPath(new URL("../../bin", import.meta.url));
    const script = `PATH=${bin}:$PATH
      source <(sandkasten completion bash)
      COMP_WORDS=(sandkasten image g) COMP_CWORD=2
      _sandkasten
      echo "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)("bash", ["-c", script]);
    expect(stdout).toBe("gc\n");
  });

  it.each(["zsh", "fish"])("prints a script for %s that asks this program", async (shell) => {
    const { stdout } = await runTestCli(["completion", shell]);
    expect(stdout).toContain(`sandkasten complete ${shell} -- `);
  });
});
