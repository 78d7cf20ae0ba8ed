import { ChatOpenAI } from "@langchain/openai";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import { langchainTools } from "@sandkasten/tools/langchain";
import { createAgent } from "langchain";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
// All sandboxes of this run. They are destroyed at the end, even if the agent fails.
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const settings = parseSandboxSettings({ mode: "code", runtime: "python" });

const agent = createAgent({
  // Reads OPENAI_API_KEY and OPENAI_BASE_URL from the environment.
  model: new ChatOpenAI({ model: "gpt-5" }),
  tools: langchainTools(sandboxTools(settings, { client, agentScope: scope })),
});
const task = "Write a Python script that prints fibonacci numbers and run it";
const { messages } = await agent.invoke({ messages: [{ role: "user", content: task }] });
console.log(messages.at(-1)?.text);
