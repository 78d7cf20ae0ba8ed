/** Agents in a sandbox: the examples with a scripted model, and the Python client, on a real daemon. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocks } from "../support/markdown.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const run = promisify(execFile);
const SCRIPT = "a, b = 0, 1\nfor _ in range(15):\n    print(a, end=' ')\n    a, b = b, a + b\n";
const FIBONACCI = "0 1 1 2 3 5 8 13 21 34 55 89 144 233 377 ";

const python = { PYTHONPATH: "clients/python/src", PYTHONDONTWRITEBYTECODE: "1" };
/** Has the packages of the example; `npm test` installs it, see scripts/setup.sh. */
const PYTHON_WITH_AGENTS = join(import.meta.dirname, "../../.toolchain/python/bin/python");

let daemon: TestDaemon;
beforeAll(async () => {
  const names = ["typescript", "python", "refused", "client", "guide"];
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

/** What an agent is told of its environment; each has a key of its own, so that its sessions are known. */
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

interface ModelRequest {
  readonly tools: readonly { readonly name: string; readonly strict: boolean }[];
  readonly input: readonly { readonly type?: string; readonly output?: string }[];
}

interface ToolRequest {
  readonly name: string;
  readonly input: object;
}

/** Speaks the Responses API. What it says depends on nothing but what the tools answered. */
class ScriptedModel implements AsyncDisposable {
  readonly requests: ModelRequest[] = [];
  readonly #server: Server;
  readonly #calls: readonly ToolRequest[];

  private constructor(server: Server, calls: readonly ToolRequest[]) {
    this.#server = server;
    this.#calls = calls;
  }

  /** Calls these tools one after the other, and refuses to go on after so many. */
  static async start(
    calls: readonly ToolRequest[],
    refusesAfter = Number.POSITIVE_INFINITY,
  ): Promise<ScriptedModel> {
    const model: ScriptedModel = new ScriptedModel(
      createServer((request, response) => {
        void json(request).then((body) => {
          model.requests.push(body as ModelRequest);
          const isRefusing = model.toolOutputs.length >= refusesAfter;
          const isAsked = request.url === "/v1/responses" && !isRefusing;
          response.writeHead(isAsked ? 200 : 400, { "content-type": "application/json" });
          response.end(
            JSON.stringify(isAsked ? model.#next() : { error: { message: "not today" } }),
          );
        });
      }),
      calls,
    );
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    return model;
  }

  get environment(): Readonly<Record<string, string>> {
    const { port } = this.#server.address() as AddressInfo;
    return {
      OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
      OPENAI_API_KEY: "of-nobody",
      // The Python SDK reports runs to its maker otherwise.
      OPENAI_AGENTS_DISABLE_TRACING: "1",
    };
  }

  /** What the tools have answered, as the model sees it. */
  get toolOutputs(): readonly string[] {
    const items = this.requests.at(-1)?.input ?? [];
    return items
      .filter(({ type }) => type === "function_call_output")
      .map(({ output }) => output ?? "");
  }

  #next(): object {
    const answered = this.toolOutputs;
    const call = this.#calls[answered.length];
    const item =
      call === undefined
        ? {
            type: "message",
            role: "assistant",
            content: [{ type: "output_text", text: `I saw: ${answered.at(-1)}`, annotations: [] }],
          }
        : {
            type: "function_call",
            call_id: `call_${answered.length}`,
            name: call.name,
            arguments: JSON.stringify(call.input),
          };
    return {
      id: `resp_${answered.length}`,
      object: "response",
      created_at: 0,
      status: "completed",
      model: "scripted",
      parallel_tool_calls: false,
      tool_choice: "auto",
      tools: [],
      output: [{ id: `item_${answered.length}`, status: "completed", ...item }],
      usage: {
        input_tokens: 1,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 1,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 2,
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

const RUN = "cd /tmp && python3 /workspace/fib.py";

/** As the tools of `@sandkasten/tools` are called, with a mistake in the third call. */
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
    const names = model.requests[0]?.tools.map(({ name }) => name.replace("sandbox_", ""));
    expect(names?.join(" ")).toBe(
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
    expect(model.requests[0]?.tools.map(({ name: tool, strict }) => [tool, strict])).toEqual([
      ["exec", true],
      ["write_file", true],
      ["read_file", true],
    ]);
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

describe.concurrent("the Python client", () => {
  it("passes its tests", async () => {
    const tests = ["-W", "error", "-m", "unittest", "discover", "--start", "clients/python/tests"];
    const { stderr } = await run("python3", tests, environment("client", python));
    expect(stderr).toMatch(/^Ran [1-9][0-9]+ tests in .*\n\nOK\n$/m);
    expect(await statusesOf("client")).not.toContain("running");
  });

  it("does what its guide shows", async () => {
    const [program] = codeBlocks(await readFile("docs/guides/agents.md", "utf8"), "python");
    const { stdout } = await run(
      "python3",
      ["-c", program?.text ?? ""],
      environment("guide", python),
    );
    expect(stdout).toBe(program?.output ?? "");
    expect(await statusesOf("guide")).toEqual(["destroyed"]);
  });
});
