/** Every adapter with its framework's real package, on the sandboxes of one daemon. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ToolFixture } from "../testing/tool-fixture.ts";
import type { Fixture } from "./testing/adapter-fixture.ts";
import { aiSuite } from "./testing/ai-suite.ts";
import { anthropicSuite } from "./testing/anthropic-suite.ts";
import { computesdkSuite } from "./testing/computesdk-suite.ts";
import { deepagentsSuite } from "./testing/deepagents-suite.ts";
import { FRAMEWORKS, versionsPage } from "./testing/frameworks.ts";
import { genkitSuite } from "./testing/genkit-suite.ts";
import { langchainSuite } from "./testing/langchain-suite.ts";
import { mastraSuite } from "./testing/mastra-suite.ts";
import { openaiAgentsSuite } from "./testing/openai-agents-suite.ts";

const suites: Readonly<Record<string, (fixture: Fixture) => void>> = {
  ai: aiSuite,
  anthropic: anthropicSuite,
  computesdk: computesdkSuite,
  deepagents: deepagentsSuite,
  genkit: genkitSuite,
  langchain: langchainSuite,
  mastra: mastraSuite,
  "openai-agents": openaiAgentsSuite,
};

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start();
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

describe.for(FRAMEWORKS)("$name", ({ subPath }) => {
  // Without tests, the matrix would list versions that no test ran with.
  const suite = suites[subPath];
  if (suite === undefined) throw new Error(`the adapter ${subPath} has no tests`);
  suite(() => fixture);
});

test("the version matrix names the versions of this run; `vitest run --update` writes it anew", async () => {
  await expect(versionsPage()).toMatchFileSnapshot(
    "../../../../docs/guides/frameworks/versions.md",
  );
});
