import { describe, expect, it } from "vitest";
import { OutputLines } from "./output-lines.ts";

describe("OutputLines", () => {
  it("returns whole lines, in pieces of any size", () => {
    const lines = new OutputLines();
    expect(lines.push("a\nb")).toEqual(["a"]);
    expect(lines.push("c\n\nd")).toEqual(["bc", ""]);
    expect(lines.end()).toEqual(["d"]);
    expect(lines.end()).toEqual([]);
  });

  it("shows the last state of an overwritten line", () => {
    const lines = new OutputLines();
    expect(lines.push("10 %\r50 %\r")).toEqual([]);
    expect(lines.push("100 %\r\nnext\r\n")).toEqual(["100 %", "next"]);
  });

  it("does not buffer an endless line", () => {
    const lines = new OutputLines();
    const shown = lines.push("x".repeat(20_000));
    expect(shown.map(({ length }) => length)).toEqual([8192, 8192]);
    expect(lines.end()[0]).toHaveLength(20_000 - 2 * 8192);
  });
});
