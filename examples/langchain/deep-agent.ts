import { ChatOpenAI } from "@langchain/openai";
import { SandboxClient } from "@sandkasten/sdk";
import { DeepAgentsSandbox } from "@sandkasten/tools/deepagents";
import { createDeepAgent } from "deepagents";

const client = new SandboxClient({
  baseUrl: process.env["SANDKASTEN_URL"],
  apiKey: process.env["SANDKASTEN_API_KEY"],
});
// Destroyed at the end of the program, even if it fails.
await using session = await client.createSession({ image: "python" });

const agent = createDeepAgent({
  // Reads OPENAI_API_KEY and OPENAI_BASE_URL from the environment.
  model: new ChatOpenAI({ model: "gpt-5" }),
  backend: new DeepAgentsSandbox(session),
});
const task = "Write a Python script that prints fibonacci numbers and run it";
const { messages } = await agent.invoke({ messages: [{ role: "user", content: task }] });
console.log(messages.at(-1)?.text);
