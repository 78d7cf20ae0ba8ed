import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import { aiTools } from "@sandkasten/tools/ai";
import { generateText, stepCountIs } from "ai";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
const provider = createOpenAICompatible({
  name: "openai",
  baseURL: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
  apiKey: process.env["OPENAI_API_KEY"] ?? "",
});
// All sandboxes of this run. They are destroyed at the end, even if the agent fails.
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const settings = parseSandboxSettings({ mode: "code", runtime: "python" });

const { text } = await generateText({
  model: provider("gpt-5"),
  prompt: "Write a Python script that prints fibonacci numbers and run it",
  tools: aiTools(sandboxTools(settings, { client, agentScope: scope })),
  stopWhen: stepCountIs(20),
});
console.log(text);
