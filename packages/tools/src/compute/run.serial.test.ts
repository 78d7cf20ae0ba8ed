/** Programs in fresh sandboxes, with a real daemon. */
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ToolFixture } from "../testing/tool-fixture.ts";
import type { OutputPiece } from "../tool.ts";
import { collectArtifacts } from "./artifacts.ts";

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start({
    settings: { DEFAULTS_MEM_LIMIT_MB: "512", DEFAULTS_DISK_LIMIT_MB: "256" },
  });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

/** How many sandboxes of the scope exist. */
async function liveSessions(id: string): Promise<number> {
  const sessions = await Array.fromAsync(fixture.client.sessions({ status: "running" }));
  return sessions.filter(({ key }) => key?.startsWith(`agent:${id}:`)).length;
}

describe("sandbox_run", () => {
  it.each([
    [
      "python",
      "import sys, os; print(sys.argv[1:], os.environ['NAME'], open('data/in.txt').read()); print('bad', file=sys.stderr)",
      "['a', 'b c'] Ann from a file\n",
    ],
    [
      "node",
      "const fs = require('node:fs'); console.log(process.argv.slice(2), process.env.NAME, fs.readFileSync('data/in.txt', 'utf8')); console.error('bad')",
      "[ 'a', 'b c' ] Ann from a file\n",
    ],
    [
      "typescript",
      "import { readFileSync } from 'node:fs';\nconst name: string | undefined = process.env.NAME; console.log(process.argv.slice(2), name satisfies unknown, readFileSync('data/in.txt', 'utf8')); console.error('bad')",
      "[ 'a', 'b c' ] Ann from a file\n",
    ],
    [
      "bash",
      'echo "[$1] [$2] $NAME $(cat data/in.txt)"; echo bad >&2',
      "[a] [b c] Ann from a file\n",
    ],
  ])("runs %s with arguments, variables and files", async (runtime, code, stdout) => {
    const result = await fixture.agent(runtime).call("sandbox_run", {
      code,
      args: ["a", "b c"],
      env: { NAME: "Ann" },
      files: { "data/in.txt": "from a file" },
    });
    expect(result).toMatchObject({
      ok: true,
      runtime,
      exit_code: 0,
      end_reason: "exited",
      stdout,
      stderr: "bad\n",
      stdout_bytes: Buffer.byteLength(stdout),
      stderr_bytes: 4,
      truncated: false,
      timed_out: false,
    });
    expect(result.error).toBeUndefined();
  });

  it("writes the program where the runtime expects it, and runs it in /work", async () => {
    const agent = fixture.agent("python");
    const code =
      "import os; print(__file__, os.path.samefile('.', '/work'), sorted(os.listdir('/work')))";
    expect((await agent.call("sandbox_run", { code })).stdout).toBe(
      "/work/main.py True ['main.py']\n",
    );
    const shell = { runtime: "bash", code: 'echo "$0" "$(ls /work)"' };
    expect((await agent.call("sandbox_run", shell)).stdout).toBe("/work/main.sh main.sh\n");
    const node = { runtime: "node", code: "console.log(__filename.replace('workspace', 'work'))" };
    expect((await agent.call("sandbox_run", node)).stdout).toBe("/work/main.js\n");
  });

  it("keeps nothing of the previous run, and leaves no sandbox", async () => {
    const agentScope = fixture.scope("fresh");
    const agent = fixture.agent("bash", { agentScope });
    await agent.call("sandbox_run", { code: "touch /work/left /tmp/left" });
    const seen = await agent.call("sandbox_run", { code: "ls /work /tmp" });
    expect(seen.stdout).toBe("/tmp:\n\n/work:\nmain.sh\n");
    expect(await liveSessions("fresh")).toBe(0);
  });

  it("reports how a program ended", async () => {
    const agent = fixture.agent({ runtime: "python", limits: { memory_mb: 128 } });
    const run = async (code: string) => await agent.call("sandbox_run", { code });
    expect(await run("import sys; print('x'); sys.exit(3)")).toMatchObject({
      ok: false,
      exit_code: 3,
      end_reason: "exited",
      stdout: "x\n",
    });
    const broken = await run("1/0");
    expect(broken).toMatchObject({ ok: false, exit_code: 1 });
    expect(broken.stderr).toMatch(/File "\/work\/main.py", line 1[^]*ZeroDivisionError/);
    const hungry = await run("print('x'); bytearray(1 << 30)");
    expect(hungry).toMatchObject({ exit_code: 137, end_reason: "oom", stdout: "x\n" });
    expect(hungry.error).toContain("128 MiB");
    const killed = await run("import os; os.kill(os.getpid(), 15)");
    expect(killed).toMatchObject({ exit_code: 143, end_reason: "killed" });
  });

  it("streams output", async () => {
    const pieces: OutputPiece[] = [];
    const result = await fixture
      .agent("python")
      .call(
        "sandbox_run",
        { code: "import time\nfor i in range(3):\n  print(i)\n  time.sleep(0.2)" },
        { onOutput: (piece) => pieces.push(piece) },
      );
    expect(result).toMatchObject({ ok: true, stdout: "0\n1\n2\n" });
    expect(pieces.length).toBeGreaterThanOrEqual(3);
    expect(pieces.map(({ text }) => text).join("")).toBe("0\n1\n2\n");
  });

  it("destroys the sandbox if the program fails or times out, or the call is aborted", async () => {
    const agentScope = fixture.scope("ends");
    const agent = fixture.agent("bash", { agentScope });
    await agent.call("sandbox_run", { code: "exit 1" });
    await agent.call("sandbox_run", { code: "sleep 1000", timeout_ms: 300 });
    const abort = new AbortController();
    const running = agent.call(
      "sandbox_run",
      { code: "echo begun; sleep 1000" },
      { signal: abort.signal, onOutput: () => abort.abort() },
    );
    await expect(running).rejects.toMatchObject({ code: "CANCELLED" });
    const early = new AbortController();
    const opening = agent.call("sandbox_run", { code: "sleep 1000" }, { signal: early.signal });
    early.abort();
    await expect(opening).rejects.toMatchObject({ code: "CANCELLED" });
    // The last one was still being created; it ends as soon as it exists.
    const statuses = async (): Promise<readonly string[]> => {
      const sessions = await Array.fromAsync(fixture.client.sessions());
      return sessions
        .filter(({ key }) => key?.startsWith("agent:ends:"))
        .map(({ status }) => status);
    };
    const ended = ["destroyed", "destroyed", "destroyed", "destroyed"];
    while (!isDeepStrictEqual(await statuses(), ended)) await sleep(50);
  });

  it("reads stdin, and truncates output at the agent's limits with its actual size", async () => {
    const agent = fixture.agent({ runtime: "bash", max_stdout_bytes: 100, max_stderr_bytes: 50 });
    const code = "cat; seq 1000 >&2";
    const stdin = "line\n".repeat(1000);
    const result = await agent.call("sandbox_run", { code, stdin });
    expect(result).toMatchObject({
      ok: true,
      truncated: true,
      stdout_bytes: 5000,
      stderr_bytes: 3893,
      limits: { max_stdout_bytes: 100, max_stderr_bytes: 50 },
    });
    expect(result.stdout).toMatch(/^line\n[^]*bytes omitted/);
    expect(Buffer.byteLength(result.stdout)).toBeLessThan(150);
    expect(Buffer.byteLength(result.stderr)).toBeLessThan(100);
  });

  it("processes 50 MB of JSON", async () => {
    const row = (index: number): string =>
      `{"id":${index},"city":"${["Oslo", "Rome", "Lima"][index % 3]}","amount":${index % 1000},"note":"${"x".repeat(60)}"}`;
    const rows = Array.from({ length: 450_000 }, (_, index) => row(index));
    const data = `[${rows.join(",\n")}]`;
    expect(data.length).toBeGreaterThan(50_000_000);
    const agent = fixture.agent({ runtime: "python", limits: { memory_mb: 1024 } });
    const result = await agent.call("sandbox_run", {
      code: `import json, collections
rows = json.load(open("data.json"))
sums = collections.Counter()
for row in rows: sums[row["city"]] += row["amount"]
print(len(rows), sums.most_common())`,
      files: { "data.json": data },
    });
    const sums = new Map<string, number>();
    for (let index = 0; index < rows.length; index++) {
      const city = ["Oslo", "Rome", "Lima"][index % 3] ?? "";
      sums.set(city, (sums.get(city) ?? 0) + (index % 1000));
    }
    const expected = [...sums]
      .toSorted(([, a], [, b]) => b - a)
      .map(([city, sum]) => `('${city}', ${sum})`);
    expect(result).toMatchObject({
      ok: true,
      stdout: `450000 [${expected.join(", ")}]\n`,
      stderr: "",
    });
  });

  it("refuses files outside /work, and one with the path of the program", async () => {
    const agent = fixture.agent("python");
    for (const path of ["../outside", "/etc/passwd", "/tmp/x", "main.py", "/work/main.py", "."])
      await expect(
        agent.call("sandbox_run", { code: "print(1)", files: { [path]: "x" } }),
      ).rejects.toMatchObject({ name: "ToolError" });
    const twice = { code: "print(1)", files: { "a.txt": "1", "./a.txt": "2" } };
    await expect(agent.call("sandbox_run", twice)).rejects.toThrow("given twice");
    const absolute = { code: "print(open('a.txt').read())", files: { "/work/a.txt": "here" } };
    expect((await agent.call("sandbox_run", absolute)).stdout).toBe("here\n");
  });

  it("enforces the agent's limits for the number and size of files", async () => {
    const limits = { max_files: 2, max_file_size_bytes: 10 };
    const agent = fixture.agent({ runtime: "bash", limits });
    const run = (files: Record<string, string>) =>
      agent.call("sandbox_run", { code: "ls | wc -l # more than ten bytes", files });
    expect(await run({ a: "1", b: "0123456789" })).toMatchObject({ stdout: "3\n" });
    await expect(run({ a: "1", b: "2", c: "3" })).rejects.toMatchObject({
      code: "LIMIT_EXCEEDED",
      message: expect.stringContaining("limits.max_files") as string,
    });
    await expect(run({ a: "0123456789x" })).rejects.toMatchObject({
      code: "LIMIT_EXCEEDED",
      message: expect.stringContaining("limits.max_file_size_bytes") as string,
    });
  });

  it("says what it cannot run", async () => {
    const agent = fixture.agent("typescript");
    await expect(agent.call("sandbox_run", { code: "enum Colour { Red }" })).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
    await expect(agent.call("sandbox_run", { code: "x", runtime: "cobol" })).rejects.toThrow(
      "python, node, typescript or bash",
    );
    const one = fixture.agent({ runtime: "python", image: "not-here:1" });
    await expect(one.call("sandbox_run", { code: "1" })).rejects.toThrow(
      /^failed to create sandbox session: /,
    );
    const listed = { policy: { allowedImages: ["python:3.11-slim"] } };
    expect(await fixture.agent("python", listed).call("sandbox_run", { code: "1" })).toMatchObject({
      ok: true,
    });
    await expect(
      fixture.agent("python", listed).call("sandbox_run", { code: "1", runtime: "node" }),
    ).rejects.toMatchObject({
      code: "REFUSED",
      message: expect.stringContaining("python:3.11-slim") as string,
    });
  });
});

describe("artifacts", () => {
  const code = `import os
os.makedirs("out/deep")
# ${"x".repeat(100)}
open("out/a.csv", "w").write("1,2\\n")
open("out/deep/b.csv", "wb").write(bytes(range(256)))
open("out/large.bin", "wb").write(b"x" * 3000)
os.symlink("/etc/passwd", "out/link.csv")`;

  it("are the matching files, complete", async () => {
    const agent = fixture.agent("python");
    const input = { code, artifacts: ["out/*.csv", "/work/**/b.csv", "nothing/*"] };
    const result = await agent.call("sandbox_run", input);
    expect(result.artifacts).toEqual([
      { path: "out/a.csv", size_bytes: 4, content_base64: Buffer.from("1,2\n").toString("base64") },
      {
        path: "out/deep/b.csv",
        size_bytes: 256,
        content_base64: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString(
          "base64",
        ),
      },
    ]);
    expect(result.artifacts_omitted).toBeUndefined();
    expect(result.artifacts_unmatched).toEqual(["nothing/*"]);
    expect(agent.tool("sandbox_run").forModel(result)).toMatchObject({
      artifacts: [
        { path: "out/a.csv", size_bytes: 4, content: "1,2\n" },
        {
          path: "out/deep/b.csv",
          size_bytes: 256,
          note: expect.stringContaining("not text") as string,
        },
      ],
    });
  });

  it("are limited in number and size, and omitted ones are named", async () => {
    const small = fixture.agent({ runtime: "python", max_artifact_bytes: 257 });
    const result = await small.call("sandbox_run", { code, artifacts: ["**"] });
    expect(result.artifacts?.map(({ path }) => path)).toEqual(["out/a.csv"]);
    expect(result.artifacts_omitted?.map(({ path, reason }) => [path, reason])).toEqual([
      ["main.py", expect.stringContaining("larger than 257")],
      ["out/deep/b.csv", expect.stringContaining("all artifacts together")],
      ["out/large.bin", expect.stringContaining("larger than 257")],
    ]);
    const one = fixture.agent({ runtime: "python", max_artifacts_count: 1 });
    const counted = await one.call("sandbox_run", { code, artifacts: ["out/*"] });
    expect(counted.artifacts).toHaveLength(1);
    expect(counted.artifacts_omitted).toMatchObject([
      {
        path: "out/large.bin",
        size_bytes: 3000,
        reason: expect.stringContaining("max_artifacts_count") as string,
      },
    ]);
  });

  it("can be empty, even if nothing more fits", async () => {
    const full = fixture.agent({ runtime: "bash", max_artifact_bytes: 4 });
    const result = await full.call("sandbox_run", {
      code: "printf 1234 > a.txt; : > b.txt; printf 5 > c.txt",
      artifacts: ["*.txt"],
    });
    expect(result.artifacts?.map(({ path, size_bytes }) => [path, size_bytes])).toEqual([
      ["a.txt", 4],
      ["b.txt", 0],
    ]);
    expect(result.artifacts_omitted).toMatchObject([{ path: "c.txt", size_bytes: 1 }]);
  });

  it("that grow after they were listed are omitted, and never truncated", async () => {
    const session = await fixture.client.createSession({ image: "linux" });
    await session.files.write("a.txt", "whole");
    await session.files.write("b.txt", "small");
    let grown = 0;
    const growing = {
      files: {
        list: async function* (...given: Parameters<typeof session.files.list>) {
          for await (const entry of session.files.list(...given)) {
            if (entry.name === "a.txt")
              await session.files.write("a.txt", "x".repeat(++grown * 101));
            yield entry;
          }
        },
        read: session.files.read.bind(session.files),
      },
    } as unknown as typeof session;
    const caps = { maxBytes: 100, maxCount: 5 };
    const { artifacts, omitted } = await collectArtifacts(growing, ["*.txt"], caps, undefined);
    await session.destroy();
    expect(grown).toBe(1);
    expect(artifacts.map(({ path }) => path)).toEqual(["b.txt"]);
    expect(omitted).toMatchObject([
      { path: "a.txt", reason: expect.stringContaining("still being written") as string },
    ]);
  });

  it("are also returned if the program failed", async () => {
    const failing = `${code}\nraise SystemExit(9)`;
    const result = await fixture
      .agent("python")
      .call("sandbox_run", { code: failing, artifacts: ["out/a.csv"] });
    expect(result).toMatchObject({ ok: false, exit_code: 9, artifacts: [{ path: "out/a.csv" }] });
  });
});
