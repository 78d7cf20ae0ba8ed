import { anthropic } from "@genkit-ai/anthropic";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import { genkitTools } from "@sandkasten/tools/genkit";
import { genkit } from "genkit";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
// All sandboxes of this run. They are destroyed at the end, even if the agent fails.
await using scope = new SandboxScope({ client, namespace: "agent", id: crypto.randomUUID() });
const settings = parseSandboxSettings({ mode: "code", runtime: "python" });

// Reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL from the environment.
const ai = genkit({ plugins: [anthropic()] });
const { text } = await ai.generate({
  model: anthropic.model("claude-sonnet-4-5"),
  prompt: "Write a Python script that prints fibonacci numbers and run it",
  // Adds the tools, and tells the model when a call fails.
  use: [genkitTools(sandboxTools(settings, { client, agentScope: scope }))],
  maxTurns: 20,
});
console.log(text);
