/** LangChain's real packages on a real sandbox. */
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { test } from "vitest";
import { langchainTools } from "../langchain.ts";
import {
  codeTools,
  expectCancelled,
  expectRecovery,
  type Fixture,
  type ScriptedModel,
} from "./adapter-fixture.ts";

export function chatModel({ origin }: ScriptedModel): ChatOpenAI {
  return new ChatOpenAI({
    model: "scripted",
    apiKey: "none",
    useResponsesApi: false,
    configuration: { baseURL: `${origin}/v1` },
  });
}

export function langchainSuite(fixture: Fixture): void {
  test("tells a model of its mistakes, and the model recovers", async () => {
    const run = async (model: ScriptedModel) =>
      await createAgent({
        model: chatModel(model),
        tools: langchainTools(codeTools(fixture)),
      }).invoke({ messages: [{ role: "user", content: "Work." }] }, { recursionLimit: 50 });
    await expectRecovery(run, {
      unknownTool: /sandbox_teleport is not a valid tool, try one of \[sandbox_open, /,
    });
  });

  test("cancels the command of a run that is aborted", async () => {
    await expectCancelled(
      fixture,
      async (model, tools, signal) =>
        await createAgent({
          model: chatModel(model),
          tools: langchainTools(tools),
        }).invoke({ messages: [{ role: "user", content: "Work." }] }, { signal }),
    );
  });
}
