import { describe, expect, it } from "vitest";
import { nearestName } from "./nearest-name.ts";

const known = (...names: string[]) => names.map((name) => ({ compared: name, shown: name }));

describe("nearestName()", () => {
  it.each([
    ["lisetn", "listen"],
    ["listn", "listen"],
    ["listenn", "listen"],
    ["apiKey", "api_key"],
    ["API-KEY", "api_key"],
    ["api_keyz", "api_key"],
    ["", "pool"],
  ])("corrects %j to %s", (name, expected) => {
    expect(nearestName(name, known("pool", "listen", "api_key", "api_keys"))).toBe(expected);
  });

  it("counts two swapped letters as one mistake", () => {
    expect(nearestName("ab", known("cb", "ba"))).toBe("cb");
    expect(nearestName("abcd", known("xycd", "bacd"))).toBe("bacd");
  });

  it("prefers a name in the same group", () => {
    const elsewhere = { compared: "size", shown: "a.size", penalty: 1 };
    expect(nearestName("sise", [elsewhere, ...known("side")])).toBe("side");
    expect(nearestName("size", [...known("sixty"), elsewhere])).toBe("a.size");
  });
});
