import { describe, expect, it } from "vitest";
import { plainJson, plainProse, plainText } from "./plain-text.ts";

describe("plainText()", () => {
  it("does not change ordinary text of any language", () => {
    expect(plainText("Grüße, 世界! 🙂 a\\b")).toBe("Grüße, 世界! 🙂 a\\b");
  });

  it.each([
    ["\u001b[2J", "\\x1b[2J"],
    ["\u001b]0;title\u0007", "\\x1b]0;title\\x07"],
    ["a\nb\rc\td", "a\\nb\\rc\\td"],
    ["\u009b31m", "\\x9b31m"],
    ["\u007f", "\\x7f"],
    ["photo\u202Egpj.exe", "photo\\u{202e}gpj.exe"],
    ["a\u200bb", "a\\u{200b}b"],
    ["a\u2028b", "a\\u{2028}b"],
    ["\u{e0041}", "\\u{e0041}"],
    ["\ud800", "\\u{d800}"],
  ])("shows %j as %s", (hostile, shown) => {
    expect(plainText(hostile)).toBe(shown);
  });
});

describe("plainJson()", () => {
  it("escapes control characters and stays equivalent", () => {
    const value = { name: "\u001b[2J\u009b\u202e\u007f\u{e0041}\n" };
    const json = plainJson(value);
    expect(json).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(json)).toEqual(value);
  });

  it("keeps the line breaks of its own indentation", () => {
    expect(plainJson({ a: "1\n2" }, 2)).toBe('{\n  "a": "1\\n2"\n}');
  });
});

describe("plainProse()", () => {
  it("keeps line breaks, tabs and joined emoji, and no other control characters", () => {
    expect(plainProse("a\r\nb\tc 👩‍💻")).toBe("a\nb\tc 👩‍💻");
    expect(plainProse("\u001b]52;c;x\u0007\r\u202e\u009b")).toBe(
      "\\x1b]52;c;x\\x07\\r\\u{202e}\\x9b",
    );
  });
});
