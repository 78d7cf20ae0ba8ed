import { Runner } from "@openai/agents-core";
import { file, SandboxAgent } from "@openai/agents-core/sandbox";
import { OpenAIProvider } from "@openai/agents-openai";
import { SandboxClient } from "@sandkasten/sdk";
import { OpenAiSandboxClient } from "@sandkasten/tools/openai-agents";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
const agent = new SandboxAgent({
  name: "analyst",
  instructions: "Answer questions about the files in your workspace.",
  defaultManifest: { entries: { "numbers.txt": file({ content: "5\n8\n13\n" }) } },
});
// Reads OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_DEFAULT_MODEL from the environment.
const runner = new Runner({ modelProvider: new OpenAIProvider(), tracingDisabled: true });
const { finalOutput } = await runner.run(agent, "What is the sum of the numbers?", {
  // The runner creates a sandbox for this run, and destroys it at its end.
  sandbox: { client: new OpenAiSandboxClient(client, { image: "python" }) },
});
console.log(finalOutput);
