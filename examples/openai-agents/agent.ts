import { Agent, Runner, tool } from "@openai/agents-core";
import { OpenAIProvider } from "@openai/agents-openai";
import { SandboxClient } from "@sandkasten/sdk";
import { agentTools } from "../agent-tools.ts";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
const session = await client.createSession({ image: "python" });
try {
  const agent = new Agent({
    name: "coding-assistant",
    instructions: "You have a Linux sandbox. Use exec, write_file, read_file.",
    tools: agentTools(session).map(({ run, ...described }) =>
      tool({ ...described, strict: true, execute: run }),
    ),
  });
  // Takes OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_DEFAULT_MODEL from the environment.
  const runner = new Runner({ modelProvider: new OpenAIProvider(), tracingDisabled: true });
  const task = "Write a Python script that prints fibonacci numbers and run it";
  const { finalOutput } = await runner.run(agent, task);
  console.log(finalOutput);
} finally {
  await session.destroy();
}
