/** The commands of `workflow` on a service inside the process. Models are scripted, agents have no sandbox. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startAgentService } from "@sandkasten/agents";
import { AgentServiceClient } from "@sandkasten/agents/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestCli } from "../testing/test-host.ts";

const PATIENCE = { timeout: 50_000 };

let directory: string;

const FILES = {
  "agents/echo.prompt": "---\nmodel: scripted/echo\n---\n{{userInput}}\n",
  "workflows/greet.yaml": `
id: greet
description: Greets
steps:
  - { id: say, type: agent, agent: echo, task: "hello {{ input.name }}" }
  - { id: done, type: end, output: "{{ steps.say.output }}" }
`,
  "workflows/ask.yaml": `
id: ask
steps:
  - { id: may, type: approval, message: May I? }
  - { id: done, type: end, output: { was: approved } }
`,
  "workflows/fails.yaml": `
id: fails
steps:
  - { id: stop, type: end, status: failed, message: It had to fail. }
`,
};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-workflows-"));
  for (const name of ["agents", "workflows"]) await mkdir(join(directory, name));
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(directory, name), text);
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

function start(...args: readonly string[]): TestCli {
  return new TestCli(["workflow", ...args, "--dir", directory], { cwd: directory });
}

describe("workflow run", { timeout: 60_000 }, () => {
  it("shows the steps on stderr and the output on stdout", async () => {
    const { code, stdout, stderr } = await start("run", "greet", "--input", '{"name": "Ada"}').done;
    expect(stdout).toBe("This is the scripted model. You said: hello Ada\n");
    expect(stderr).toMatch(
      /^▸ say agent\n✓ say \S+\n▸ done end\n✓ done \S+\n✓ wfr_\S+ succeeded\n$/,
    );
    expect(code).toBe(0);
  });

  it("prints exactly one object with --json", async () => {
    const { stdout, stderr } = await start("run", "greet", "--json", "--input", '{"name": "x"}')
      .done;
    expect(JSON.parse(stdout)).toMatchObject({
      workflow_id: "greet",
      status: "succeeded",
      steps: [{ id: "say", status: "succeeded" }, { id: "done" }],
    });
    expect(stderr).toBe("");
  });

  it("waits for approval, and another command gives it", async () => {
    const running = start("run", "ask");
    const [, command = ""] = await running.seen(
      /^ {2}sandkasten (workflow approve .*)$/m,
      "stderr",
    );
    expect(command).toContain(` may --dir ${directory}`);
    const [, , runId = ""] = command.split(" ");
    const waiting = await start("runs", "--status", "waiting_approval").done;
    expect(waiting.stdout).toContain(`${runId}\task\twaiting_approval\t`);
    const approving = await new TestCli([...command.split(" "), "--comment", "go on"]).done;
    expect([approving.code, approving.stderr]).toEqual([0, ""]);
    const { code, stdout, stderr } = await running.done;
    expect([code, JSON.parse(stdout)]).toEqual([0, { was: "approved" }]);
    expect(stderr).toContain("✓ may approved: go on\n");
  });

  it("exits with 1 if the run was rejected, and says how to inspect it", async () => {
    const running = start("run", "ask");
    const [, runId = ""] = await running.seen(/workflow reject (\S+) may/, "stderr");
    expect((await start("reject", runId).done).code).toBe(0);
    const { code, stdout, stderr } = await running.done;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/✗ may rejected\n[^]*\n→ `sandkasten workflow inspect wfr_\S+ --dir /);
    const inspected = await start("inspect", runId).done;
    expect(inspected.stdout).toMatch(/^status\tfailed$/m);
    expect(inspected.stdout).toMatch(/^may:1\tapproval\tfailed\t1\t/m);
  });

  it("cancels the run at Ctrl-C and exits with 130", async () => {
    const running = start("run", "ask", "--json");
    await expect
      .poll(async () => (await start("runs", "--status", "waiting_approval").done).stdout, PATIENCE)
      .toContain("ask");
    running.signal("SIGINT");
    const { code, stdout } = await running.done;
    expect([code, JSON.parse(stdout)]).toMatchObject([130, { status: "cancelled" }]);
  });

  it("is cancelled by another command", async () => {
    const running = start("run", "ask");
    const [, runId = ""] = await running.seen(/workflow reject (\S+) may/, "stderr");
    expect((await start("cancel", runId).done).stdout).toBe(`${runId}\n`);
    const { code, stderr } = await running.done;
    expect([code, stderr]).toEqual([130, expect.stringMatching(/! wfr_\S+ cancelled\n$/)]);
  });

  it("of a process that ended waits until a command resumes it", async () => {
    let runId: string;
    {
      await using service = await startAgentService({
        dir: directory,
        listen: "127.0.0.1:0",
        env: {},
      });
      const client = new AgentServiceClient({ baseUrl: service.url });
      ({ run_id: runId } = await client.runWorkflowAndWait("ask"));
    }
    expect((await start("approve", runId).done).stdout).toBe(`${runId}\twaiting_approval\n`);
    const listed = await start("runs", "--status", "waiting_approval").done;
    expect(listed.stdout).toContain(`${runId}\task\t`);
    const { code, stdout } = await start("resume", runId).done;
    expect([code, JSON.parse(stdout)]).toEqual([0, { was: "approved" }]);
    const again = await start("resume", runId).done;
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/^✗ .*succeeded/)]);
  });

  it.each([
    [["run", "fails"], 1, /^✗ .*It had to fail\.\n→ .*workflow inspect/m],
    [["run", "gret"], 1, /^✗ .*gret.*\n→ .*workflow list/],
    [["run", "greet", "--input", "x"], 2, /^✗ The value of --input is not JSON/],
    [["inspect", "wfr_none"], 1, /^✗ .*wfr_none.*\n→ .*workflow runs/],
    [["approve", "wfr_none"], 1, /^✗ /],
  ])("%j exits with %i and says what to do", async (args, code, says) => {
    const run = await start(...args).done;
    expect([run.code, run.stdout]).toEqual([code, ""]);
    expect(run.stderr).toMatch(says);
  });
});

describe("workflow list, show and validate", { timeout: 60_000 }, () => {
  it("show the workflows of the directory", async () => {
    const list = await start("list").done;
    expect(list.stdout.split("\n")).toContain("greet\t2\tGreets");
    const show = await start("show", "greet").done;
    expect(show.stdout).toMatch(/^workflow\tgreet\n[^]*\n\nsay\tagent [^]*\ndone\tend /);
    const graph = await start("show", "greet", "--graph").done;
    expect(graph.stdout).toMatch(/^flowchart [^]*say[^]*done/);
    const validate = await start("validate").done;
    expect(validate.stdout).toContain("✓ workflows/greet.yaml\n");
  });

  it("validate exits with 1 and reports the position of an error", async () => {
    const place = await mkdtemp(join(tmpdir(), "sandkasten-workflows-"));
    await mkdir(join(place, "workflows"));
    const text = "id: wrong\nsteps:\n  - id: a\n    type: timer\n    secnds: 1\n";
    await writeFile(join(place, "workflows", "wrong.yaml"), text);
    const { code, stdout } = await new TestCli(["workflow", "validate", "--dir", place]).done;
    expect(code).toBe(1);
    expect(stdout).toMatch(/^workflows\/wrong\.yaml:5:5: .*seconds/m);
    await rm(place, { recursive: true });
  });
});
