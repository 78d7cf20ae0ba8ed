import { describe, expect, it } from "vitest";
import { ExecIds } from "./ids.ts";

describe("ids of commands", () => {
  it("are in the order in which they were made, whatever the clock does", () => {
    const ids = new ExecIds();
    const times = [...Array<number>(5000).fill(1_790_000_000_000), 1_789_999_999_000];
    times.push(1_790_000_000_001, 1_790_000_000_500);
    const made = times.map((ms) => ids.next(ms));
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
    for (const id of made) expect(id).toMatch(/^exe_[0-9a-f]{24}$/);
  });
});
