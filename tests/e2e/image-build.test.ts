/** `sandkasten image build`, with the real buildah, and sandboxes from the built images. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliRun, cliFor } from "../support/cli.ts";
import { fillSmallRoot } from "../support/images.ts";
import { TestDaemon } from "../support/test-daemon.ts";

let daemon: TestDaemon;
let scratch: string;
let sandkasten: (...args: readonly string[]) => Promise<CliRun>;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-e2e-build-"));
  daemon = await TestDaemon.start();
  sandkasten = cliFor(daemon, scratch);
  await mkdir(join(scratch, "host-secrets"));
  await writeFile(join(scratch, "host-secrets/secret"), "a-secret-of-the-machine\n");
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

async function context(name: string, steps: readonly string[]): Promise<string> {
  const directory = join(scratch, name);
  await fillSmallRoot(join(directory, "root"), "busybox");
  const dockerfile = ["FROM scratch", "COPY root /", ...steps].join("\n");
  await writeFile(join(directory, "Dockerfile"), `${dockerfile}\n`);
  return directory;
}

/** A step's output is shown if it fails. */
function failing(command: string): string {
  return `RUN ${command}; busybox false`;
}

describe("image build", { timeout: 120_000 }, () => {
  test("builds a Dockerfile, and sandboxes contain its files", async () => {
    const directory = await context("works", [
      "ARG VERSION=1",
      "ENV TOOL_VERSION=$VERSION",
      "RUN mkdir -p /opt && echo built by $(id -u) > /opt/made",
      "COPY Dockerfile /opt/",
    ]);
    const built = await sandkasten(
      "image",
      "build",
      "-t",
      "works:1",
      "--build-arg",
      "VERSION=7",
      directory,
    );
    expect(built).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^works:1\tsha256:/),
      stderr: "",
    });
    const run = await sandkasten(
      "run",
      "--image",
      "works:1",
      "cat /opt/made; env | busybox grep TOOL; ls /opt; busybox stat -c %u /opt/made /bin/busybox",
    );
    expect(run.stdout).toBe("built by 0\nTOOL_VERSION=7\nDockerfile\nmade\n0\n0\n");
  });

  test("shows the last lines of a build that fails", async () => {
    const directory = await context("fails", [failing("echo this went wrong")]);
    const { code, stderr } = await sandkasten("image", "build", "-t", "fails:1", directory);
    expect([code, stderr]).toEqual([1, expect.stringContaining("this went wrong")]);
  });

  test("isolates its steps: no network, few capabilities, other ids, none of the machine's devices", async () => {
    const directory = await context("isolated", [
      failing(
        "cat /proc/net/dev /proc/self/uid_map; busybox grep CapBnd /proc/self/status | tr '\t' ' '; echo $(ls /dev); echo the end",
      ),
    ]);
    const { stderr } = await sandkasten("image", "build", "-t", "isolated:1", directory);
    expect(stderr).toContain("the end");
    expect(stderr).not.toMatch(/eth0|ens|vda|sda|kmsg/);
    expect(stderr).toMatch(/^\s+0\s+1879048192\s+65536$/m);
    const capabilities = BigInt(`0x${/CapBnd:\s+([0-9a-f]+)/.exec(stderr)?.[1] ?? "f".repeat(16)}`);
    const forbidden = {
      net_admin: 12n,
      net_raw: 13n,
      sys_module: 16n,
      sys_ptrace: 19n,
      sys_admin: 21n,
      mknod: 27n,
    };
    for (const [name, bit] of Object.entries(forbidden))
      expect([name, capabilities & (1n << bit)]).toEqual([name, 0n]);
  });

  test.each([
    [
      "a link in the context",
      "RUN --mount=type=bind,source=link,target=/mnt cat /mnt/secret; busybox false",
    ],
    ["a copied link", "COPY link/secret /stolen\nRUN cat /stolen; busybox false"],
    [
      "a way out of the context",
      "COPY ../host-secrets/secret /stolen\nRUN cat /stolen; busybox false",
    ],
    [
      "a link to the root of another process",
      "RUN --mount=type=bind,source=magic,target=/mnt busybox find /mnt -name secret -exec cat {} +; busybox false",
    ],
    [
      "the processes of the machine",
      failing("cat /proc/1/root/host-secrets/secret /proc/*/root/*/secret"),
    ],
  ])("does not show the machine's files through %s", async (what, step) => {
    const directory = await context(`attack-${what.replaceAll(" ", "-")}`, [step]);
    await symlink(join(scratch, "host-secrets"), join(directory, "link"));
    await symlink(`/proc/1/root${join(scratch, "host-secrets")}`, join(directory, "magic"));
    const { code, stdout, stderr } = await sandkasten(
      "image",
      "build",
      "-t",
      "attack:1",
      directory,
    );
    expect(code).toBe(1);
    expect(stdout + stderr).not.toContain("a-secret-of-the-machine");
  });

  test("reports what is wrong before it builds", async () => {
    const missing = await sandkasten("image", "build", "-t", "x:1", "nowhere");
    expect([missing.code, missing.stderr]).toEqual([
      1,
      expect.stringContaining("nowhere does not exist"),
    ]);
    const outside = await sandkasten(
      "image",
      "build",
      "-t",
      "x:1",
      "-f",
      "../Dockerfile",
      "host-secrets",
    );
    expect([outside.code, outside.stderr]).toEqual([
      2,
      expect.stringContaining("not inside the context"),
    ]);
  });
});
