/** Genkit's real packages on a real sandbox. */
import { anthropic } from "@genkit-ai/anthropic";
import { genkit } from "genkit";
import { afterAll, expect, test, vi } from "vitest";
import { genkitTools } from "../genkit.ts";
import {
  codeTools,
  expectCancelled,
  expectRecovery,
  type Fixture,
  type ScriptedModel,
} from "./adapter-fixture.ts";

export function genkitSuite(fixture: Fixture): void {
  afterAll(() => {
    vi.unstubAllEnvs();
  });

  test("tells a model of its mistakes, and the model recovers", async () => {
    const run = async (model: ScriptedModel) => {
      // The plugin has no option for it; the SDK below it reads the variable.
      vi.stubEnv("ANTHROPIC_BASE_URL", model.origin);
      const ai = genkit({ plugins: [anthropic({ apiKey: "none" })] });
      await ai.generate({
        model: anthropic.model("claude-sonnet-4-5"),
        prompt: "Work.",
        use: [genkitTools(codeTools(fixture))],
        maxTurns: 20,
      });
      expect(model.toolNames).toHaveLength(9);
    };
    await expectRecovery(run, {
      unknownTool: /There is no tool sandbox_teleport\. Use one of sandbox_open, /,
    });
  });

  test("cancels the command of a run that is aborted", async () => {
    await expectCancelled(fixture, async ({ origin }, tools, abortSignal) => {
      vi.stubEnv("ANTHROPIC_BASE_URL", origin);
      const ai = genkit({ plugins: [anthropic({ apiKey: "none" })] });
      return await ai.generate({
        model: anthropic.model("claude-sonnet-4-5"),
        prompt: "Work.",
        use: [genkitTools(tools)],
        abortSignal,
      });
    });
  });
}
