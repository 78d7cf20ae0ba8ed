import { describe, expect, it } from "vitest";
import { slowFirst } from "./slow-files-first.ts";

describe("slowFirst()", () => {
  it("moves slow files to the front of their project and leaves the rest in order", () => {
    const sorted = ["b/1", "b/2!", "b/3", "a/1", "a/2!", "a/3!"];
    const moved = slowFirst(
      sorted,
      (name) => name.charAt(0),
      (name) => name.endsWith("!"),
    );
    expect(moved).toEqual(["b/2!", "b/1", "b/3", "a/2!", "a/3!", "a/1"]);
  });
});
