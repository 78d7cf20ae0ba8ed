/** Agents that call agents, and cancelled runs that end everything they started. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentServiceClient } from "../client/index.ts";
import { startAgentService } from "../serve.ts";
import { AgentFixture, agent, toolResults } from "../testing/agent-fixture.ts";

const SCORE = "output:\n  schema:\n    score: integer\n    why: string";

let fixture: AgentFixture;
beforeAll(async () => {
  fixture = await AgentFixture.start({
    agents: {
      helper: agent("metadata: { name: Kind Helper, description: Helps. }"),
      scorer: agent(SCORE),
      strict: agent("input:\n  schema:\n    name: string\n    times?: integer", "Greet {{name}}."),
      boss: agent("agents: [helper, scorer, strict]"),
      circle: agent("agents: [circle]"),
    },
  });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

describe("agents as tools", () => {
  test("get a task and return their answer", async () => {
    const run = await fixture.run("boss", ({ messages }, index) => {
      if (index === 0)
        return { calls: [{ name: "agent_helper", arguments: { task: "Tell a number" } }] };
      if (messages.at(-1)?.content?.includes("Tell a number") === true) return { text: "42" };
      return { text: `It said ${messages.at(-1)?.content ?? ""}` };
    });
    expect(run.text).toBe('It said {"output":"42"}');
    const call = (await fixture.eventsOf(run.run_id)).find(({ type }) => type === "agent_call");
    const child = await fixture.client.run(String(call?.["run_id"]));
    expect(child).toMatchObject({ agent_name: "helper", parent_run_id: run.run_id, text: "42" });
  });

  test("have their description and the schema of their input", async () => {
    await fixture.run("boss", [{ text: "ok" }]);
    const tools = fixture.model.requests[0]?.body.tools?.map(({ function: shown }) => shown);
    expect(tools).toMatchObject([
      {
        name: "agent_helper",
        description: 'Asks the agent "Kind Helper" and returns its answer. Helps.',
      },
      { name: "agent_scorer" },
      {
        name: "agent_strict",
        parameters: { properties: { name: { type: "string" } }, required: ["name"] },
      },
    ]);
  });

  test("that fail, or get invalid input, return errors that a model can act on", async () => {
    const run = await fixture.run("boss", ({ messages }, index) => {
      if (index === 0)
        return {
          calls: [
            { name: "agent_strict", arguments: { nmae: "x" }, id: "a" },
            { name: "agent_helper", arguments: {}, id: "b" },
            { name: "agent_helper", arguments: { task: 5 }, id: "c" },
            { name: "agent_scorer", arguments: { task: "score" }, id: "d" },
          ],
        };
      return { text: messages.some(({ role }) => role === "tool") ? "I see." : "no score" };
    });
    expect(run.status).toBe("succeeded");
    const errors = toolResults(fixture.model) as { error: { code: string; message: string } }[];
    expect(errors.map(({ error }) => error.code)).toEqual([
      "INVALID_INPUT",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "AGENT_FAILED",
    ]);
    expect(errors[0]?.error.message).toMatch(/name is missing/);
  });

  test("that call each other in a circle are limited", async () => {
    const run = await fixture.run("circle", ({ messages }) =>
      messages.some(({ role }) => role === "tool")
        ? { text: "up" }
        : { calls: [{ name: "agent_circle", arguments: { task: "down" } }] },
    );
    expect(run.status).toBe("succeeded");
    const { runs } = await fixture.client.runs({ agent: "circle" });
    expect(runs).toHaveLength(6);
  });
});

describe("cancelling", () => {
  test("ends a run that waits for its model, at once", async () => {
    fixture.model.play([{ text: "Wait", hang: true }]);
    const id = await fixture.client.execute("helper", { task: "x" });
    await fixture.until(id, "text");
    await fixture.client.cancel(id);
    const events = await fixture.eventsOf(id);
    expect(events.at(-1)).toMatchObject({ type: "run_ended", status: "cancelled" });
    expect(await fixture.client.run(id)).toMatchObject({
      status: "cancelled",
      error: { code: "CANCELLED", message: "The run was cancelled." },
    });
  });

  test("a run cancels the agents that it called", async () => {
    fixture.model.play((_, index) =>
      index === 0
        ? { calls: [{ name: "agent_helper", arguments: { task: "t" } }] }
        : { hang: true },
    );
    const id = await fixture.client.execute("boss", { task: "x" });
    const { run_id: child } = await fixture.until(id, "agent_call");
    await fixture.client.cancel(id);
    await fixture.eventsOf(id);
    expect((await fixture.client.run(String(child))).status).toBe("cancelled");
  });

  test("ends a run that waits to retry its model", async () => {
    fixture.model.play([{ status: 429, headers: { "retry-after": "2" } }]);
    const id = await fixture.client.execute("helper", { task: "x" });
    await fixture.until(id, "model_retry");
    await fixture.client.cancel(id);
    expect((await fixture.eventsOf(id)).at(-1)).toMatchObject({ status: "cancelled" });
    expect(fixture.model.requests).toHaveLength(1);
  });

  test("ends a run that waits for its turn, and the next one starts", async () => {
    await using narrow = await AgentFixture.start({
      agents: { helper: agent("") },
      env: { SANDKASTEN_AGENTS_MAX_RUNS: "1" },
    });
    narrow.model.play([{ hang: true }]);
    const first = await narrow.client.execute("helper", { task: "first" });
    const [second, third] = [
      await narrow.client.execute("helper", { task: "second" }),
      await narrow.client.execute("helper", { task: "third" }),
    ];
    await narrow.until(first, "run_started");
    expect((await narrow.client.run(second)).status).toBe("queued");
    await narrow.client.cancel(second);
    expect(await narrow.eventsOf(second)).toMatchObject([
      { type: "run_ended", status: "cancelled" },
    ]);
    narrow.model.play([{ text: "My turn." }]);
    await narrow.client.cancel(first);
    expect((await narrow.eventsOf(third)).at(-1)).toMatchObject({ text: "My turn." });
  });

  test("through another service on the same data also ends a run", async () => {
    await using other = await startAgentService({
      dir: fixture.dir,
      listen: "127.0.0.1:0",
      daemonUrl: "http://127.0.0.1:9",
      env: { OPENAI_BASE_URL: fixture.model.url },
    });
    fixture.model.play([{ text: "waiting", hang: true }]);
    const id = await fixture.client.execute("helper", { task: "x" });
    await fixture.until(id, "text");
    await new AgentServiceClient({ baseUrl: other.url }).cancel(id);
    expect((await fixture.eventsOf(id)).at(-1)).toMatchObject({
      type: "run_ended",
      status: "cancelled",
    });
  });

  test("does not change a run that has ended", async () => {
    const run = await fixture.run("helper", [{ text: "Done" }]);
    expect(await fixture.client.cancel(run.run_id)).toMatchObject({ status: "succeeded" });
    await expect(fixture.client.cancel("run_none")).rejects.toMatchObject({
      code: "RUN_NOT_FOUND",
    });
  });
});
