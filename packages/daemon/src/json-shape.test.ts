import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonShape, MAX_JSON_DEPTH } from "./json-shape.ts";

const maxValues = 10_000;
const refused = (problem: string): Error => new Error(`the text ${problem}`);

/** Complete, and in pieces of every small size. */
function check(text: string): void {
  const bytes = Buffer.from(text);
  for (const size of [bytes.length, 1, 2, 3, 7]) {
    const shape = new JsonShape({ maxValues, refused });
    for (let at = 0; at < bytes.length; at += size) shape.add(bytes.subarray(at, at + size));
  }
}

describe("the shape of JSON", () => {
  it("accepts all output of JSON.stringify, within its limits", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: "grapheme" }), (value) => {
        const text = JSON.stringify(value);
        if (text.includes("__proto__")) return;
        check(text);
        check(JSON.stringify(value, undefined, 2));
      }),
    );
  });

  it.each([
    ['{"a":1,"a":1}', "a"],
    [String.raw`{"a":1,"\u0061":2}`, "a"],
    ['{"x":{"b":1,"c":[{"b":1}],"b":2}}', "b"],
    ['[{"a":{}, "a":{}}]', "a"],
    [String.raw`{"q\"":1,"q\"":2}`, 'q\\"'],
  ])("refuses a name that occurs twice in an object: %s", (text, name) => {
    expect(() => check(text)).toThrow(`has the field "${name}" twice`);
  });

  it.each([
    '{"a":{"a":{"a":1}}}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":"a"}',
    String.raw`{"a":"\",\"a\":","b":1}`,
  ])("accepts a repeated name in another object, and repeated strings: %s", (text) => {
    expect(() => check(text)).not.toThrow();
  });

  it("refuses a prototype, however it is written", () => {
    for (const name of ["__proto__", String.raw`\u005f_proto__`])
      expect(() => check(`{"a":{"${name}":{}}}`)).toThrow("`__proto__`");
  });

  it("has limits for depth and number, which the error names", () => {
    const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);
    check(nested(MAX_JSON_DEPTH));
    expect(() => check(nested(MAX_JSON_DEPTH + 1))).toThrow("nested more than");
    const list = (length: number): string => `[${"1,".repeat(length - 1)}1]`;
    check(list(maxValues));
    expect(() => check(list(maxValues + 2))).toThrow("more than");
  });

  it("refuses names with escapes that JSON does not have", () => {
    expect(() => check(String.raw`{"\q":1}`)).toThrow("the text is not valid JSON");
  });
});
