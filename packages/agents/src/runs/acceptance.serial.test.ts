/** The guarantees for agents, each verified by a run against real sandboxes. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { AgentFixture, agent, toolResults } from "../testing/agent-fixture.ts";
import type { ScriptedTurn } from "../testing/model-server.ts";

const FIXTURES = join(import.meta.dirname, "../testing/fixtures/agents");

let daemon: TestDaemon;
let fixture: AgentFixture;
beforeAll(async () => {
  daemon = await TestDaemon.start({ settings: { DEFAULTS_DISK_LIMIT_MB: "256" } });
  fixture = await AgentFixture.start({
    daemon,
    agents: {
      "python-developer": await readFile(join(FIXTURES, "python-developer.prompt"), "utf8"),
      "log-analyzer": await readFile(join(FIXTURES, "log-analyzer.prompt"), "utf8"),
      coder: agent("sandbox: { mode: code, runtime: python }"),
      computer: agent("sandbox: python"),
      small: agent("sandbox: { mode: code, runtime: python, limits: { memory_mb: 64 } }"),
    },
  });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const call = (name: string, given: object): ScriptedTurn => ({
  calls: [{ name, arguments: given }],
});

/** Sessions that have not ended, as the daemon lists them. */
async function livingSessions(): Promise<unknown[]> {
  const { body } = await daemon.call<unknown[]>("GET", "/v1/sessions?status=running");
  return body;
}

test("Agents can write code, run it, see errors, fix, and re-run across multiple tool calls", async () => {
  const path = "stats.py";
  const run = await fixture.run("Python Developer", [
    call("sandbox_open", {}),
    call("sandbox_fs_write", { path, contents: "print(sum([1, 2, 3]) / count)\n" }),
    call("sandbox_exec", { cmd: ["python3", path] }),
    call("sandbox_fs_read", { path }),
    call("sandbox_fs_write", { path, contents: "count = 3\nprint(sum([1, 2, 3]) / count)\n" }),
    call("sandbox_exec", { cmd: ["python3", path] }),
    { text: "The mean is 2." },
  ]);
  expect(run).toMatchObject({ status: "succeeded", text: "The mean is 2.", steps: 7 });
  expect(toolResults(fixture.model)).toMatchObject([
    { created: true },
    { ok: true },
    { exit_code: 1, stderr: expect.stringContaining("NameError") as string },
    { contents: "print(sum([1, 2, 3]) / count)\n" },
    { ok: true },
    { exit_code: 0, stdout: "2.0\n" },
  ]);
});

test("Files persist within a run, cleaned up after", async () => {
  const first = await fixture.run("coder", [
    call("sandbox_fs_write", { path: "kept.txt", content: "mine" }),
    call("sandbox_exec", { command: "cat kept.txt" }),
    { text: "done" },
  ]);
  expect(first.status).toBe("succeeded");
  expect(toolResults(fixture.model)[1]).toMatchObject({ stdout: "mine" });
  expect(await livingSessions()).toEqual([]);
  await fixture.run("coder", [call("sandbox_fs_list", { path: "." }), { text: "empty" }]);
  expect(toolResults(fixture.model)).toMatchObject([{ entries: [] }]);
});

test("Resource limits enforced (no container exceeds configured memory)", async () => {
  await fixture.run("small", [
    call("sandbox_exec", { cmd: ["python3", "-c", "x = bytearray(300_000_000); print(len(x))"] }),
    call("sandbox_exec", { command: "echo alive" }),
    { text: "It was killed." },
  ]);
  const [hog, after] = toolResults(fixture.model) as { exit_code: number; stdout: string }[];
  expect(hog?.stdout).toBe("");
  expect(hog?.exit_code).not.toBe(0);
  expect(after?.stdout).toBe("alive\n");
});

test("95%+ of sandbox executions complete successfully for supported scripts under timeout", async () => {
  const scripts = Array.from(
    { length: 20 },
    (_, index) =>
      [
        { runtime: "python", code: `print(sum(range(${index})))` },
        { runtime: "node", code: `console.log([...Array(${index}).keys()].length)` },
        { runtime: "bash", code: `echo $((${index} * 2))` },
      ][index % 3]!,
  );
  await fixture.run("computer", [
    {
      calls: scripts.map((given, index) => ({
        name: "sandbox_run",
        arguments: given,
        id: `c${index}`,
      })),
    },
    { text: "done" },
  ]);
  const results = toolResults(fixture.model) as { exit_code: number }[];
  expect(results).toHaveLength(20);
  expect(results.filter(({ exit_code: code }) => code === 0).length).toBeGreaterThanOrEqual(19);
});

const COUNT = `
import json, sys
rows = json.load(open(sys.argv[1]))
print(len(rows), sum(row["value"] for row in rows))
`;

function rows(megabytes: number): string {
  const row = (index: number) => `{"id":${index},"value":1,"text":"${"x".repeat(970)}"}`;
  return `[${Array.from({ length: megabytes * 1000 }, (_, index) => row(index)).join(",")}]`;
}

test('Agents can process "too big for LLM" datasets (5-50MB JSON) using sandbox', async () => {
  const data = rows(5);
  expect(data.length).toBeGreaterThan(5_000_000);
  const given = { code: COUNT, files: { "data.json": data }, args: ["data.json"] };
  await fixture.run("computer", [
    { ...call("sandbox_run", given), pieceLength: 65_536 },
    { text: "counted" },
  ]);
  expect(toolResults(fixture.model)).toMatchObject([{ exit_code: 0, stdout: "5000 5000\n" }]);
  const sent = JSON.stringify(fixture.model.requests.at(-1)?.body);
  expect(sent.length).toBeLessThan(200_000);
});

test("No incidents where sandbox modifies host filesystem or reads host secrets", async () => {
  const secret = join(fixture.dir, "secret.txt");
  await writeFile(secret, "host-secret");
  const marker = `/tmp/marker-${crypto.randomUUID()}`;
  const code = `
import os, sys
print(open("/proc/self/environ").read())
for path in sys.argv[1:]:
    try: print(open(path).read())
    except OSError as error: print(type(error).__name__)
for path in ["${marker}", "/etc/marker", "${secret}"]:
    try: open(path, "w").write("written")
    except OSError: pass
`;
  await fixture.run("computer", [
    call("sandbox_run", {
      code,
      args: [
        secret,
        join(fixture.dir, ".sandkasten", "agents.db"),
        "/etc/shadow",
        "/proc/1/environ",
      ],
    }),
    { text: "Nothing." },
  ]);
  const [{ exit_code: exitCode, stdout = "" } = {}] = toolResults(fixture.model) as {
    exit_code?: number;
    stdout?: string;
  }[];
  expect(exitCode).toBe(0);
  expect(stdout.match(/^(?:FileNotFound|Permission)Error$/gm)?.length).toBeGreaterThanOrEqual(3);
  // The service's variables contain the model's key; the daemon's key gives access to sandboxes.
  for (const kept of ["host-secret", "sk-test", daemon.apiKey, fixture.model.url, "SQLite"])
    expect(stdout).not.toContain(kept);
  expect(await readFile(secret, "utf8")).toBe("host-secret");
  for (const path of [marker, "/etc/marker"])
    await expect(readFile(path)).rejects.toMatchObject({ code: "ENOENT" });
});

test("the largest of them come from the file store", async () => {
  await mkdir(join(fixture.dir, "files"), { recursive: true });
  await using stored = await AgentFixture.start({
    daemon,
    filesDir: join(fixture.dir, "files"),
    agents: {
      stager: agent(
        "sandbox: { mode: code, runtime: python, limits: { max_file_size_bytes: 60000000, workspace_mb: 200 } }",
      ),
    },
  });
  await writeFile(join(fixture.dir, "files", "data.json"), rows(50));
  const run = await stored.run("stager", [
    call("sandbox_stage_file", { name: "data.json", path: "data.json" }),
    call("sandbox_exec", { cmd: ["python3", "-c", COUNT, "data.json"] }),
    call("sandbox_fs_write", { path: "sum.txt", content: "50000" }),
    call("sandbox_publish_file", { path: "sum.txt", name: "sum.txt" }),
    { text: "File staging works." },
  ]);
  expect(run.status).toBe("succeeded");
  expect(toolResults(stored.model)[1]).toMatchObject({ stdout: "50000 50000\n" });
  expect(await readFile(join(fixture.dir, "files", "sum.txt"), "utf8")).toBe("50000");
});

test("`curl -X POST …/execute` starts a run, and sandbox containers are properly cleaned up", async () => {
  fixture.model.play([
    call("sandbox_open", {}),
    call("sandbox_fs_write", { path: "hello.py", content: 'print("hello")' }),
    call("sandbox_exec", { cmd: ["python3", "hello.py"] }),
    { text: "It prints hello." },
  ]);
  const answer = await fetch(`${fixture.service.url}/execute`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: '{"agent_name": "coder", "task": "Write a hello.py and run it"}',
  });
  expect(answer.status).toBe(202);
  const { run_id: runId } = (await answer.json()) as { run_id: string };
  const events = await fixture.eventsOf(runId);
  expect(events.at(-1)).toMatchObject({
    type: "run_ended",
    status: "succeeded",
    text: "It prints hello.",
  });
  expect(events.filter(({ type }) => type === "tool_output")).toMatchObject([
    { stream: "stdout", text: "hello\n" },
  ]);
  expect(await livingSessions()).toEqual([]);
});

test('`agent run "Python Developer" "Write a hello world program and run it"` works', async () => {
  const run = await fixture.run(
    "Python Developer",
    [
      call("sandbox_open", {}),
      call("sandbox_fs_write", { path: "hello.py", contents: "print('Hello, World!')" }),
      call("sandbox_exec", { cmd: ["python3", "hello.py"] }),
      { text: "Done." },
    ],
    { task: "Write a hello world program and run it" },
  );
  expect(run.status).toBe("succeeded");
  expect(fixture.model.requests[0]?.body.messages).toMatchObject([
    {
      role: "system",
      content: expect.stringMatching(/^You are a Python developer agent/) as string,
    },
    { role: "user", content: "\nWrite a hello world program and run it" },
  ]);
  expect(toolResults(fixture.model)[2]).toMatchObject({ exit_code: 0, stdout: "Hello, World!\n" });
});

test("the scripted model shows a complete run without any key, in both modes", async () => {
  await using offline = await AgentFixture.start({
    daemon,
    env: { OPENAI_API_KEY: "", OPENAI_BASE_URL: "" },
    agents: {
      code: agent("sandbox: { mode: code }").replace("openai/tiny", "scripted/demo"),
      compute: agent("sandbox: python").replace("openai/tiny", "scripted/demo"),
    },
  });
  for (const name of ["code", "compute"])
    expect(await offline.client.executeAndWait(name, { task: "Show me" })).toMatchObject({
      status: "succeeded",
      text: "The program printed: Hello from the sandbox, it is Linux.",
    });
});

test('the agent "Log Analyzer" gives a structured result of its input', async () => {
  const logData = ["INFO up", "ERROR disk full", "ERROR disk full", "ERROR no route"].join("\n");
  const code = `
import json
from collections import Counter
lines = ${JSON.stringify(logData)}.split("\\n")
errors = [line for line in lines if "ERROR" in line]
top = [{"message": m, "count": c} for m, c in Counter(errors).most_common(5)]
print(json.dumps({"total_lines": len(lines), "error_count": len(errors), "top_errors": top}))
`;
  const run = await fixture.run(
    "Log Analyzer",
    ({ messages }) => {
      const last = messages.at(-1);
      if (last?.role !== "tool") return call("sandbox_run", { code });
      return { text: (JSON.parse(last.content ?? "") as { stdout: string }).stdout };
    },
    { input: { log_data: logData } },
  );
  expect(run.output).toEqual({
    total_lines: 4,
    error_count: 3,
    top_errors: [
      { message: "ERROR disk full", count: 2 },
      { message: "ERROR no route", count: 1 },
    ],
  });
  expect(fixture.model.requests[0]?.body.messages.at(-1)?.content).toContain(`"""${logData}"""`);
  await expect(fixture.client.execute("Log Analyzer", { task: "x" })).rejects.toThrow(
    /log_data is missing/,
  );
});

/** What a monitoring system reads from the service. */
async function counted(): Promise<{ readonly runs: number; readonly transforms: number }> {
  const text = await (await fetch(`${fixture.service.url}/metrics`)).text();
  const sum = (pattern: RegExp): number =>
    [...text.matchAll(pattern)].reduce((total, [, value]) => total + Number(value), 0);
  return {
    runs: sum(/^sandkasten_agent_runs_total\{.*\} (\d+)$/gm),
    transforms: sum(/^sandkasten_tool_calls_total\{tool="sandbox_run",ok="true"\} (\d+)$/gm),
  };
}

test('Measurable increase in "tool-assisted deterministic transforms" vs LLM-only reasoning: both are counted', async () => {
  const before = await counted();
  await fixture.run("computer", [{ text: "About 40, I think." }]);
  const guessed = await counted();
  expect(guessed).toEqual({ runs: before.runs + 1, transforms: before.transforms });
  const code = "print(sum(range(10)))";
  await fixture.run("computer", [call("sandbox_run", { code }), { text: "45" }]);
  expect(await counted()).toEqual({ runs: guessed.runs + 1, transforms: guessed.transforms + 1 });
});
