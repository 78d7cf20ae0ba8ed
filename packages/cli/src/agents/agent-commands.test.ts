/** The commands of `agent` on a service inside the process. Models are scripted, agents have no sandbox. */
import { channel } from "node:diagnostics_channel";
import type { Server } from "node:http";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../../tests/support/free-port.ts";
import { ModelServer } from "../../../agents/src/testing/model-server.ts";
import { runTestCli, TestCli } from "../testing/test-host.ts";

let directory: string;
let model: ModelServer;

const AGENTS = {
  "echo.prompt": `---
model: scripted/echo
metadata: { name: Echo Agent, description: Says what it hears }
---
{{userInput}}
`,
  "greeter.prompt": `---
model: openai/some-model
input:
  schema: { type: object, properties: { name: { type: string } }, required: [name] }
---
Greet {{name}}.
`,
};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
  await mkdir(join(directory, "agents"));
  for (const [name, text] of Object.entries(AGENTS))
    await writeFile(join(directory, "agents", name), text);
  model = await ModelServer.start();
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const withModel = () => ({ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: "of-no-one" });

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): TestCli {
  return new TestCli([...args, "--dir", directory], { env, cwd: directory });
}

describe("agent run", { timeout: 60_000 }, () => {
  it("prints the model's text to stdout, and its progress to stderr", async () => {
    const { code, stdout, stderr } = await start(["agent", "run", "echo", "hello"]).done;
    expect(stdout).toBe("This is the scripted model. You said: hello\n");
    expect(stderr).toMatch(/^✓ run_\S+ succeeded 1 turn, 0 tokens in, 0 out, \S+\n$/);
    expect(code).toBe(0);
  });

  it("accepts an agent's title and reads the task from stdin", async () => {
    const args = ["agent", "run", "Echo Agent", "-", "--dir", directory];
    const { stdout } = await runTestCli(args, { stdin: "from a pipe", cwd: directory });
    expect(stdout).toBe("This is the scripted model. You said: from a pipe\n");
  });

  it("prints exactly one object with --json", async () => {
    const { code, stdout, stderr } = await start(["agent", "run", "echo", "hi", "--json"]).done;
    expect(JSON.parse(stdout)).toMatchObject({
      agent_name: "echo",
      status: "succeeded",
      task: "hi",
      text: "This is the scripted model. You said: hi",
    });
    expect([code, stderr]).toEqual([0, ""]);
  });

  it("accepts structured input from the command line and from a file", async () => {
    model.play([{ text: "Good day, Ada." }]);
    const file = join(directory, "input.json");
    await writeFile(file, '{"name": "Grace"}');
    for (const [given, name] of [
      ['{"name": "Ada"}', "Ada"],
      ["@input.json", "Grace"],
    ] as const) {
      const run = start(["agent", "run", "greeter", "--input", given], withModel());
      expect((await run.done).stdout).toBe("Good day, Ada.\n");
      expect(JSON.stringify(model.requests.at(-1)?.body.messages)).toContain(`Greet ${name}.`);
    }
  });

  it("names the variable to set if the model has no key", async () => {
    const run = start(["agent", "run", "greeter", "--input", '{"name": "Ada"}']);
    const { code, stdout, stderr } = await run.done;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^✗ The model openai\/some-model needs a key: set OPENAI_API_KEY[^.\n]*\.\n$/,
    );
  });

  it("exits with 1 if the run failed, and says why and what to do", async () => {
    model.play([{ status: 400, error: "the context is too long" }]);
    const args = ["agent", "run", "greeter", "--input", '{"name": "Ada"}'];
    const failed = await start(args, withModel()).done;
    expect([failed.code, failed.stdout]).toEqual([1, ""]);
    expect(failed.stderr).toMatch(/^✗ .*the context is too long.*\n→ .*agent logs run_\S+ --dir /);

    const json = await start([...args, "--json"], withModel()).done;
    expect(JSON.parse(json.stdout)).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("too long") },
    });
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { hint: expect.any(String) } });
    expect(json.code).toBe(1);
  });

  it.each([
    [["agent", "run", "ecko", "x"], 1, /^✗ .*ecko.*\n→ .*agent list/],
    [["agent", "run"], 2, /missing required argument 'agent'/],
    [["agent", "run", "greeter", "--input", "{name}"], 2, /^✗ The value of --input is not JSON/],
    [["agent", "run", "greeter", "--input", "@missing.json"], 1, /^✗ missing\.json does not exist/],
    [["agent", "run", "greeter", "--input", "{}"], 1, /^✗ .*name/],
  ])("%j exits with %i and says what to do", async (args, code, says) => {
    const run = await start(args, withModel()).done;
    expect([run.code, run.stdout]).toEqual([code, ""]);
    expect(run.stderr).toMatch(says);
  });

  it.each([[[]], [["--json"]]])(
    "cancels the run at Ctrl-C and exits with 130: %j",
    async (more) => {
      model.play([{ text: "I think", hang: true }]);
      const args = ["agent", "run", "greeter", "--input", '{"name": "Ada"}', ...more];
      const running = start(args, withModel());
      if (more.length === 0) await running.seen(/I think/);
      else await expect.poll(() => model.requests.length).toBe(1);
      running.signal("SIGINT");
      const { code, stdout, stderr } = await running.done;
      expect(code).toBe(130);
      if (more.length === 0)
        expect([stdout, stderr]).toEqual([
          "I think\n",
          expect.stringMatching(/^! run_\S+ cancelled /),
        ]);
      else expect(JSON.parse(stdout)).toMatchObject({ status: "cancelled" });
    },
  );
});

describe("agent cancel", { timeout: 60_000 }, () => {
  it("ends a run of another command, which exits with 130", async () => {
    model.play([{ text: "I think", hang: true }]);
    const args = ["agent", "run", "greeter", "--input", '{"name": "Ada"}'];
    const running = start(args, withModel());
    await running.seen(/I think/);
    const listed = await start(["agent", "runs", "--status", "running"]).done;
    const [id = ""] = listed.stdout.split("\t");
    expect((await start(["agent", "cancel", id]).done).stdout).toBe(`${id}\n`);
    const { code, stderr } = await running.done;
    expect([code, stderr]).toEqual([130, expect.stringContaining(`! ${id} cancelled`)]);
  });
});

describe("an agent with a sandbox", { timeout: 60_000 }, () => {
  it("does not start if no daemon responds", async () => {
    const sandboxed = "---\nmodel: openai/some-model\nsandbox: python\n---\n{{userInput}}\n";
    const file = join(directory, "agents", "sandboxed.prompt");
    await writeFile(file, sandboxed);
    model.play([{ text: "never" }]);
    const env = { ...withModel(), SANDKASTEN_URL: `http://127.0.0.1:${await freePort()}` };
    const { code, stdout, stderr } = await start(["agent", "run", "sandboxed", "x"], env).done;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^✗ No daemon answers at .*\n→ Start a daemon/);
    expect(model.requests).toEqual([]);
    await rm(file);
  });
});

describe("the service inside the process", { timeout: 60_000 }, () => {
  it("rejects others, who do not know its key", async () => {
    const started = Promise.withResolvers<Server>();
    const onRequest = (message: unknown): void =>
      started.resolve((message as { readonly server: Server }).server);
    channel("http.server.request.start").subscribe(onRequest);
    model.play([{ text: "…", hang: true }]);
    const running = start(["agent", "run", "greeter", "--input", '{"name": "x"}'], withModel());
    await running.seen(/…/);
    channel("http.server.request.start").unsubscribe(onRequest);
    const { port } = (await started.promise).address() as AddressInfo;
    const answer = await fetch(`http://127.0.0.1:${port}/v1/agents`);
    expect(answer.status).toBe(401);
    running.signal("SIGTERM");
    expect((await running.done).code).toBe(143);
  });

  it("creates no data for commands that only read files", async () => {
    const place = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
    await mkdir(join(place, "agents"));
    const { code, stdout, stderr } = await runTestCli(["agent", "list", "--dir", place]);
    expect([code, await readdir(place)]).toEqual([0, ["agents"]]);
    expect([stdout, stderr]).toEqual(["", expect.stringContaining("agents/NAME.prompt")]);
    const runs = await runTestCli(["agent", "runs", "--dir", place]);
    expect([runs.code, await readdir(place)]).toEqual([1, ["agents"]]);
    expect(runs.stderr).toMatch(/^✗ .*there are no runs in .*\n→ .*sandkasten agents serve/);
    await rm(place, { recursive: true });
  });

  it("keeps its runs, which can be listed and read again later", async () => {
    const { stdout } = await start(["agent", "run", "echo", "remember", "--json"]).done;
    const { run_id: id } = JSON.parse(stdout) as { run_id: string };
    const runs = await start(["agent", "runs", "--agent", "echo", "-n", "1"]).done;
    expect(runs.stdout).toMatch(new RegExp(`^${id}\techo\tsucceeded\t\\S+\t1\t0\tremember\n$`));
    const logs = await start(["agent", "logs", id]).done;
    expect(logs.stdout).toBe("This is the scripted model. You said: remember\n");
    const events = await start(["agent", "logs", id, "--json", "--follow"]).done;
    const types = events.stdout
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { type: string }).type);
    expect([types.at(0), types.at(-1)]).toEqual(["run_started", "run_ended"]);
  });
});

describe("agent list, show and validate", { timeout: 60_000 }, () => {
  it("show the agents of the directory", async () => {
    const list = await start(["agent", "list"]).done;
    expect(list.stdout).toBe(
      "echo\tEcho Agent\tscripted/echo\tnone\tSays what it hears\ngreeter\t\topenai/some-model\tnone\t\n",
    );
    const show = await start(["agent", "show", "greeter"]).done;
    expect(show.stdout).toMatch(/^agent\tgreeter\nfile\tagents\/greeter\.prompt\nmodel\t/);
    expect(show.stdout).toMatch(/\ninput\t\{"type":"object".*\n\nGreet \{\{name\}\}\.\n$/);
    expect((await start(["agent", "validate"]).done).stdout).toBe(
      "✓ agents/echo.prompt\n✓ agents/greeter.prompt\n",
    );
  });

  it("validate exits with 1 and reports the position of an error", async () => {
    const place = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
    await mkdir(join(place, "agents"));
    const text = "---\nmodel: openai/x\nsandbox:\n  mod: code\n---\nHi\n";
    await writeFile(join(place, "agents", "wrong.prompt"), text);
    const { code, stdout } = await runTestCli(["agent", "validate", "--dir", place]);
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/^agents\/wrong\.prompt:4:3: .*mode/),
    ]);
    const json = await runTestCli(["agent", "validate", "--dir", place, "--json"]);
    expect([json.code, JSON.parse(json.stdout)]).toMatchObject([1, { valid: false }]);
    await rm(place, { recursive: true });
  });
});

describe("a configured service", () => {
  it("must respond", async () => {
    const env = { SANDKASTEN_AGENTS_URL: `http://127.0.0.1:${await freePort()}` };
    const { code, stderr } = await runTestCli(["agent", "list"], { env, cwd: directory });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^✗ .*\n→ .*sandkasten agents serve/),
    ]);
  });

  it("must be an address", async () => {
    const env = { SANDKASTEN_AGENTS_URL: "localhost:8587" };
    const { code, stderr } = await runTestCli(["agent", "list"], { env, cwd: directory });
    expect([code, stderr]).toEqual([2, expect.stringContaining("SANDKASTEN_AGENTS_URL")]);
  });
});

describe("agents serve", { timeout: 60_000 }, () => {
  it("serves a directory until it is stopped, and keeps its data in the configured place", async () => {
    const data = join(directory, "elsewhere");
    const args = ["agents", "serve", "--listen", "127.0.0.1:0", "--data-dir", data];
    const serving = start(args, { SANDKASTEN_AGENTS_LOG_LEVEL: "silent" });
    const [, url = ""] = await serving.seen(/^The agent service listens on (\S+)\n/);
    const answer = await fetch(`${url}/execute?wait=true`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ agent_name: "echo", task: "hi" }),
    });
    expect(await answer.json()).toMatchObject({ status: "succeeded" });
    expect(await readdir(data)).toContain("agents.db");
    serving.signal("SIGTERM");
    expect(await serving.done).toMatchObject({ code: 0, stderr: "" });
  });

  it.each([
    [["--listen", "0.0.0.0:0"], {}, 1, /^✗ .*no key is set.*SANDKASTEN_AGENTS_API_KEY/],
    [["--listen", "nowhere"], {}, 1, /^✗ "nowhere" .*host:port/],
    [[], { SANDKASTEN_AGENTS_LOG_LEVEL: "loud" }, 2, /^✗ "loud" .*LOG_LEVEL.*\n→ Use one of/],
  ])("%j with %j exits with %i and says what to do", async (more, env, code, says) => {
    const { code: exitCode, stderr } = await start(["agents", "serve", ...more], env).done;
    expect([exitCode, stderr]).toEqual([code, expect.stringMatching(says)]);
  });
});
