/** Models and their servers that loop, flood, fail, hang and reset. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentFixture, agent, toolResults } from "../testing/agent-fixture.ts";

let fixture: AgentFixture;
beforeAll(async () => {
  fixture = await AgentFixture.start({
    agents: {
      helper: agent("metadata: { name: Kind Helper, description: Helps. }"),
      brief: agent("max_steps: 3"),
      hasty: agent("timeout_seconds: 1"),
      free: agent("output: { format: json }"),
    },
  });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

describe("a model that misbehaves", () => {
  test("calls tools that do not exist and gets an error", async () => {
    const run = await fixture.run("helper", [
      { calls: [{ name: "sandbox_exec", arguments: {} }] },
      { text: "Without, then." },
    ]);
    expect(run.status).toBe("succeeded");
    expect(toolResults(fixture.model)).toEqual([
      {
        error: { code: "UNKNOWN_TOOL", message: "You have no tools. Answer without calling one." },
      },
    ]);
  });

  test("gives its calls names and ids of a megabyte, which do not fill events or the conversation", async () => {
    const large = "x".repeat(1_000_000);
    const run = await fixture.run("helper", [
      { calls: [{ name: large, arguments: {}, id: large }], pieceLength: 65_536 },
      { text: "Enough." },
    ]);
    expect(run.status).toBe("succeeded");
    expect(toolResults(fixture.model)).toMatchObject([{ error: { code: "UNKNOWN_TOOL" } }]);
    expect(JSON.stringify(fixture.model.requests.at(-1)?.body).length).toBeLessThan(10_000);
    expect(JSON.stringify(await fixture.eventsOf(run.run_id)).length).toBeLessThan(10_000);
  });

  test("responds with JSON that is nested too deep to be stored, and gets an error", async () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const run = await fixture.run("free", [{ text: deep, pieceLength: 65_536 }, { text: "[[1]]" }]);
    expect(run).toMatchObject({ status: "succeeded", output: [[1]], steps: 2 });
    expect(fixture.model.lastMessage?.content).toMatch(/nested more than 200 levels deep/);
  });

  test("calls tools forever and is ended by max_steps, with a clear error", async () => {
    const run = await fixture.run("brief", [{ calls: [{ name: "again", arguments: {} }] }]);
    expect(run).toMatchObject({
      status: "failed",
      steps: 3,
      error: {
        code: "MAX_STEPS_EXCEEDED",
        message: expect.stringMatching(/used all of its 3 steps/) as string,
      },
    });
  });

  test("never stops talking and is stopped", async () => {
    const run = await fixture.run("helper", [
      { text: "and on ".repeat(2000), endless: true, pieceLength: 8000 },
    ]);
    expect(run).toMatchObject({ status: "failed", error: { code: "OUTPUT_LIMIT_EXCEEDED" } });
  });

  test("is filtered by its provider, and the run says so", async () => {
    const run = await fixture.run("helper", [{ text: "", finishReason: "content_filter" }]);
    expect(run.error).toMatchObject({
      code: "MODEL_FAILED",
      message: expect.stringMatching(/content filter/) as string,
    });
  });
});

describe("a model server", () => {
  test("that returns 500, 429 and resets is retried with increasing pauses", async () => {
    const run = await fixture.run("helper", [
      { status: 500 },
      { status: 429 },
      { text: "Half an ans", reset: true },
      { text: "Whole answer." },
    ]);
    expect(run).toMatchObject({ status: "succeeded", text: "Whole answer." });
    const retries = (await fixture.eventsOf(run.run_id)).filter(
      ({ type }) => type === "model_retry",
    );
    expect(retries).toMatchObject([{ attempt: 1 }, { attempt: 2 }, { attempt: 3 }]);
  });

  test("that requests a pause gets it", async () => {
    await fixture.run("helper", [
      { status: 429, headers: { "retry-after": "0.2" } },
      { text: "Now." },
    ]);
    const [first, second] = fixture.model.requests;
    expect(second!.atMs - first!.atMs).toBeGreaterThanOrEqual(195);
  });

  test("that requests a very long pause ends the run at once", async () => {
    const run = await fixture.run("helper", [{ status: 429, headers: { "retry-after": "3600" } }]);
    expect(run.error).toMatchObject({ code: "MODEL_UNAVAILABLE" });
    expect(fixture.model.requests).toHaveLength(1);
  });

  test("that keeps failing ends the run with a clear error after a limited number of attempts", async () => {
    const run = await fixture.run("helper", [{ status: 503, error: "overloaded" }]);
    expect(run).toMatchObject({
      status: "failed",
      error: {
        code: "MODEL_UNAVAILABLE",
        message:
          "The model openai/tiny did not answer after 4 attempts: The model server answered 503: overloaded",
      },
    });
    expect(fixture.model.requests).toHaveLength(4);
  });

  test("that refuses is not retried", async () => {
    const run = await fixture.run("helper", [{ status: 401, error: "wrong key" }]);
    expect(run.error).toMatchObject({
      code: "MODEL_FAILED",
      message: expect.stringMatching(/401: wrong key/) as string,
    });
    expect(fixture.model.requests).toHaveLength(1);
  });
});

describe("a model server that hangs", () => {
  let impatient: AgentFixture;
  beforeAll(async () => {
    const agents = { helper: agent("") };
    impatient = await AgentFixture.start({ agents, loop: { idleTimeoutMs: 300 } });
  });
  afterAll(async () => await impatient[Symbol.asyncDispose]());

  test("is retried after its silence", async () => {
    const run = await impatient.run("helper", [
      { text: "Hm", hang: true },
      { text: "Sorry, here." },
    ]);
    expect(run).toMatchObject({ status: "succeeded", text: "Sorry, here." });
  });

  test("every time ends the run with a clear error", async () => {
    const run = await impatient.run("helper", [{ hang: true }]);
    expect(run.error?.message).toMatch(/after 4 attempts: The model sent nothing for 0\.3 seconds/);
  });

  test("or sends slowly forever is ended by the run's timeout", async () => {
    const drip = { text: "tick ", endless: true, pieceDelayMs: 20 };
    const run = await fixture.run("hasty", [drip]);
    expect(run.error).toMatchObject({
      code: "TIMEOUT",
      message: expect.stringMatching(/exceeded its timeout of 1 seconds/) as string,
    });
  });
});
