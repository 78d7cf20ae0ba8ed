import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Cursors } from "./cursors.ts";

const cursors = new Cursors(Buffer.alloc(16, "k"));

describe("a cursor", () => {
  it("resolves to its position", () => {
    for (const position of [0, 1, 255, 2 ** 32, Number.MAX_SAFE_INTEGER])
      expect(cursors.decode(cursors.encode(position))).toBe(position);
  });

  it("does not reveal how far apart two events are", () => {
    const [one, next] = [cursors.encode(1000), cursors.encode(1001)].map((cursor) =>
      Buffer.from(cursor, "base64url"),
    );
    const same = [...(one ?? [])].filter((byte, at) => byte === next?.[at]).length;
    expect(same).toBeLessThan(4);
  });

  it("cannot be forged, changed, or written in a second way", () => {
    const genuine = cursors.encode(7);
    const forged = [
      "",
      "7",
      "AAAAAAAAAAAAAAAAAAAAAA",
      genuine.toUpperCase(),
      `${genuine}A`,
      `${genuine}==`,
      genuine.replace(/.$/, (last) => String.fromCharCode(last.charCodeAt(0) + 1)),
      new Cursors(Buffer.alloc(16, "other")).encode(7),
      ...Array.from({ length: 200 }, () => randomBytes(16).toString("base64url")),
    ];
    for (const cursor of forged)
      expect([cursor, cursors.decode(cursor)]).toEqual([cursor, undefined]);
  });
});
