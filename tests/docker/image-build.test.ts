/** Images that a Docker engine builds from Dockerfiles, and images committed from sessions. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CliRun, cliFor } from "../support/cli.ts";
import { DOCKER_IMAGES, dockerUnderTest } from "../support/docker-under-test.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const KEYS = { admin: "administrators-key-0123", bob: "bobs-key-0123456789" };

let daemon: TestDaemon;
let scratch: string;
let sandkasten: (...args: readonly string[]) => Promise<CliRun>;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-docker-build-"));
  daemon = await TestDaemon.start({
    settings: {
      BACKEND: "docker",
      DOCKER_HOST: dockerUnderTest(),
      DEFAULT_IMAGE: DOCKER_IMAGES.busybox,
      API_KEY: KEYS.admin,
      API_KEYS: `bob=${KEYS.bob}`,
    },
  });
  sandkasten = cliFor(daemon, scratch, { DOCKER_HOST: dockerUnderTest() });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

async function docker(...args: readonly string[]): Promise<string> {
  return (await promisify(execFile)("docker", ["-H", dockerUnderTest(), ...args])).stdout.trim();
}

/** Names that builds have while they run. */
const unfinished = (): Promise<string> => docker("image", "ls", "--quiet", "sandkasten-build");

async function context(name: string, steps: readonly string[]): Promise<string> {
  const directory = join(scratch, name);
  await mkdir(directory);
  const lines = [`FROM ${DOCKER_IMAGES.busybox} AS tools`, ...steps, ""];
  await writeFile(join(directory, "Dockerfile"), lines.join("\n"));
  await writeFile(join(directory, "copied"), `${name}\n`);
  return directory;
}

const build = (tag: string, directory: string, ...more: readonly string[]): Promise<CliRun> =>
  sandkasten("image", "build", "--builder", "docker", "-t", tag, ...more, directory);

/** A stage based on another one, a variable, a step as root, and a deleted file of the base. */
const STEPS = [
  "RUN echo by $(busybox id -u) > /made; busybox rm /bin/yes",
  "FROM tools AS small",
  "ARG VERSION=1",
  "ENV TOOL_VERSION=$VERSION",
  "COPY copied /copied",
  "FROM small",
  "RUN echo too much > /large",
];
const LOOK = "cat /made /copied; echo $TOOL_VERSION; ls /bin/yes /large";

describe("image build --builder docker", () => {
  it("builds a stage with arguments, for the engine and for the embedded backend", async () => {
    const directory = await context("works", STEPS);
    const options = ["--build-arg", "VERSION=7", "--target", "small"];
    const built = await build("works:1", directory, ...options);
    expect(built).toMatchObject({ code: 0, stderr: "" });
    expect(built.stdout).toMatch(/^works:1\tsha256:\w+\n$/);
    const seen = await sandkasten("run", "--image", "works:1", LOOK);
    expect(seen.stdout).toBe("by 0\nworks\n7\n");
    expect(seen.stderr).toMatch(/\/bin\/yes: No such file.*\/large: No such file/s);
    expect(await unfinished()).toBe("");

    await using embedded = await TestDaemon.start();
    const there = cliFor(embedded, scratch, { DOCKER_HOST: dockerUnderTest() });
    const args = ["image", "build", "--builder", "docker", "-t", "works:1", ...options, directory];
    expect(await there(...args)).toMatchObject({ code: 0, stderr: "" });
    const same = await there("run", "--image", "works:1", LOOK);
    expect(same.stdout).toBe(seen.stdout);
    await sandkasten("image", "rm", "works:1");
  });

  it("keeps concurrent builds separate", async () => {
    const names = ["one", "two", "three"];
    const builds = names.map(async (name) => {
      const directory = await context(name, ["COPY copied /copied"]);
      return await build(`${name}:1`, directory);
    });
    for (const { code, stderr } of await Promise.all(builds))
      expect([code, stderr]).toEqual([0, ""]);
    for (const name of names) {
      const seen = await sandkasten("run", "--image", `${name}:1`, "cat /copied");
      expect(seen.stdout).toBe(`${name}\n`);
      await sandkasten("image", "rm", `${name}:1`);
    }
    expect(await unfinished()).toBe("");
  });

  it("gives steps no network, and shows why a build failed", async () => {
    const directory = await context("fails", [
      "RUN busybox ip -o link; echo this went wrong; busybox false",
    ]);
    const { code, stderr } = await build("fails:1", directory);
    expect([code, stderr]).toEqual([1, expect.stringContaining("this went wrong")]);
    expect(stderr).toMatch(/\d: lo:/);
    expect(stderr).not.toMatch(/\d: (?!lo)\w+:/);
  });

  it("says what to do if no engine responds", async () => {
    const lost = cliFor(daemon, scratch, { DOCKER_HOST: "unix:///nowhere/docker.sock" });
    const directory = await context("nowhere", []);
    const args = ["image", "build", "--builder", "docker", "-t", "x:1", directory];
    const { code, stderr } = await lost(...args);
    expect([code, stderr]).toEqual([1, expect.stringContaining("unix:///nowhere/docker.sock")]);
  });
});

describe("commit on a Docker engine", () => {
  it("keeps installed files, and omits mounts", async () => {
    const session = (await sandkasten("create", "--profile", "root")).stdout.trim();
    const installed = await sandkasten(
      "exec",
      session,
      "mkdir -p /opt/tool; printf '#!/bin/sh\\necho tool works\\n' > /opt/tool/run; chmod 4755 /opt/tool/run; " +
        "busybox rm /bin/yes; for at in /workspace /tmp /home/sandbox; do echo secret > $at/left-out; done",
    );
    expect(installed).toMatchObject({ code: 0, stderr: "" });
    const committed = await sandkasten("commit", session, "tools:1");
    expect(committed).toMatchObject({ code: 0, stderr: "" });
    expect(committed.stdout).toMatch(/^tools:1\tsha256:\w+\n$/);
    expect((await sandkasten("exec", session, "echo goes on")).stdout).toBe("goes on\n");
    const look =
      "/opt/tool/run; busybox stat -c %a /opt/tool/run; ls -d /bin/yes; busybox find / -xdev -name left-out; busybox find /workspace /tmp /home -name left-out";
    const seen = await sandkasten("run", "--image", "tools:1", look);
    expect(seen.stdout).toBe("tool works\n755\n");
    expect(seen.stderr).toContain("/bin/yes: No such file");
    await sandkasten("rm", session);
    expect(await sandkasten("image", "rm", "tools:1")).toMatchObject({ code: 0 });
  });

  it("is for administrators, because all keys use the images", async () => {
    const bob = new SandboxClient({ baseUrl: daemon.url, apiKey: KEYS.bob });
    await using session = await bob.createSession({ profile: "root" });
    await expect(session.commit("bobs:1")).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    expect(await docker("image", "ls", "--quiet", "bobs")).toBe("");
  });
});
