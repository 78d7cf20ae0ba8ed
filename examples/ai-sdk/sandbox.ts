import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { SandboxClient } from "@sandkasten/sdk";
import { aiSandbox } from "@sandkasten/tools/ai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
const provider = createOpenAICompatible({
  name: "openai",
  baseURL: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
  apiKey: process.env["OPENAI_API_KEY"] ?? "",
});
// Destroyed at the end of the program, even if it fails.
await using session = await client.createSession({ image: "python" });
const sandbox = aiSandbox(session);
await sandbox.writeTextFile({ path: "numbers.txt", content: "5\n8\n13\n" });

const { text } = await generateText({
  model: provider("gpt-5"),
  instructions: sandbox.description,
  prompt: "What is the sum of the numbers in numbers.txt?",
  experimental_sandbox: sandbox,
  tools: {
    bash: tool({
      description: "Run a command",
      inputSchema: z.object({ command: z.string() }),
      execute: async ({ command }, { experimental_sandbox, abortSignal }) =>
        await experimental_sandbox?.run({ command, ...(abortSignal && { abortSignal }) }),
    }),
  },
  stopWhen: stepCountIs(20),
});
console.log(text);
