import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonParts, toJson } from "./large-json.ts";

const whole = (value: unknown): string => [...jsonParts(value)].join("");

describe("JSON in parts", () => {
  it("is the same as the output of JSON.stringify", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
        expect(whole(value)).toBe(JSON.stringify(value));
      }),
    );
    expect(whole({ a: undefined, b: [], c: {} })).toBe('{"b":[],"c":{}}');
  });

  it("splits no character, and has no long part", () => {
    for (const text of ["\u{1f600}".repeat(100_000), `x${"\u{1f600}".repeat(100_000)}`, "\ud800x"])
      expect(whole({ text })).toBe(JSON.stringify({ text }));
    const lengths = [...jsonParts("\u0001".repeat(1_000_000))].map(({ length }) => length);
    expect(Math.max(...lengths)).toBeLessThan(500_000);
  });

  it("is a string if it is small", () => {
    expect(toJson({ a: "x".repeat(1000) })).toBe(JSON.stringify({ a: "x".repeat(1000) }));
  });
});
