/** Threats: gaining privileges and linked mount points. Attacks by images: with their files, links and settings, at creation. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { importTree } from "../support/images.ts";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { HostSnapshot } from "../support/oracles/no-leak.ts";
import { Sentinel } from "../support/oracles/sentinel.ts";
import { embeddedRuntimeUnderTest } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { buildProbes } from "./probe/build-probes.ts";
import { skipUnlessUsable } from "./probe/usable-runtime.ts";

const run = promisify(execFile);

/** A sandbox's mount points, where a link would lead the mount elsewhere. */
const MOUNT_POINTS = ["dev", "proc", "tmp", "run", "workspace", "home/sandbox"];

/** Working directories that lead, or could be made to lead, out of the sandbox. */
const WAYS_OUT = ["/proc/self/fd/7", "/proc/1/root", "/workspace/../..", "relative"];

describe("a hostile image", () => {
  const reason = skipUnlessUsable();
  let machine: SandboxMachine;
  let scratch: string;
  let images = 0;
  let cwd: string | undefined;

  beforeAll(async () => {
    if (reason !== undefined) return;
    scratch = await mkdtemp(join(tmpdir(), "sandkasten-hostile-image-"));
    machine = await SandboxMachine.start({
      runtime: embeddedRuntimeUnderTest(),
      adjustCreate: (request) => {
        const { config } = request;
        if (cwd === undefined) return request;
        return { ...request, config: { ...config, process: { ...config.process, cwd } } };
      },
    });
    await warmUp(machine);
  });
  afterAll(async () => {
    await machine?.[Symbol.asyncDispose]();
    if (scratch !== undefined) await rm(scratch, { recursive: true, force: true });
  });

  /** Imports what `fill` adds to a shell; returns the reference and where its root was unpacked. */
  async function imported(
    fill: (root: string) => Promise<void>,
  ): Promise<{ readonly reference: string; readonly root: string }> {
    images += 1;
    const root = join(scratch, `root-${images}`);
    await mkdir(join(root, "bin"), { recursive: true });
    await cp("/bin/busybox", join(root, "bin/busybox"));
    await symlink("busybox", join(root, "bin/sh"));
    // Makes all images different.
    await writeFile(join(root, "number"), String(images));
    await fill(root);
    const reference = await importTree(machine.embedded, `hostile-${images}:latest`, root);
    const { images: store } = machine.embedded;
    return { reference, root: (await store.rootfs(reference)).path };
  }

  test("grants no privileges through its set-id programs", async () => {
    const { attack } = await buildProbes();
    const { reference } = await imported(async (root) => {
      await writeFile(join(root, "gain"), attack, { mode: 0o755 });
      await run("chmod", ["6755", join(root, "gain")]);
    });
    await aroundCase(machine, async ({ sandbox }) => {
      const { sh } = await sandbox({ image: reference });
      expect(await sh("/gain ids")).toMatchObject({ stdout: "1000 1000 1000 1000 1000 1000\n" });
    });
  });

  test("is refused at import if a mount point is a link", async () => {
    await using sentinel = await Sentinel.plant();
    const before = await HostSnapshot.take(machine);
    for (const path of MOUNT_POINTS) {
      const importing = imported(async (root) => {
        await mkdir(join(root, path, ".."), { recursive: true });
        await symlink(sentinel.directory, join(root, path));
      });
      await expect(importing).rejects.toMatchObject({ code: "INVALID_IMAGE" });
    }
    expect(await readdir(sentinel.directory)).toEqual(["sentinel"]);
    await sentinel.expectUnchanged();
    await before.expectUnchanged();
  });

  test("is refused at creation if a mount point became a link", async () => {
    const { reference, root } = await imported(() => Promise.resolve());
    await using sentinel = await Sentinel.plant();
    const before = await HostSnapshot.take(machine);
    for (const path of MOUNT_POINTS) {
      const at = join(root, path);
      await rename(at, `${at}-aside`);
      await symlink(sentinel.directory, at);
      for (const profile of ["restricted", "root"] as const)
        await expect(machine.sandbox({ image: reference, profile })).rejects.toMatchObject({
          code: "INVALID_IMAGE",
          message: expect.stringContaining("symbolic link"),
        });
      await rm(at);
      await rename(`${at}-aside`, at);
    }
    expect(await readdir(sentinel.directory)).toEqual(["sentinel"]);
    await sentinel.expectUnchanged();
    await before.expectUnchanged();
    // With its own directories, it is an ordinary image.
    await aroundCase(machine, async ({ sandbox }) => {
      expect(await (await sandbox({ image: reference })).sh("echo ok")).toMatchObject({
        stdout: "ok\n",
      });
    });
  });

  test("is refused with a working directory that leads out", async () => {
    await using sentinel = await Sentinel.plant();
    const before = await HostSnapshot.take(machine);
    try {
      for (cwd of WAYS_OUT) await expect(machine.sandbox()).rejects.toThrow("working directory");
    } finally {
      cwd = undefined;
    }
    await sentinel.expectUnchanged();
    await before.expectUnchanged();
  });
});
