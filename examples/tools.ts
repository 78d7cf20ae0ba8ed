import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools, ToolError } from "@sandkasten/tools";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const context = { client, agentScope: scope };

/** What a model does: it names a tool and gives its input. */
async function call(settings: unknown, name: string, input: unknown): Promise<void> {
  const tools = sandboxTools(parseSandboxSettings(settings), context);
  const tool = tools.find((one) => one.name === name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  try {
    const result = tool.forModel(await tool.run(input));
    console.log(JSON.stringify(result));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    console.log(error.code, error.message);
  }
}

// Compute mode: each run has a fresh sandbox.
await call("python", "sandbox_run", {
  code: "import json; print(sum(json.load(open('numbers.json'))))",
  files: { "numbers.json": "[1, 2, 3.5]" },
});

// Code mode: one sandbox for the whole run of the agent.
const code = { mode: "code", runtime: "python", limits: { memory_mb: 256 } };
await call(code, "sandbox_fs_write", { path: "fib.py", contents: "a, b = 0, 1\nprint(a, b)\n" });
await call(code, "sandbox_exec", { cmd: ["python3", "fib.py"] });
await call(code, "sandbox_exec", { cmd: "sed -i 's/0, 1/5, 8/' fib.py && python3 fib.py" });
await call(code, "sandbox_exec", { cmd: "sleep 60", timeout_seconds: 1 });
await call(code, "sandbox_fs_read", { path: "/etc/shadow" });
await call(code, "sandbox_exec", { comand: "ls" });
