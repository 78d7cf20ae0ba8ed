/** Schemas of agents and workflows against hostile values of a caller or a model. */
import { expect, test } from "vitest";
import { ValueCheck } from "./value-check.ts";

const ofText = (pattern: string) => ({
  type: "object",
  properties: { text: { type: "string", pattern } },
});

test("a pattern that would take other engines years is fast", async () => {
  const check = await ValueCheck.compile(ofText("^(a+)+$"));
  expect(check.problem({ text: "a".repeat(100) })).toBeUndefined();
  expect(check.problem({ text: `${"a".repeat(10_000)}!` })).toBe(
    'text must match pattern "^(a+)+$"',
  );
  const names = await ValueCheck.compile({
    type: "object",
    patternProperties: { "^(a+)+$": { type: "string" } },
  });
  expect(names.problem({ [`${"a".repeat(10_000)}!`]: 1 })).toBeUndefined();
  expect(names.problem({ aaa: 1 })).toBe("aaa must be string");
});

test("patterns have the meaning of JSON Schema", async () => {
  const check = await ValueCheck.compile(ofText("^\\u00e9\\d{2,3}-[\\w/]+(?<rest>x|y)?$"));
  expect(check.problem({ text: "\u00e9123-a/bx" })).toBeUndefined();
  expect(check.problem({ text: "e123-a/bx" })).toMatch(/must match pattern/);
  expect((await ValueCheck.compile(ofText("b"))).problem({ text: "abc" })).toBeUndefined();
});

test("a pattern that cannot be matched in bounded time is refused when the file is read", async () => {
  for (const pattern of ["(?=a)b", "(a)\\1", "(a{1000}){1000}", "("])
    await expect(ValueCheck.compile(ofText(pattern))).rejects.toThrow(/pattern/);
});

test("only the first problem of a large value is reported, so describing it is cheap", async () => {
  const schema = { type: "array", items: { type: "string" } };
  const check = await ValueCheck.compile(schema);
  expect(check.problem([1, 2, 3])).toBe("0 must be string; 1 must be string; 2 must be string");
  expect(check.problem(Array.from({ length: 100_000 }, () => 1))).toBe("0 must be string");
});
