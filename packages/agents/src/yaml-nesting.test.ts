/** Files of agents and workflows that would keep the parser busy. */
import { expect, test } from "vitest";
import { parsePrompt } from "./prompts/parse-prompt.ts";
import { compileWorkflow } from "./workflows/language/compile.ts";
import { tooDeepAt } from "./yaml-nesting.ts";

test.each(["[".repeat(250_000), "[a,".repeat(80_000), "{".repeat(250_000), "- ".repeat(120_000)])(
  "endless nesting is refused before it is parsed (%#)",
  async (nesting) => {
    const message = "nested more than 200 levels deep";
    await expect(
      parsePrompt("agents/a.prompt", `---\nmodel:\n  ${nesting}\n---\nHi`),
    ).rejects.toThrow(message);
    const { problems } = compileWorkflow(`steps:\n  ${nesting}`, "a");
    expect(problems).toMatchObject([
      { line: 2, message: expect.stringContaining(message) as string },
    ]);
  },
);

test("the position of the first bracket that is too deep is reported", () => {
  expect(tooDeepAt(`a:\n  ${"[".repeat(201)}`)).toEqual({ line: 2, column: 203 });
});

test("long lists, brackets in texts and consecutive lists are not deep", () => {
  expect(tooDeepAt("a: [1, 2]\n".repeat(10_000))).toBeUndefined();
  expect(tooDeepAt("text: |\n  } ] - - :-[ {\n".repeat(100))).toBeUndefined();
  expect(tooDeepAt("- a\n".repeat(10_000))).toBeUndefined();
  expect(tooDeepAt("[".repeat(200))).toBeUndefined();
});
