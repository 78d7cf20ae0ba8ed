/** Workflows whose agents share real sandboxes, with the real executor and a scripted model. */
import { deepEqual } from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import type { WorkflowRunBody } from "../client/index.ts";
import type { ChatRequest, ScriptedTurn } from "../testing/model-server.ts";
import { byAgent, namedAgent, WorkflowFixture } from "./testing/workflow-fixture.ts";

const CODE = "sandbox: { mode: code }";
const PATIENCE_MS = 120_000;

let daemon: TestDaemon;
let fixture: WorkflowFixture;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  fixture = await WorkflowFixture.start({
    daemon,
    agents: {
      "code-analyzer": namedAgent("code-analyzer", CODE),
      "code-fixer": namedAgent("code-fixer", CODE),
      "test-runner": namedAgent(
        "test-runner",
        `${CODE}\noutput: { schema: { all_passed: boolean, files: string } }`,
      ),
      worker: namedAgent("worker", CODE),
      named: namedAgent("named", "sandbox: { mode: code, session: database }"),
      isolated: namedAgent("isolated", "sandbox: { mode: code, session: isolated }"),
      brief: namedAgent("brief", "sandbox: { mode: code, idle_timeout_seconds: 3 }"),
      talker: namedAgent("talker"),
    },
    workflows: {
      "code-review-and-fix.yaml": await readFile(
        join(import.meta.dirname, "testing/code-review-and-fix.yaml"),
        "utf8",
      ),
    },
  });
}, PATIENCE_MS);
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

interface SessionBody {
  readonly id: string;
  readonly key?: string;
  readonly status: string;
  readonly ttl_seconds: number;
}

/** Sessions of workflows and their agents that have not ended. */
async function living(): Promise<readonly SessionBody[]> {
  const { body } = await daemon.call<SessionBody[]>("GET", "/v1/sessions");
  return body.filter(({ status }) => status === "running" || status === "creating");
}
afterEach(async () => deepEqual(await living(), [], "sandboxes are left over"));

const exec = (command: string): ScriptedTurn => ({
  calls: [{ name: "sandbox_exec", arguments: { command } }],
});
const open: ScriptedTurn = { calls: [{ name: "sandbox_open", arguments: {} }] };
/** Runs the task as a command and answers with its output. */
const shell = (request: ChatRequest): ScriptedTurn => {
  const { messages } = request;
  const results = messages.filter(({ role }) => role === "tool");
  const task = messages.find(({ role }) => role === "user")?.content?.trim() ?? "";
  if (results.length === 0) return exec(task);
  const { stdout } = JSON.parse(results.at(-1)?.content ?? "{}") as { stdout?: string };
  return { text: (stdout ?? results.at(-1)?.content ?? "").trim() };
};

/** The results that the tools returned to an agent, over all of its runs, in order. */
function toolAnswers<Answer>(agent: string, tool: string): Answer[] {
  const last = new Map<string, ChatRequest>();
  for (const { body } of fixture.agents.model.requests) {
    const [system] = body.messages;
    const [call] = body.messages.flatMap(({ tool_calls: made = [] }) => made);
    // A conversation is identified by the id of its first call; its last request has all results.
    if ((system?.content ?? "").trim().split("\n")[0] === agent && call !== undefined)
      last.set(call.id, body);
  }
  return [...last.values()].flatMap(({ messages }) => {
    const calls = messages.flatMap(({ tool_calls: made = [] }) => made);
    return calls
      .filter(({ function: { name } }) => name === tool)
      .map(({ id }) => messages.find((message) => message.tool_call_id === id)?.content)
      .filter((content) => content !== undefined)
      .map((content) => JSON.parse(content ?? "null") as Answer);
  });
}

async function run(source: string, input?: unknown): Promise<WorkflowRunBody> {
  await fixture.write("test.yaml", source);
  return await fixture.client.runWorkflowAndWait("test", { input });
}

const outputs = ({ steps = [] }: WorkflowRunBody): Record<string, unknown> =>
  Object.fromEntries(steps.map(({ path, output }) => [String(path), output]));

test(
  "Multi-agent workflows share sandbox state correctly: the founding document's workflow runs unchanged, and looping back keeps all files",
  { timeout: PATIENCE_MS },
  async () => {
    let fixes = 0;
    let tests = 0;
    const call = (turn: ScriptedTurn, id: string): ScriptedTurn => ({
      calls: turn.calls?.map((one) => ({ ...one, id })) ?? [],
    });
    fixture.agents.model.play(
      byAgent({
        "code-analyzer": [
          call(open, "analyzer"),
          exec("echo 'division by zero in line 3' > analysis.txt; pwd"),
          { text: "There is a bug." },
        ],
        "code-fixer": (_task, turn) => {
          if (turn === 0) return call(open, `fixer-${++fixes}`);
          if (turn === 1) return exec(`cat analysis.txt; echo fix ${fixes} >> fixes.txt; ls`);
          return { text: `Fixed, attempt ${fixes}.` };
        },
        "test-runner": (_task, turn) => {
          if (turn === 0) return call(open, `tester-${++tests}`);
          if (turn === 1) return exec(`touch tested-${tests}; ls; cat fixes.txt`);
          return { text: JSON.stringify({ all_passed: tests === 2, files: "see above" }) };
        },
      }),
    );
    const done = await fixture.client.runWorkflowAndWait("code-review-and-fix");
    expect(done).toMatchObject({ status: "succeeded", output: { all_passed: true } });
    expect(done.steps?.map(({ path, status }) => `${String(path)} ${status}`)).toEqual(
      [
        "analyze:1",
        "fix:1",
        "test:1",
        "check-results:1",
        "fix:2",
        "test:2",
        "check-results:2",
        "done:1",
      ].map((path) => `${path} succeeded`),
    );
    // Steps 2 and 3 get the sandbox of step 1; only the first sandbox_open created one.
    const opened = ["code-analyzer", "code-fixer", "test-runner"].map((agent) =>
      toolAnswers<{ sandbox_id: string; created: boolean; session_key: string }>(
        agent,
        "sandbox_open",
      ),
    );
    expect(opened.map((answers) => answers.length)).toEqual([1, 2, 2]);
    const [first, ...later] = opened.flat();
    expect(first).toMatchObject({ created: true, session_key: `workflow:${done.run_id}:default` });
    for (const answer of later)
      expect(answer).toMatchObject({ created: false, sandbox_id: first?.sandbox_id });
    const fixed = toolAnswers<{ stdout: string }>("code-fixer", "sandbox_exec");
    expect(fixed.map(({ stdout }) => stdout.split("\n"))).toEqual([
      ["division by zero in line 3", "analysis.txt", "fixes.txt", ""],
      ["division by zero in line 3", "analysis.txt", "fixes.txt", "tested-1", ""],
    ]);
    const tested = toolAnswers<{ stdout: string }>("test-runner", "sandbox_exec");
    expect(tested.at(-1)?.stdout).toBe(
      "analysis.txt\nfixes.txt\ntested-1\ntested-2\nfix 1\nfix 2\n",
    );
  },
);

test("Files persist within workflow run, cleaned up after", { timeout: PATIENCE_MS }, async () => {
  fixture.agents.model.play(shell);
  const source = `
steps:
  - { id: a, agent: worker, task: "ls; echo written > file; echo done" }
  - { id: b, agent: worker, task: "cat file" }
`;
  for (let time = 0; time < 2; time++)
    expect(outputs(await run(source))).toEqual({ "a:1": "done", "b:1": "written" });
  expect(await living()).toEqual([]);
});

describe("sandboxes", { timeout: PATIENCE_MS }, () => {
  test("are created when an agent first needs one, and not for agents without one", async () => {
    fixture.agents.model.play(byAgent({ talker: [{ text: "hello" }] }));
    const before = (await daemon.call<unknown[]>("GET", "/v1/sessions")).body.length;
    expect(await run("steps: [{ id: a, agent: talker }]")).toMatchObject({ output: "hello" });
    expect((await daemon.call<unknown[]>("GET", "/v1/sessions")).body).toHaveLength(before);
  });

  test("with a name are shared by the agents that name them, and isolated ones are not shared", async () => {
    fixture.agents.model.play(shell);
    const done = await run(`
steps:
  - { id: a, agent: worker, task: "echo shared > file; ls" }
  - { id: b, agent: named, task: "ls; echo named > file" }
  - { id: c, agent: isolated, task: "ls; echo isolated > file; cat file" }
  - { id: d, agent: isolated, task: "ls; echo done" }
  - { id: e, agent: named, task: "cat file" }
  - { id: f, agent: worker, task: "cat file" }
  - { id: pause, type: approval }
`);
    expect(outputs(done)).toMatchObject({
      "a:1": "file",
      "b:1": "",
      "c:1": "isolated",
      "d:1": "done",
      "e:1": "named",
      "f:1": "shared",
    });
    const keys = (await living()).map(({ key }) => key);
    expect(new Set(keys)).toEqual(
      new Set([`workflow:${done.run_id}:default`, `workflow:${done.run_id}:database`]),
    );
    await fixture.client.approve(done.run_id);
    await fixture.until(done.run_id, ({ status }) => status === "succeeded");
  });

  test("that several branches open at the same time are one", async () => {
    fixture.agents.model.play(
      byAgent({ worker: [open, exec("echo $$ >> pids; wc -l < pids"), { text: "done" }] }),
    );
    const branches = Array.from(
      { length: 8 },
      (_, index) =>
        `{ name: b${index}, steps: [{ id: s${index}, agent: worker, task: "${index}" }] }`,
    );
    const done = await run(`
steps:
  - { id: all, type: parallel, max_concurrency: 8, branches: [${branches.join(", ")}] }
  - { id: pause, type: approval }
`);
    expect(done.status).toBe("waiting_approval");
    const sessions = (await daemon.call<SessionBody[]>("GET", "/v1/sessions")).body.filter(
      ({ key }) => key?.startsWith(`workflow:${done.run_id}:`),
    );
    expect(sessions).toHaveLength(1);
    const opened = fixture.agents.model.requests.flatMap(({ body }) =>
      body.messages.filter(
        ({ role, content }) => role === "tool" && content?.includes('"created"'),
      ),
    );
    const ids = opened.map(
      ({ content }) => (JSON.parse(content ?? "{}") as { sandbox_id: string }).sandbox_id,
    );
    expect(new Set(ids)).toEqual(new Set([sessions[0]?.id]));
    const created = opened.filter(({ content }) => content?.includes('"created":true'));
    // The following request repeats the earlier answers.
    expect(new Set(created.map(({ tool_call_id: id }) => id)).size).toBe(1);
    await fixture.client.cancelWorkflow(done.run_id);
    await fixture.until(done.run_id, ({ status }) => status === "cancelled");
  });

  test.each([
    ["succeeds", "{ id: z, type: end }", "succeeded"],
    ["fails", "{ id: z, type: end, status: failed }", "failed"],
    ["is cancelled", "{ id: z, type: timer, seconds: 1000 }", "cancelled"],
  ])(
    "100% of sandbox sessions are cleaned up within 5 minutes of workflow completion: at once when a run %s",
    async (_what, last, status) => {
      fixture.agents.model.play(shell);
      await fixture.write(
        "many.yaml",
        `
steps:
  - { id: a, agent: worker, task: "echo a" }
  - { id: b, agent: named, task: "echo b" }
  - ${last}
`,
      );
      const ids = await Promise.all(
        Array.from({ length: 3 }, async () => await fixture.client.runWorkflow("many")),
      );
      if (status === "cancelled")
        for (const id of ids) {
          await fixture.until(id, ({ steps = [] }) => steps.at(-1)?.status === "waiting");
          expect(await living()).not.toEqual([]);
          await fixture.client.cancelWorkflow(id);
        }
      for (const id of ids) {
        await fixture.until(id, (one) => one.status === status);
        const left = (await living()).filter(({ key }) => key?.startsWith(`workflow:${id}:`));
        expect(left).toEqual([]);
      }
    },
  );

  test("are kept for a while after the end if the workflow says so", async () => {
    fixture.agents.model.play(shell);
    const done = await run(`
sandbox: { retain_seconds: 4 }
steps: [{ id: a, agent: worker, task: "echo kept > file; cat file" }]
`);
    expect(done.status).toBe("succeeded");
    const [session] = await living();
    expect(session).toMatchObject({ key: `workflow:${done.run_id}:default`, ttl_seconds: 4 });
    const { stdout } = (await daemon.exec(session?.id ?? "", "cat file")) as { stdout: string };
    expect(stdout).toBe("kept\n");
    await expect.poll(living, { interval: 200 }).toEqual([]);
  });

  test("that are lost while a run waits are not silently replaced by empty ones", async () => {
    fixture.agents.model.play(shell);
    const waiting = await run(`
steps:
  - { id: a, agent: brief, task: "echo here > file; cat file" }
  - { id: ask, type: approval }
  - { id: b, agent: brief, task: "cat file || echo empty" }
`);
    expect(waiting.status).toBe("waiting_approval");
    await expect.poll(living, { interval: 200 }).toEqual([]);
    await fixture.client.approve(waiting.run_id);
    const stopped = await fixture.until(
      waiting.run_id,
      ({ status }) => status !== "running" && status !== "waiting_approval",
    );
    expect(stopped.status).toBe("needs_attention");
    expect(stopped["reason"]).toMatch(
      /^The sandbox "default" \(\S+\) that finished steps have used is gone \(expired\), and its files with it\. Resume the run to continue with an empty sandbox, or cancel it\.$/,
    );
    expect(stopped.steps?.map(({ id }) => id)).toEqual(["a", "ask"]);
    await fixture.client.resume(waiting.run_id);
    const done = await fixture.until(waiting.run_id, ({ status }) => status === "succeeded");
    expect(done.output).toBe("empty");
  });
});
