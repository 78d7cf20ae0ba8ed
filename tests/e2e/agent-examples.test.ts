/** Agents in a sandbox: the examples with a scripted model, on a real daemon. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocks } from "../support/markdown.ts";
import { ScriptedModel, type ToolRequest } from "../support/scripted-model/scripted-model.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const run = promisify(execFile);
const SCRIPT = "a, b = 0, 1\nfor _ in range(15):\n    print(a, end=' ')\n    a, b = b, a + b\n";
const FIBONACCI = "0 1 1 2 3 5 8 13 21 34 55 89 144 233 377 ";

const python = { PYTHONPATH: "clients/python/src", PYTHONDONTWRITEBYTECODE: "1" };
/** Has the packages of the example; `npm test` installs it, see scripts/setup.sh. */
const PYTHON_WITH_AGENTS = join(import.meta.dirname, "../../.toolchain/python/bin/python");

let daemon: TestDaemon;
beforeAll(async () => {
  const names = [
    "typescript",
    "python",
    "refused",
    "sandbox",
    "computesdk",
    "openai-sandbox",
    ...Object.keys({ ...FRAMEWORKS, ...SANDBOXED }),
  ];
  const keys = names.map((name) => `${name}=key-of-${name}`).join(",");
  daemon = await TestDaemon.start({ settings: { API_KEYS: keys } });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

const clientOf = (name: string): SandboxClient =>
  new SandboxClient({ baseUrl: daemon.url, apiKey: `key-of-${name}` });

async function statusesOf(name: string): Promise<readonly string[]> {
  const sessions = await Array.fromAsync(clientOf(name).sessions());
  return sessions.map(({ status }) => status);
}

/** An agent's environment; each has a separate key, so its sessions can be identified. */
const environment = (name: string, more: Readonly<Record<string, string>> = {}) => ({
  cwd: process.cwd(),
  env: {
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    SANDKASTEN_URL: daemon.url,
    SANDKASTEN_API_KEY: `key-of-${name}`,
    ...more,
  },
});

const RUN = "cd /tmp && python3 /workspace/fib.py";

/** Calls of the tools of `@sandkasten/tools`, with a mistake in the third one. */
const TYPESCRIPT_CALLS: readonly ToolRequest[] = [
  { name: "sandbox_fs_write", input: { path: "fib.py", contents: SCRIPT } },
  { name: "sandbox_fs_read", input: { path: "/workspace/fib.py" } },
  { name: "sandbox_exec", input: { comand: RUN } },
  { name: "sandbox_exec", input: { cmd: RUN, timeout_seconds: 10 } },
];

const PYTHON_CALLS: readonly ToolRequest[] = [
  { name: "write_file", input: { path: "fib.py", content: SCRIPT } },
  { name: "read_file", input: { path: "/workspace/fib.py" } },
  { name: "exec", input: { cmd: RUN, timeout_ms: 10_000 } },
];

/** Agents of other frameworks, which write the same program, make the same mistake and run it. */
const FRAMEWORKS: Readonly<Record<string, string>> = {
  "ai-sdk": "examples/ai-sdk/agent.ts",
  anthropic: "examples/anthropic/agent.ts",
  genkit: "examples/genkit/agent.ts",
  langchain: "examples/langchain/agent.ts",
};

/** Agents that use their framework's tools on a sandbox of ours, and the names of these tools. */
const SANDBOXED = {
  "deep-agents": {
    file: "examples/langchain/deep-agent.ts",
    calls: [
      { name: "write_file", input: { file_path: "/workspace/fib.py", content: SCRIPT } },
      { name: "execute", input: { command: 42 } },
      { name: "execute", input: { command: RUN } },
    ],
  },
  mastra: {
    file: "examples/mastra/agent.ts",
    calls: [
      {
        name: "mastra_workspace_execute_command",
        input: { command: `cat > fib.py << 'END'\n${SCRIPT}END` },
      },
      { name: "mastra_workspace_execute_command", input: { command: 42 } },
      { name: "mastra_workspace_execute_command", input: { command: RUN } },
    ],
  },
} satisfies Record<string, { file: string; calls: ToolRequest[] }>;

async function runAgent(
  name: string,
  program: string,
  file: string,
  model: ScriptedModel,
): Promise<string> {
  const variables = environment(name, { ...python, ...model.environment });
  return (await run(program, [file], variables)).stdout;
}

describe.concurrent("an agent", () => {
  it("of the OpenAI Agents SDK writes a program, runs it in its sandbox and leaves none", async () => {
    await using model = await ScriptedModel.start(TYPESCRIPT_CALLS);
    const file = "examples/openai-agents/agent.ts";
    const stdout = await runAgent("typescript", process.execPath, file, model);
    const [written, read, mistaken, ran] = model.toolOutputs;
    expect(JSON.parse(written ?? "")).toEqual({
      ok: true,
      path: "/workspace/fib.py",
      size_bytes: SCRIPT.length,
    });
    expect(JSON.parse(read ?? "")).toMatchObject({ contents: SCRIPT, truncated: false });
    expect(mistaken).toContain("`comand` is not a known name; the nearest known name is `command`");
    expect(JSON.parse(ran ?? "")).toMatchObject({ exit_code: 0, stdout: FIBONACCI, cwd: "/tmp" });
    expect(stdout).toBe(`I saw: ${ran}\n`);
    const names = model.toolNames.map((name) => name.replace("sandbox_", ""));
    expect(names.join(" ")).toBe(
      "open exec exec_read exec_wait fs_write fs_read fs_list fs_delete close",
    );
    expect(await statusesOf("typescript")).toEqual(["destroyed"]);
  });

  it("of the OpenAI Agents SDK for Python does the same", async (context) => {
    if (!existsSync(join(PYTHON_WITH_AGENTS, "../../installed.txt")))
      context.skip("openai-agents is not installed; `npm test` installs it when it can");
    await using model = await ScriptedModel.start(PYTHON_CALLS);
    const file = "examples/openai-agents/agent.py";
    const stdout = await runAgent("python", PYTHON_WITH_AGENTS, file, model);
    const seen = `exit=0\ncwd=/tmp\n---\n${FIBONACCI}`;
    expect(stdout).toBe(`I saw: ${seen}\n`);
    expect(model.toolOutputs).toEqual(["wrote fib.py", SCRIPT, seen]);
    expect(model.toolNames).toEqual(["exec", "write_file", "read_file"]);
    expect(await statusesOf("python")).toEqual(["destroyed"]);
  });

  it("whose model fails leaves no sandbox either", async () => {
    await using model = await ScriptedModel.start(TYPESCRIPT_CALLS, 1);
    const file = "examples/openai-agents/agent.ts";
    const failed = runAgent("refused", process.execPath, file, model);
    await expect(failed).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not today") as string,
    });
    expect(model.toolOutputs).toHaveLength(1);
    expect(await statusesOf("refused")).toEqual(["destroyed"]);
  });
});

describe.concurrent("an agent of the framework", () => {
  it.for(Object.entries(FRAMEWORKS))(
    "%s writes a program, corrects its mistake, runs it and leaves no sandbox",
    async ([name, file]) => {
      await using model = await ScriptedModel.start(TYPESCRIPT_CALLS);
      const stdout = await runAgent(name, process.execPath, file, model);
      const [written, read, mistaken, ran = ""] = model.toolOutputs;
      expect(written).toContain("/workspace/fib.py");
      expect(JSON.parse(read ?? "")).toMatchObject({ contents: SCRIPT });
      expect(mistaken).toContain("the nearest known name is `command`");
      expect(JSON.parse(ran)).toMatchObject({ exit_code: 0, stdout: FIBONACCI });
      expect(stdout).toBe(`I saw: ${ran}\n`);
      expect(await statusesOf(name)).toEqual(["destroyed"]);
    },
  );

  it.for(Object.entries(SANDBOXED))(
    "%s does so with the framework's own tools",
    async ([name, { file, calls }]) => {
      await using model = await ScriptedModel.start(calls);
      const stdout = await runAgent(name, process.execPath, file, model);
      const [, mistaken, ran] = model.toolOutputs;
      expect(mistaken).toMatch(/expected string|did not match expected schema|validation/i);
      expect(ran).toContain(FIBONACCI.trim());
      expect(stdout).toBe(`I saw: ${ran}\n`);
      expect(await statusesOf(name)).toEqual(["destroyed"]);
    },
  );

  it("computesdk runs the example of its guide", async () => {
    const guide = await readFile("docs/guides/frameworks/computesdk.md", "utf8");
    const { stdout } = await run(
      process.execPath,
      ["examples/computesdk.ts"],
      environment("computesdk"),
    );
    expect(stdout.trim()).toBe(codeBlocks(guide, "ts")[0]?.output?.trim());
    expect(await statusesOf("computesdk")).toEqual(["destroyed"]);
  });

  it("openai-agents has a separate sandbox", async () => {
    const cmd = "awk '{ sum += $1 } END { print sum }' numbers.txt";
    await using model = await ScriptedModel.start([{ name: "exec_command", input: { cmd } }]);
    const file = "examples/openai-agents/sandbox.ts";
    const stdout = await runAgent("openai-sandbox", process.execPath, file, model);
    expect(stdout).toMatch(/^I saw: [^]*Process exited with code 0\nOutput:\n26\n/);
    expect(await statusesOf("openai-sandbox")).toEqual(["destroyed"]);
  });

  it("ai-sdk gives its own tools a sandbox", async () => {
    const command = "python3 -c 'print(sum(int(line) for line in open(\"numbers.txt\")))'";
    await using model = await ScriptedModel.start([{ name: "bash", input: { command } }]);
    const file = "examples/ai-sdk/sandbox.ts";
    const stdout = await runAgent("sandbox", process.execPath, file, model);
    expect(stdout).toBe('I saw: {"exitCode":0,"stdout":"26\\n","stderr":""}\n');
    expect(await statusesOf("sandbox")).toEqual(["destroyed"]);
  });
});
