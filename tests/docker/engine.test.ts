/** The private engine itself: it can be killed and restarted, with or without its containers. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DockerEngine } from "../support/docker-engine.ts";

test("an engine is found with its containers after it was killed, and reports leftovers", async () => {
  const parent = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  try {
    await using engine = await DockerEngine.start(join(parent, "e"));
    await engine.importSmallImage("small:latest", "busybox");
    const flags = ["-d", "--network=none", "--name=one", "--stop-signal=SIGKILL"];
    await engine.docker("run", ...flags, "small", "sleep", "600");
    await engine.stop("SIGKILL");
    await engine.startAgain({ liveRestore: true });
    expect(await engine.docker("exec", "one", "echo", "alive")).toBe("alive");
    await engine.stop("SIGKILL");
    await engine.startAgain();
    expect(await engine.leftovers()).toEqual([expect.stringMatching(/^container one Exited/u)]);
    await expect(engine.assertNothingLeft()).rejects.toThrow("container one");
    await engine.docker("rm", "one");
    await engine.assertNothingLeft();
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});

test("an engine that was killed with a container running leaves nothing behind", async () => {
  const parent = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  try {
    await using engine = await DockerEngine.start(join(parent, "e"));
    await engine.importSmallImage("small:latest", "busybox");
    const id = await engine.docker("run", "-d", "--network", "none", "small", "sleep", "600");
    const pid = await engine.docker("inspect", "-f", "{{.State.Pid}}", id);
    await engine.stop("SIGKILL");
    // A zombie only has an empty command line.
    const words = () => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    expect(await words()).toContain("sleep");
    await engine[Symbol.asyncDispose]();
    expect(await words()).toBe("");
    expect(await readdir(parent)).toEqual([]);
  } finally {
    await rm(parent, { recursive: true, force: true });
  }
});
