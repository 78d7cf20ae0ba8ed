import { Agent, Runner } from "@openai/agents-core";
import { OpenAIProvider } from "@openai/agents-openai";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import { openaiTools } from "@sandkasten/tools/openai-agents";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
// All sandboxes of this run. They are destroyed at the end, even if the agent fails.
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const settings = parseSandboxSettings({ mode: "code", runtime: "python" });

const agent = new Agent({
  name: "coding-assistant",
  instructions: "You have a Linux sandbox. Use its tools to write files and run commands.",
  tools: openaiTools(sandboxTools(settings, { client, agentScope: scope })),
});
// Reads OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_DEFAULT_MODEL from the environment.
const runner = new Runner({
  modelProvider: new OpenAIProvider(),
  tracingDisabled: true,
  // Tells the model that a tool does not exist, instead of ending the run.
  toolNotFoundBehavior: "return_error_to_model",
});
const task = "Write a Python script that prints fibonacci numbers and run it";
const { finalOutput } = await runner.run(agent, task);
console.log(finalOutput);
