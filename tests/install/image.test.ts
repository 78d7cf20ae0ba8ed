/** The container image on a Docker engine that only has the release's files. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DockerEngine } from "../support/docker-engine.ts";
import { freePort } from "../support/free-port.ts";
import { ReleaseBuild } from "../support/release-build.ts";

const TIMEOUT_MS = 15 * 60_000;
const KEY = "sk-sandbox-of-a-test";
const DAEMON = "the-daemon";

let directory: string;
let engine: DockerEngine;
let release: ReleaseBuild;
beforeAll(async () => {
  release = await ReleaseBuild.create("image");
  directory = await mkdtemp(join(tmpdir(), "sandkasten-image-"));
  engine = await DockerEngine.start(join(directory, "e"));
  const gunzip = `gzip --decompress --stdout ${await release.file("sandkasten-*-image-linux-x64.tar.gz")}`;
  const load = engine.command("load").join(" ");
  await promisify(execFile)("bash", ["-o", "pipefail", "-c", `${gunzip} | ${load}`]);
  await engine.importSmallImage("sandbox", "busybox");
}, TIMEOUT_MS);
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
  await release?.[Symbol.asyncDispose]();
});

describe("the released image", { timeout: TIMEOUT_MS }, () => {
  test("does not run as root by default, and contains no development packages", async () => {
    const [user, probe] = [
      await engine.docker("image", "inspect", "--format", "{{.Config.User}}", "sandkasten:latest"),
      ["run", "--rm", "--network=none", "--entrypoint=sh", "sandkasten:latest"],
    ];
    expect(user).toBe("sandkasten");
    const said = await engine.docker(
      ...probe,
      "-c",
      "id -u; stat -c '%u %a' /var/lib/sandkasten /var/lib; ls /opt/sandkasten/node_modules; sandkasten --version",
    );
    expect(said).toMatch(/^10000\n10000 700\n0 755\n/);
    expect(said).toContain("\nfastify\n");
    expect(said).not.toContain("\nvitest\n");
  });

  test("serves sandboxes that run next to it on the engine", async () => {
    const port = await freePort();
    const socket = engine.host.replace("unix://", "");
    const variables = {
      SANDKASTEN_API_KEY: KEY,
      SANDKASTEN_LISTEN: `127.0.0.1:${port}`,
      SANDKASTEN_DEFAULT_IMAGE: "sandbox",
      SANDKASTEN_DOCKER_WORKSPACE: "volume",
    };
    const env = Object.entries(variables).map((pair) => `--env=${pair.join("=")}`);
    const mount = `--volume=${socket}:/var/run/docker.sock`;
    // Root, because the engine's socket belongs to root.
    const options = ["--detach", "--name", DAEMON, "--network=host", "--user=0", mount, ...env];
    await engine.docker("run", ...options, "sandkasten:latest");
    const url = `http://127.0.0.1:${port}`;
    try {
      while (
        !(await fetch(`${url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        ))
      ) {
        const state = await engine.docker("inspect", "--format", "{{.State.Status}}", DAEMON);
        if (state !== "running") throw new Error(await engine.docker("logs", DAEMON));
        await sleep(100);
      }
      const cli = ["exec", DAEMON, "sandkasten", "--url", url, "--api-key", KEY];
      expect(await engine.docker(...cli, "run", "--", "echo hello from $PWD")).toBe(
        "hello from /workspace",
      );
    } finally {
      await engine.docker("rm", "--force", "--volumes", DAEMON);
    }
  });
});
