import Anthropic from "@anthropic-ai/sdk";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import { anthropicTools } from "@sandkasten/tools/anthropic";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
// All sandboxes of this run. They are destroyed at the end, even if the agent fails.
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const settings = parseSandboxSettings({ mode: "code", runtime: "python" });

// Reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL from the environment.
const message = await new Anthropic().beta.messages.toolRunner({
  model: "claude-sonnet-4-5",
  max_tokens: 4096,
  messages: [
    { role: "user", content: "Write a Python script that prints fibonacci numbers and run it" },
  ],
  tools: anthropicTools(sandboxTools(settings, { client, agentScope: scope })),
});
for (const block of message.content) if (block.type === "text") console.log(block.text);
