/** A complete daemon on a Docker engine: what its clients see if the daemon, the engine or a container fails. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { DockerEngine } from "../support/docker-engine.ts";
import { DOCKER_IMAGES, dockerUnderTest } from "../support/docker-under-test.ts";
import { codeBlocks } from "../support/markdown.ts";
import { smallDebianRootfs } from "../support/small-debian.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const execute = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const GUIDE = "docs/guides/operations.md";

const onDocker = (host: string): Readonly<Record<string, string>> => ({
  BACKEND: "docker",
  DOCKER_HOST: host,
  DEFAULT_IMAGE: DOCKER_IMAGES.debian,
});

async function docker(...args: readonly string[]): Promise<string[]> {
  const { stdout } = await execute("docker", ["-H", dockerUnderTest(), ...args]);
  return stdout.split("\n").filter((line) => line !== "");
}

/** Names of the containers that the daemon has created. */
async function containersOf({ dataDir }: TestDaemon): Promise<string[]> {
  const instance = (await readFile(join(dataDir, "instance-id"), "utf8")).trim();
  const filter = `label=sandkasten.instance=${instance}`;
  return await docker("ps", "-a", "--filter", filter, "--format", "{{.Names}}");
}

async function statusOf(daemon: TestDaemon, id: string): Promise<unknown> {
  return (await daemon.call("GET", `/v1/sessions/${id}`)).body["status"];
}

describe("a daemon on a Docker engine", () => {
  it("loses neither shell, files nor running commands by kill -9", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(dockerUnderTest()) });
    const id = await daemon.open();
    await daemon.exec(id, "cd /tmp; KEPT=variable; echo file > /workspace/kept");
    const base = `/v1/sessions/${id}/execs`;
    const running = String(
      (
        await daemon.call("POST", base, {
          cmd: ["sh", "-c", "echo begun; until [ -e /tmp/go ]; do sleep 0.05; done; echo ended"],
        })
      ).body["exec_id"],
    );
    await daemon.call("GET", `${base}/${running}/output?wait_ms=10000`);
    await daemon.kill();
    await daemon.run();
    expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
      status: "running",
      backend: "docker",
    });
    expect(await daemon.exec(id, 'pwd; echo "$KEPT"; cat /work/kept; touch /tmp/go')).toMatchObject(
      { output: "/tmp\nvariable\nfile\n", exit_code: 0 },
    );
    expect((await daemon.call("POST", `${base}/${running}/wait`, {})).body).toMatchObject({
      output: "begun\nended\n",
      exit_code: 0,
    });
    expect((await daemon.call("DELETE", `/v1/sessions/${id}`)).status).toBe(200);
  });

  it("marks a session as crashed if its container was killed or removed by hand", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(dockerUnderTest()) });
    for (const command of [["kill"], ["rm", "-f"]]) {
      const id = await daemon.open();
      await daemon.exec(id, "true");
      const [container = ""] = await containersOf(daemon);
      await docker(...command, container);
      const answer = await daemon.call("POST", `/v1/sessions/${id}/exec`, { cmd: "true" });
      expect([409, 503]).toContain(answer.status);
      // It is known to be gone, so the request does not wait for a timeout.
      expect(answer.body["message"]).not.toContain("within");
      await expect.poll(() => statusOf(daemon, id)).toBe("crashed");
      expect(await containersOf(daemon)).toEqual([]);
    }
  });

  it("names a container and its label after the session, so an administrator can find it", async () => {
    const settings = { ...onDocker(dockerUnderTest()), POOL: `${DOCKER_IMAGES.debian}=1` };
    await using daemon = await TestDaemon.start({ settings });
    const metrics = async (): Promise<string> => await (await daemon.fetch("/v1/metrics")).text();
    await expect.poll(metrics).toContain("\nsandkasten_pooled_sandboxes 1\n");
    const [block] = codeBlocks(await readFile(join(ROOT, GUIDE), "utf8"), "bash");
    const open = async (body: object): Promise<Record<string, unknown>> =>
      (await daemon.call("POST", "/v1/sessions", body)).body;
    const sessions = [await open({}), await open({ env: { NAME: "value" } })];
    expect(sessions.map((session) => session["acquire_source"])).toEqual(["pool", "cold"]);
    for (const { id } of sessions) {
      const command = block?.text.replace("ses_…", String(id)) ?? "";
      const env = { ...process.env, DOCKER_HOST: dockerUnderTest() };
      const { stdout } = await execute("bash", ["-c", `${command.trim()} --format {{.Names}}`], {
        env,
      });
      expect(stdout).toBe(`${String(id)}\n`);
    }
    // Containers without a session are listed separately.
    await daemon.call("PUT", "/v1/workspaces/notes");
    const ids = new Set(sessions.map(({ id }) => id));
    const others = (await containersOf(daemon)).filter((name) => !ids.has(name));
    expect(others.filter((name) => !name.startsWith("ses_"))).toEqual([
      expect.stringMatching(/^sbx_/u),
    ]);
    expect((await daemon.call("DELETE", "/v1/workspaces/notes")).status).toBe(200);
  });

  it("keeps files in a workspace that outlives its session", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(dockerUnderTest()) });
    const first = await daemon.open({ workspace_id: "notes" });
    await daemon.exec(first, "echo kept > /workspace/note");
    await daemon.call("DELETE", `/v1/sessions/${first}`);
    const note = await daemon.call("GET", "/v1/workspaces/notes/fs/read?path=note");
    expect(Buffer.from(String(note.body["content_base64"]), "base64").toString()).toBe("kept\n");
    const second = await daemon.open({ workspace_id: "notes" });
    expect(await daemon.exec(second, "cat note")).toMatchObject({ output: "kept\n" });
    await daemon.call("DELETE", `/v1/sessions/${second}`);
    expect((await daemon.call("DELETE", "/v1/workspaces/notes")).status).toBe(200);
  });

  it("mounts further workspaces at their paths, read-only ones so that nothing is written", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(dockerUnderTest()) });
    const writer = await daemon.open({ workspaces: [{ id: "data", path: "/mnt/new/data" }] });
    const reader = await daemon.open({
      profile: "root",
      workspaces: [{ id: "data", path: "/srv/seen", read_only: true }],
    });
    expect(await daemon.exec(writer, "echo shared > /mnt/new/data/file")).toMatchObject({
      exit_code: 0,
    });
    expect(await daemon.exec(reader, "cat /srv/seen/file; touch /srv/seen/other")).toMatchObject({
      stdout: "shared\n",
      stderr: expect.stringContaining("Read-only file system"),
    });
    await daemon.kill();
    await daemon.run();
    expect((await daemon.call("GET", `/v1/sessions/${reader}`)).body).toMatchObject({
      workspaces: [{ id: "data", path: "/srv/seen", read_only: true }],
    });
    for (const id of [writer, reader]) {
      expect(await daemon.call("DELETE", "/v1/workspaces/data")).toMatchObject({ status: 409 });
      await daemon.call("DELETE", `/v1/sessions/${id}`);
    }
    expect((await daemon.call("DELETE", "/v1/workspaces/data")).status).toBe(200);
  });

  it("creates sandboxes on both backends if both are configured, each on the requested one", async () => {
    const network = `sandkasten-daemon-${process.pid}`;
    await docker("network", "create", network);
    onTestFinished(async () => void (await docker("network", "rm", network)));
    const settings = {
      BACKEND: "oci",
      BACKENDS: "docker",
      DOCKER_HOST: dockerUnderTest(),
      DOCKER_NETWORK: network,
    };
    await using daemon = await TestDaemon.start({ settings });
    const here = await daemon.open();
    const there = await daemon.open({ backend: "docker", image: DOCKER_IMAGES.debian });
    expect((await daemon.call("GET", "/v1/version")).body).toMatchObject({
      backend: "oci",
      backends: ["oci", "docker"],
    });
    for (const [id, backend] of [
      [here, "oci"],
      [there, "docker"],
    ] as const) {
      expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({ backend });
      expect(await daemon.exec(id, "echo works")).toMatchObject({ output: "works\n" });
    }
    const images = await daemon.call<{ images: { reference: string }[] }>(
      "GET",
      "/v1/images?backend=docker",
    );
    expect(images.body.images.map(({ reference }) => reference)).toContain(DOCKER_IMAGES.debian);
    const wanted = { image: DOCKER_IMAGES.debian, network: true };
    const connected = await daemon.call("POST", "/v1/sessions", { ...wanted, backend: "docker" });
    expect(connected).toMatchObject({ status: 201, body: { network: "full" } });
    const { output } = await daemon.exec(String(connected.body["id"]), "cat /proc/net/dev");
    expect(output).toContain("eth0:");
    // The other backend has none.
    expect((await daemon.call("POST", "/v1/sessions", { network: true })).status).toBe(403);
    const refused = await daemon.call("POST", "/v1/sessions", { backend: "moon" });
    expect(refused).toMatchObject({ status: 400, body: { error_code: "INVALID_REQUEST" } });
  });
});

describe("a machine on which the backend oci does not work", () => {
  const launcher = join(ROOT, "native/bin/launcher");
  /** In a separate mount namespace, in which the launcher is not executable. */
  const withoutLauncher = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount --bind /dev/null "$0" && exec "$@"',
    launcher,
  ];

  it("runs sandboxes on Docker, automatically", async () => {
    await using daemon = await TestDaemon.start({
      settings: { ...onDocker(dockerUnderTest()), BACKEND: "auto" },
      runBy: withoutLauncher,
    });
    const id = await daemon.open();
    expect((await daemon.call("GET", `/v1/sessions/${id}`)).body).toMatchObject({
      backend: "docker",
      status: "running",
    });
    await daemon.call("DELETE", `/v1/sessions/${id}`);
  });

  it("gets this report from doctor, which checks both", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    try {
      const [program, ...args] = [
        ...withoutLauncher,
        join(ROOT, "packages/cli/bin/sandkasten"),
        "doctor",
        "--json",
      ];
      const { stdout } = await execute(program, args, {
        env: {
          PATH: process.env["PATH"],
          SANDKASTEN_DATA_DIR: dataDir,
          DOCKER_HOST: dockerUnderTest(),
        },
      });
      expect(JSON.parse(stdout)).toMatchObject({
        usable: true,
        backends: [
          { name: "oci", usable: false, configured: false },
          { name: "docker", usable: true, configured: true },
        ],
      });
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe("while the engine is unreachable", () => {
  let parent: string;
  let engine: DockerEngine;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    engine = await DockerEngine.start(join(parent, "e"));
    await engine.importTarball(DOCKER_IMAGES.debian, await smallDebianRootfs());
  });
  afterAll(async () => {
    await engine[Symbol.asyncDispose]();
    await rm(parent, { recursive: true, force: true });
  });

  it("sessions are unreachable, requests can be retried, and everything is there again afterwards", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(engine.host) });
    const id = await daemon.open();
    await daemon.exec(id, "cd /tmp; KEPT=variable");
    await engine.stop("SIGKILL");
    expect(await statusOf(daemon, id)).toBe("unreachable");
    for (const [method, path, body] of [
      ["POST", `/v1/sessions/${id}/exec`, { cmd: "true" }],
      ["POST", "/v1/sessions", {}],
      ["GET", `/v1/sessions/${id}/stats`, undefined],
      ["GET", `/v1/sessions/${id}/fs/read?path=x`, undefined],
    ] as const) {
      const answer = await daemon.call(method, path, body);
      expect([path, answer.status, answer.headers.get("retry-after")]).toEqual([path, 503, "1"]);
    }
    expect((await daemon.call("GET", "/readyz")).status).toBe(503);
    // A daemon that starts meanwhile does not end anything either.
    await daemon.kill();
    await daemon.run();
    expect(await statusOf(daemon, id)).toBe("unreachable");

    await engine.startAgain({ liveRestore: true });
    expect(await statusOf(daemon, id)).toBe("running");
    expect(await daemon.exec(id, 'pwd; echo "$KEPT"')).toMatchObject({
      output: "/tmp\nvariable\n",
    });
    await daemon.call("DELETE", `/v1/sessions/${id}`);
    await engine.assertNothingLeft();
  });

  it("an engine that ended its containers ends their sessions, and nothing is left", async () => {
    await using daemon = await TestDaemon.start({ settings: onDocker(engine.host) });
    const id = await daemon.open();
    await engine.stop("SIGTERM");
    await engine.startAgain();
    const answer = await daemon.call("POST", `/v1/sessions/${id}/exec`, { cmd: "true" });
    expect([409, 503]).toContain(answer.status);
    await expect.poll(() => statusOf(daemon, id)).toBe("crashed");
    await engine.assertNothingLeft();
  });
});
