/** /var/tmp of containers, whatever the image has there. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dockerUnderTest } from "../../../../../tests/support/docker-under-test.ts";
import { fillSmallRoot, packTree } from "../../../../../tests/support/images.ts";
import { testSandbox } from "../../../../../tests/support/sandbox-machine.ts";
import type { SandboxProfile } from "../../ports/backend.ts";
import { DockerMachine } from "./testing/docker-machine.ts";

const execute = promisify(execFile);
const docker = async (...args: readonly string[]): Promise<string> =>
  (await execute("docker", ["-H", dockerUnderTest(), ...args])).stdout;

let machine: DockerMachine;
let directory: string;
const tags: string[] = [];
beforeAll(async () => {
  machine = await DockerMachine.start();
  directory = await mkdtemp(join(tmpdir(), "sandkasten-var-tmp-"));
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  for (const tag of tags) await docker("rmi", "--force", tag);
  await rm(directory, { recursive: true, force: true });
});

async function imageWith(
  name: string,
  change: (root: string) => Promise<unknown>,
): Promise<string> {
  const root = join(directory, name);
  await fillSmallRoot(root, "busybox");
  await change(root);
  const tag = `var-tmp-${name}:latest`;
  tags.push(tag);
  await docker("import", await packTree(root), tag);
  return tag;
}

/** The result of a write to /var/tmp, and the disk usage of the sandbox afterwards. */
async function write(image: string, profile: SandboxProfile = "restricted") {
  const { id } = await machine.create({ image, profile });
  const channel = await machine.backend.open(id);
  const { sh } = testSandbox(id, channel);
  const { exitCode } = await sh(
    "mkdir /var/tmp/a && dd if=/dev/zero of=/var/tmp/a/file bs=65536 count=16",
  );
  const { diskBytes } = await machine.backend.stats(id);
  channel.close();
  await machine.backend.destroy(id);
  return { exitCode, diskBytes };
}

describe("/var/tmp of a container", () => {
  test("is writable, counts towards the disk, and is removed with the sandbox", async () => {
    const image = await imageWith("plain", (root) =>
      mkdir(join(root, "var/tmp"), { recursive: true }),
    );
    for (const profile of ["restricted", "root"] as const) {
      const { exitCode, diskBytes } = await write(image, profile);
      expect([profile, exitCode]).toEqual([profile, 0]);
      expect(diskBytes).toBeGreaterThanOrEqual(2 ** 20);
    }
    const own = `label=sandkasten.instance=${machine.options.instance}`;
    expect(await docker("volume", "ls", "--quiet", "--filter", own)).toBe("");
  });

  test("is writable if the image has none", async () => {
    const image = await imageWith("missing", async () => {});
    expect(await write(image)).toMatchObject({ exitCode: 0 });
  });

  test("is the target of the image's link inside, as in small systems", async () => {
    const image = await imageWith("linked", async (root) => {
      await mkdir(join(root, "var"));
      await symlink("/tmp", join(root, "var/tmp"));
    });
    expect(await write(image)).toMatchObject({ exitCode: 0, diskBytes: 0 });
  });

  test.each([
    ["var", "var"],
    ["tmp", "var/tmp"],
  ])("is never mounted over the target of a hostile image's link: /%s", async (name, path) => {
    const outside = join(directory, `outside-${name}`);
    await mkdir(outside);
    const image = await imageWith(`hostile-${name}`, async (root) => {
      if (path !== "var") await mkdir(join(root, "var"));
      await symlink(outside, join(root, path));
    });
    expect((await write(image)).exitCode).not.toBe(0);
    expect(await readdir(outside)).toEqual([]);
  });
});
