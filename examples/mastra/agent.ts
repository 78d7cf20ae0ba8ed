import { Agent } from "@mastra/core/agent";
import { Workspace } from "@mastra/core/workspace";
import { SandboxClient } from "@sandkasten/sdk";
import { SandkastenSandbox } from "@sandkasten/tools/mastra";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
const sandbox = new SandkastenSandbox({ client, create: { image: "python" } });
const agent = new Agent({
  id: "coding-assistant",
  name: "coding-assistant",
  instructions: "You have a Linux sandbox. Use its tools to run commands.",
  model: {
    id: "openai/gpt-5",
    url: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
    apiKey: process.env["OPENAI_API_KEY"] ?? "",
  },
  workspace: new Workspace({ sandbox }),
});
try {
  const task = "Write a Python script that prints fibonacci numbers and run it";
  const { text } = await agent.generate(task, { maxSteps: 20 });
  console.log(text);
} finally {
  await sandbox._destroy();
}
