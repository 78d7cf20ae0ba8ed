/** Agents whose sandboxes are containers of a Docker engine. */
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  AgentFixture,
  agent,
  toolResults,
} from "../../packages/agents/src/testing/agent-fixture.ts";
import type { ScriptedTurn } from "../../packages/agents/src/testing/model-server.ts";
import { DOCKER_IMAGES, dockerUnderTest } from "../support/docker-under-test.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const execute = promisify(execFile);

let daemon: TestDaemon;
let fixture: AgentFixture;
beforeAll(async () => {
  daemon = await TestDaemon.start({
    settings: {
      BACKEND: "docker",
      DOCKER_HOST: dockerUnderTest(),
      DEFAULT_IMAGE: DOCKER_IMAGES.debian,
      // How the files of a service reach containers if the service itself is in a container.
      DOCKER_WORKSPACE: "volume",
    },
  });
  const filesDir = join(daemon.dataDir, "files-of-agents");
  await mkdir(filesDir);
  await writeFile(join(filesDir, "data.txt"), "staged");
  fixture = await AgentFixture.start({
    daemon,
    filesDir,
    agents: { coder: agent(`sandbox: { mode: code, image: "${DOCKER_IMAGES.debian}" }`) },
  });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const call = (name: string, given: object): ScriptedTurn => ({
  calls: [{ name, arguments: given }],
});

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The engine's objects of this daemon, in the columns of `docker ps` and `docker volume ls`. */
async function leftOnEngine(): Promise<string[]> {
  const instance = (await readFile(join(daemon.dataDir, "instance-id"), "utf8")).trim();
  const docker = async (...args: readonly string[]): Promise<string[]> => {
    const filter = ["--filter", `label=sandkasten.instance=${instance}`];
    const { stdout } = await execute("docker", ["-H", dockerUnderTest(), ...args, ...filter]);
    return stdout
      .split("\n")
      .slice(1)
      .filter((line) => line !== "");
  };
  return [...(await docker("ps", "-a")), ...(await docker("volume", "ls"))];
}

test("`sandbox_open`, `sandbox_exec`, `sandbox_fs_*` tools work in containerized mode", async () => {
  const run = await fixture.run("coder", [
    call("sandbox_open", {}),
    call("sandbox_fs_write", { path: "hello.sh", content: "echo hello from $(uname -s)" }),
    call("sandbox_exec", { cmd: ["sh", "hello.sh"] }),
    call("sandbox_fs_list", { path: "." }),
    call("sandbox_fs_read", { path: "hello.sh" }),
    call("sandbox_fs_delete", { path: "hello.sh" }),
    { text: "All work." },
  ]);
  expect(run).toMatchObject({ status: "succeeded", text: "All work." });
  expect(toolResults(fixture.model)).toMatchObject([
    { created: true },
    { path: "/workspace/hello.sh" },
    { exit_code: 0, stdout: "hello from Linux\n" },
    { entries: [{ path: "hello.sh" }] },
    { contents: "echo hello from $(uname -s)" },
    { deleted: "/workspace/hello.sh" },
  ]);
});

test("File staging (`sandbox_stage_file`, `sandbox_publish_file`) works", async () => {
  await fixture.run("coder", [
    call("sandbox_stage_file", { name: "data.txt", path: "in.txt" }),
    call("sandbox_exec", { command: "tr a-z A-Z < in.txt > out.txt" }),
    call("sandbox_publish_file", { path: "out.txt", name: "result.txt" }),
    { text: "Published." },
  ]);
  const published = join(daemon.dataDir, "files-of-agents", "result.txt");
  expect(await readFile(published, "utf8")).toBe("STAGED");
});

test("Performance is acceptable (<500ms for file operations): less than one `docker exec` takes", async () => {
  const given = { path: "file.txt", content: "x".repeat(1000) };
  fixture.model.play([
    ...Array.from({ length: 8 }, () => [
      call("sandbox_fs_write", given),
      call("sandbox_fs_read", { path: "file.txt" }),
      call("sandbox_fs_list", { path: "." }),
      call("sandbox_fs_delete", { path: "file.txt" }),
    ]).flat(),
    call("sandbox_exec", { command: "echo working; sleep 600" }),
  ]);
  const id = await fixture.client.execute("coder", { task: "x" });
  await fixture.until(id, "tool_output");
  const [container = ""] = (await leftOnEngine())[0]?.split(" ") ?? [];
  const execs: number[] = [];
  for (let round = 0; round < 5; round++) {
    const startedMs = performance.now();
    await execute("docker", ["-H", dockerUnderTest(), "exec", container, "true"]);
    execs.push(performance.now() - startedMs);
  }
  await fixture.client.cancel(id);
  const files = (await fixture.eventsOf(id)).filter(
    ({ type, tool }) => type === "tool_result" && String(tool).startsWith("sandbox_fs_"),
  );
  expect(files).toHaveLength(32);
  expect(files.filter(({ is_error: isError }) => isError)).toEqual([]);
  const durations = files.map(({ duration_ms: duration }) => Number(duration));
  expect(median(durations)).toBeLessThan(median(execs));
});

test("Sandbox containers are properly cleaned up", async () => {
  fixture.model.play([call("sandbox_exec", { command: "echo working; sleep 600" })]);
  const id = await fixture.client.execute("coder", { task: "x" });
  await fixture.until(id, "tool_output");
  expect((await leftOnEngine()).length).toBeGreaterThan(0);
  await fixture.client.cancel(id);
  await fixture.eventsOf(id);
  expect(await leftOnEngine()).toEqual([]);
});
