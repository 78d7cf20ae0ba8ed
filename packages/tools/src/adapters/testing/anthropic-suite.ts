/** Anthropic's real SDK on a real sandbox. */
import Anthropic from "@anthropic-ai/sdk";
import { expect, test } from "vitest";
import { anthropicTools } from "../anthropic.ts";
import {
  codeTools,
  expectCancelled,
  expectRecovery,
  type Fixture,
  type ScriptedModel,
} from "./adapter-fixture.ts";

export function anthropicSuite(fixture: Fixture): void {
  test("tells a model of its mistakes, and the model recovers", async () => {
    const run = async ({ origin }: ScriptedModel) =>
      await new Anthropic({ baseURL: origin, apiKey: "none" }).beta.messages.toolRunner({
        model: "scripted",
        max_tokens: 1000,
        messages: [{ role: "user", content: "Work." }],
        tools: anthropicTools(codeTools(fixture)),
      });
    const answers = await expectRecovery(run, {
      unknownTool: /Tool 'sandbox_teleport' not found/,
    });
    expect(answers.map(({ isError }) => isError === true)).toEqual([
      ...answers.slice(1).map(() => true),
      false,
    ]);
  });

  test("cancels the command of a run that is aborted", async () => {
    await expectCancelled(
      fixture,
      async ({ origin }, tools, signal) =>
        await new Anthropic({ baseURL: origin, apiKey: "none" }).beta.messages.toolRunner(
          {
            model: "scripted",
            max_tokens: 1000,
            messages: [{ role: "user", content: "Work." }],
            tools: anthropicTools(tools),
          },
          { signal },
        ),
    );
  });
}
