/** Agents without a sandbox: input, output, and refused requests. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

const SCORE = "output:\n  schema:\n    score: integer\n    why: string";

let fixture: AgentFixture;
beforeAll(async () => {
  fixture = await AgentFixture.start({
    agents: {
      helper: agent("metadata: { name: Kind Helper, description: Helps. }"),
      scorer: agent(SCORE),
      strict: agent("input:\n  schema:\n    name: string\n    times?: integer", "Greet {{name}}."),
      keyless: agent("").replace("openai/tiny", "anthropic/claude"),
      nobody: agent("").replace("openai/tiny", "opnai/x"),
      plain: "---\nmetadata: { name: Plain }\n---\nHello\n",
    },
  });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

describe("a run", () => {
  test("streams text and ends with the answer, steps and tokens", async () => {
    const run = await fixture.run("helper", [{ text: "Here you are." }], { task: "Help me" });
    expect(run).toMatchObject({
      status: "succeeded",
      agent_name: "helper",
      task: "Help me",
      text: "Here you are.",
      output: "Here you are.",
      steps: 1,
      usage: { input_tokens: 10, output_tokens: 5 },
    });
    const events = await fixture.eventsOf(run.run_id);
    expect(events.map(({ type }) => type)).toEqual(["run_started", "text", "turn", "run_ended"]);
    expect(fixture.model.requests[0]?.body.messages).toEqual([
      { role: "system", content: "Work.\n" },
      { role: "user", content: "\nHelp me" },
    ]);
  });

  test("can be started by the agent's title or its file name", async () => {
    expect(await fixture.run("Kind Helper", [{ text: "Hi" }])).toMatchObject({
      agent_name: "helper",
    });
  });

  test("of an unknown agent is refused with the nearest name", async () => {
    await expect(fixture.client.execute("helpr")).rejects.toMatchObject({
      code: "AGENT_NOT_FOUND",
      status: 404,
      message: 'There is no agent "helpr". Did you mean "helper"?',
    });
  });

  test("without the model's key names the variable to set", async () => {
    await expect(fixture.client.execute("keyless")).rejects.toMatchObject({
      status: 400,
      message: "The model anthropic/claude needs a key: set ANTHROPIC_API_KEY.",
    });
    await expect(fixture.client.execute("nobody")).rejects.toThrow(
      /unknown provider.*NAME\. Did you mean openai\?$/,
    );
    await expect(fixture.client.execute("plain")).rejects.toThrow(
      /names no model.*SANDKASTEN_AGENTS_MODEL/,
    );
  });
});

describe("structured input", () => {
  test("is inserted into the template", async () => {
    await fixture.run("strict", [{ text: "Hi" }], { input: { name: "Ada" } });
    expect(fixture.model.lastMessage?.content).toBe("Greet Ada.");
  });

  test.for([
    [{}, /name is missing/],
    [{ name: 5 }, /name must be string/],
    [{ name: "a", times: "often" }, /times must be integer/],
    [{ name: "a", nmae: "b" }, /nmae is not known/],
  ] as const)("%j is refused before anything runs", async ([input, message]) => {
    fixture.model.play([]);
    await expect(fixture.client.execute("strict", { input })).rejects.toThrow(message);
    expect(fixture.model.requests).toEqual([]);
  });
});

describe("structured output", () => {
  const good = '{"score": 7, "why": "fine"}';

  test.for([
    ["plain", good],
    ["in a fence", `Here it is:\n\`\`\`json\n${good}\n\`\`\``],
    ["in a sentence", `The result is ${good}, as asked.`],
  ] as const)("is accepted %s", async ([, text]) => {
    expect((await fixture.run("scorer", [{ text }])).output).toEqual({ score: 7, why: "fine" });
  });

  test("is requested with its schema", async () => {
    await fixture.run("scorer", [{ text: good }]);
    expect(fixture.model.requests[0]?.body.messages[0]?.content).toMatch(
      /JSON Schema:\n\{.*"score"/,
    );
  });

  test("of the wrong form can be corrected twice", async () => {
    const run = await fixture.run("scorer", [
      { text: "Seven." },
      { text: '{"score": "seven", "why": "fine"}' },
      { text: good },
    ]);
    expect(run).toMatchObject({ status: "succeeded", output: { score: 7 }, steps: 3 });
    expect(fixture.model.lastMessage?.content).toMatch(/score must be integer.*Answer again/);
  });

  test("that stays wrong fails the run with the reason", async () => {
    const run = await fixture.run("scorer", [{ text: '{"score": 1}' }]);
    expect(run).toMatchObject({
      status: "failed",
      steps: 3,
      error: { code: "INVALID_OUTPUT", message: expect.stringMatching(/why is missing/) as string },
    });
  });
});
