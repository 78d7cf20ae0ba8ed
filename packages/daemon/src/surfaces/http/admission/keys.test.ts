import { timingSafeEqual } from "node:crypto";
import { describe, expect, it } from "vitest";
import { KeyRing } from "./keys.ts";

const caller = (owner: string) => ({
  owner,
  isAdmin: false,
  maxSessions: 1,
  maxRunningExecs: 1,
  maxWorkspaces: 1,
  maxImageBytes: 1,
});
const holders = [
  { key: "first-key", caller: caller("one") },
  { key: "another, longer key", caller: caller("two") },
  { key: "ключ", caller: caller("three") },
];

describe("a key ring", () => {
  it("identifies callers by their whole keys", () => {
    const keys = new KeyRing(holders);
    expect(holders.map(({ key }) => keys.find(key)?.owner)).toEqual(["one", "two", "three"]);
    for (const wrong of [
      "",
      "first-ke",
      "first-key ",
      "First-key",
      "first-key\0",
      "x".repeat(9000),
    ])
      expect(keys.find(wrong)).toBeUndefined();
  });

  it("compares digests of one length, and all of them, whichever key matches", () => {
    const compared: number[][] = [];
    const keys = new KeyRing(holders, (one, other) => {
      compared.push([one.length, other.length]);
      return timingSafeEqual(one, other);
    });
    for (const key of ["first-key", "ключ", "no key at all", ""]) {
      compared.length = 0;
      keys.find(key);
      expect(compared).toEqual([
        [32, 32],
        [32, 32],
        [32, 32],
      ]);
    }
  });

  it("refuses to have no keys, or an empty one", () => {
    expect(() => new KeyRing([])).toThrow(/at least one key/);
    expect(() => new KeyRing([...holders, { key: "", caller: caller("four") }])).toThrow(/empty/);
  });
});
