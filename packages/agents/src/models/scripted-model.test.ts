/** The built-in model without a language model: scripts of prompt files, and the demo. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentFixture } from "../testing/agent-fixture.ts";

const scripted = (yaml: string) =>
  `---\nmodel: scripted/demo\n${yaml}\n---\nWork.\n{{role "user"}}\n{{userInput}}\n`;

let fixture: AgentFixture;
beforeAll(async () => {
  fixture = await AgentFixture.start({
    env: { OPENAI_BASE_URL: "", OPENAI_API_KEY: "" },
    agents: {
      demo: scripted(""),
      script: scripted(
        'config:\n  script:\n    - text: Asking.\n      tool: agent_demo\n      input: { task: "{{task}} there" }\n    - "It said: {{result.output}}"',
      ) // A script can use every tool of its agent.
        .replace("model:", "agents: [demo]\nmodel:"),
      short: scripted("config:\n  script:\n    - tool: nothing"),
      bad: scripted("config:\n  script:\n    - { say: hello }"),
    },
  });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

const run = async (name: string) => await fixture.client.executeAndWait(name, { task: "Hello" });

test("without a script, it says what it is, without any key", async () => {
  expect((await run("demo")).text).toBe("This is the scripted model. You said: Hello");
});

test("a script calls tools and can insert the task and results", async () => {
  expect(await run("script")).toMatchObject({
    status: "succeeded",
    text: "It said: This is the scripted model. You said: Hello there",
    steps: 2,
  });
});

test("the run ends with the script", async () => {
  expect((await run("short")).text).toBe("The script has no further turn.");
});

test("an invalid script is an error with its position", async () => {
  expect((await run("bad")).error).toMatchObject({
    code: "MODEL_FAILED",
    message: expect.stringMatching(/config\.script.*say/) as string,
  });
});
