/** Workflows over HTTP, with the real service and a scripted model. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AgentServiceError } from "../client/index.ts";
import { byAgent, namedAgent, WorkflowFixture } from "./testing/workflow-fixture.ts";

let fixture: WorkflowFixture;
beforeAll(async () => {
  fixture = await WorkflowFixture.start({
    agents: {
      writer: namedAgent("writer"),
      judge: namedAgent("judge", "output: { schema: { good: boolean } }"),
      sleeper: namedAgent("sleeper"),
    },
    workflows: {
      "review.yaml": `
id: review
name: Write and judge
description: Writes until the judge is content
input_schema: { type: object, properties: { topic: { type: string } }, required: [topic] }
steps:
  - { id: write, agent: writer, task: "About {{ input.topic }}" }
  - { id: judge, agent: judge, task: "{{ steps.write.output }}" }
  - { id: good, type: switch, expression: steps.judge.output.good, transitions: [{ condition: true, next: done }, { condition: false, next: write }] }
  - { id: done, type: end, output: { text: "{{ steps.write.output }}" } }
`,
      "ask.yml": `
steps:
  - { id: ask, type: approval, message: "Really {{ input }}?" }
  - { id: done, type: end, output: "{{ steps.ask.output.comment }}" }
`,
      "sleep.yaml": "steps: [{ id: a, agent: sleeper, task: x }]",
      "broken.yaml":
        "steps:\n  - { id: a, agent: missing }\n  - { id: b, agent: writer, tsak: x }\n",
      "missing.yaml": "steps: [{ id: a, agent: missing }]",
      "twin.yaml": "id: sleep\nsteps: [{ id: a, type: end }]",
      "schema.yaml": "input_schema: { type: 5 }\nsteps: [{ id: a, type: end }]",
      "notes.txt": "no workflow",
    },
  });
  let drafts = 0;
  fixture.agents.model.play(
    byAgent({
      writer: (task) => ({ text: `${task}, draft ${++drafts}` }),
      judge: (task) => ({ text: JSON.stringify({ good: task.endsWith("2") }) }),
      sleeper: [{ text: "zzz", hang: true }],
    }),
  );
}, 60_000);
afterAll(async () => await fixture[Symbol.asyncDispose]());

/** The error of a call that must fail. */
async function refusalOf(call: Promise<unknown>): Promise<AgentServiceError> {
  return (await call.then(
    () => expect.unreachable("the call succeeded"),
    (error: unknown) => error,
  )) as AgentServiceError;
}

describe("the catalogue", { timeout: 60_000 }, () => {
  test("lists all workflows, and the errors of invalid ones", async () => {
    const workflows = await fixture.client.workflows();
    expect(workflows.map(({ id, file, steps, error }) => [id, file, steps, error])).toEqual([
      ["ask", "workflows/ask.yml", 2, undefined],
      [
        "broken",
        "workflows/broken.yaml",
        0,
        'workflows/broken.yaml:3:29: step b: "tsak" is not known; did you mean task?',
      ],
      [
        "missing",
        "workflows/missing.yaml",
        1,
        'workflows/missing.yaml:1:9: step a: there is no agent "missing" that can be run',
      ],
      ["review", "workflows/review.yaml", 4, undefined],
      [
        "schema",
        "workflows/schema.yaml",
        1,
        expect.stringMatching(
          /^workflows\/schema.yaml:1:15: workflow: input_schema is not a JSON Schema: /,
        ),
      ],
      [
        "sleep",
        "workflows/sleep.yaml",
        1,
        "workflows/sleep.yaml:1:1: the id sleep is also that of workflows/twin.yaml",
      ],
      [
        "sleep",
        "workflows/twin.yaml",
        1,
        "workflows/twin.yaml:1:1: the id sleep is also that of workflows/sleep.yaml",
      ],
    ]);
    await fixture.write("twin.yaml", undefined);
    const [sleep] = (await fixture.client.workflows()).filter(({ id }) => id === "sleep");
    expect(sleep).not.toHaveProperty("error");
  });

  test("shows a plan, and its graph on request", async () => {
    const plan = await fixture.client.workflow("review");
    expect(plan).toMatchObject({
      id: "review",
      name: "Write and judge",
      file: "workflows/review.yaml",
      start: "write",
      input_schema: { required: ["topic"] },
      steps: [
        { id: "write", type: "agent", task: "About {{ input.topic }}", next: "judge", line: 7 },
        { id: "judge" },
        { id: "good", transitions: [{ condition: true, next: "done" }, { next: "write" }] },
        { id: "done", output: { text: "{{ steps.write.output }}" } },
      ],
    });
    expect(plan).not.toHaveProperty("graph");
    const { graph } = await fixture.client.workflow("review", { graph: true });
    expect(graph).toContain('n3{"good<br/>switch"}');
    expect(await fixture.client.workflow("broken")).toMatchObject({
      steps: [],
      error: expect.any(String) as string,
    });
    expect((await refusalOf(fixture.client.workflow("none"))).code).toBe("WORKFLOW_NOT_FOUND");
  });

  test("reads a file again after a change", async () => {
    await fixture.write("new.yaml", "steps: [{ id: a, type: end, output: 1 }]");
    expect((await fixture.client.runWorkflowAndWait("new")).output).toBe(1);
    await fixture.write("new.yaml", "steps: [{ id: a, type: end, output: 2 }]");
    expect((await fixture.client.runWorkflowAndWait("new")).output).toBe(2);
    await fixture.write("new.yaml", undefined);
    expect((await refusalOf(fixture.client.runWorkflow("new"))).code).toBe("WORKFLOW_NOT_FOUND");
  });
});

describe("a run", { timeout: 60_000 }, () => {
  test("runs its agents, and can be read completely", async () => {
    const run = await fixture.client.runWorkflowAndWait("review", { input: { topic: "tides" } });
    expect(run).toMatchObject({
      workflow_id: "review",
      status: "succeeded",
      input: { topic: "tides" },
      output: { text: "About tides, draft 2" },
    });
    expect(run.steps?.map(({ path, status }) => `${String(path)} ${status}`)).toEqual([
      "write:1 succeeded",
      "judge:1 succeeded",
      "good:1 succeeded",
      "write:2 succeeded",
      "judge:2 succeeded",
      "good:2 succeeded",
      "done:1 succeeded",
    ]);
    const [step] = run.steps ?? [];
    const agentRun = await fixture.client.run(step?.agent_run_id ?? "");
    expect(agentRun).toMatchObject({
      agent_name: "writer",
      workflow_run_id: run.run_id,
      status: "succeeded",
    });
    const events = await Array.fromAsync(fixture.client.workflowEvents(run.run_id));
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({
      type: "workflow_ended",
      status: "succeeded",
      output: { text: "About tides, draft 2" },
    });
    const late = await Array.fromAsync(
      fixture.client.workflowEvents(run.run_id, { cursor: events.length - 2 }),
    );
    expect(late).toEqual(events.slice(-2));
  });

  test("starts at once and can be followed while it runs", async () => {
    const runId = await fixture.client.runWorkflow("sleep");
    for await (const { type } of fixture.client.workflowEvents(runId))
      if (type === "step_started") break;
    expect(await fixture.client.workflowRun(runId)).toMatchObject({
      status: "running",
      steps: [{ id: "a", status: "running", attempt: 1 }],
    });
    await fixture.client.cancelWorkflow(runId);
    const events = await Array.fromAsync(fixture.client.workflowEvents(runId));
    expect(events.at(-1)).toMatchObject({ type: "workflow_ended", status: "cancelled" });
    const { steps = [] } = await fixture.client.workflowRun(runId);
    expect(steps[0]?.status).toBe("cancelled");
    expect(await fixture.client.run(steps[0]?.agent_run_id ?? "")).toMatchObject({
      status: "cancelled",
    });
    expect((await refusalOf(fixture.client.cancelWorkflow(runId))).code).toBe("CONFLICT");
  });

  test("waits for a person, who approves or rejects", async () => {
    const asked = await fixture.client.runWorkflowAndWait("ask", { input: "now" });
    expect(asked).toMatchObject({
      status: "waiting_approval",
      steps: [{ id: "ask", status: "waiting", message: "Really now?" }],
    });
    await fixture.client.approve(asked.run_id, { comment: "go" });
    const done = await fixture.until(asked.run_id, ({ status }) => status === "succeeded");
    expect(done.output).toBe("go");
    expect((await refusalOf(fixture.client.approve(asked.run_id))).message).toBe(
      "No step of the run waits for an approval; the run is succeeded.",
    );
    const other = await fixture.client.runWorkflowAndWait("ask", { input: "now" });
    await fixture.client.reject(other.run_id, { stepId: "ask", comment: "no" });
    const failed = await fixture.until(other.run_id, ({ status }) => status === "failed");
    expect(failed.error).toEqual({
      code: "REJECTED",
      message: "step ask was rejected: no",
      step: "ask",
    });
    expect((await refusalOf(fixture.client.resume(other.run_id))).message).toBe(
      "Only a run that needs attention can be resumed; this one is failed.",
    );
  });

  test.each([
    [
      "of a workflow that is not there",
      "none",
      {},
      "WORKFLOW_NOT_FOUND",
      'There is no workflow "none".',
    ],
    [
      "of a workflow with mistakes",
      "broken",
      {},
      "INVALID_REQUEST",
      "The workflow broken cannot be run:\nworkflows/broken.yaml:3:29",
    ],
    [
      "whose agent is not there",
      "missing",
      {},
      "INVALID_REQUEST",
      'there is no agent "missing" that can be run',
    ],
    [
      "whose input is not as it must be",
      "review",
      { topic: 5 },
      "INVALID_REQUEST",
      "The input of review does not match its input_schema: topic must be string.",
    ],
    ["without input that it needs", "review", undefined, "INVALID_REQUEST", "topic is missing"],
    [
      "whose input is too large",
      "ask",
      "x".repeat(5_000_000),
      "PAYLOAD_TOO_LARGE",
      "a run takes at most 4194304",
    ],
  ])("%s is refused", async (_what, id, input, code, message) => {
    const refusal = await refusalOf(fixture.client.runWorkflow(id, { input }));
    expect(refusal.code).toBe(code);
    expect(refusal.message).toContain(message);
  });

  test("can be listed in pages, by workflow and by status", async () => {
    const ids: string[] = [];
    for (let count = 0; count < 3; count++)
      ids.push(
        (await fixture.client.runWorkflowAndWait("ask", { input: "x".repeat(20_000) })).run_id,
      );
    const first = await fixture.client.workflowRuns({
      workflow: "ask",
      status: "waiting_approval",
      limit: 2,
    });
    expect(first.runs.map(({ run_id: id }) => id)).toEqual([ids[2], ids[1]]);
    expect(first.runs[0]).toMatchObject({ input_omitted: true, input_bytes: 20_002 });
    expect(first.runs[0]).not.toHaveProperty("input");
    const rest = await fixture.client.workflowRuns({
      workflow: "ask",
      status: "waiting_approval",
      limit: 2,
      cursor: first.next_cursor,
    });
    expect(rest.runs.map(({ run_id: id }) => id)).toEqual([ids[0]]);
    expect(rest).not.toHaveProperty("next_cursor");
    expect((await fixture.client.workflowRuns({ workflow: "none" })).runs).toEqual([]);
    for (const id of ids) await fixture.client.cancelWorkflow(id);
  });

  test("that does not exist is not found", async () => {
    const { client } = fixture;
    for (const call of [
      () => client.workflowRun("wfr_none"),
      () => client.cancelWorkflow("wfr_none"),
      () => client.approve("wfr_none"),
      () => client.resume("wfr_none"),
      () => Array.fromAsync(client.workflowEvents("wfr_none")),
    ])
      expect((await refusalOf(call())).code).toBe("RUN_NOT_FOUND");
  });

  test("keeps the file that it started with", async () => {
    const source = (word: string): string =>
      `steps: [{ id: ask, type: approval }, { id: done, type: end, output: ${word} }]`;
    await fixture.write("kept.yaml", source("before"));
    const { run_id: runId } = await fixture.client.runWorkflowAndWait("kept");
    await fixture.write("kept.yaml", source("after"));
    await fixture.client.approve(runId);
    expect((await fixture.until(runId, ({ status }) => status === "succeeded")).output).toBe(
      "before",
    );
  });
});

test("an agent that fails fails the run with its message", { timeout: 60_000 }, async () => {
  await fixture.write("bad.yaml", "steps: [{ id: a, agent: judge, task: x }]");
  fixture.agents.model.play([{ text: "not JSON" }]);
  const run = await fixture.client.runWorkflowAndWait("bad");
  expect(run).toMatchObject({
    status: "failed",
    error: {
      code: "INVALID_OUTPUT",
      step: "a",
      message: expect.stringMatching(/^agent judge: The model's answer does not match/) as string,
    },
  });
});
