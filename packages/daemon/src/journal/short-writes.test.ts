import { expect, it } from "vitest";
import { SHORT_CHUNK_BYTES, ShortWrites } from "./short-writes.ts";

it("accepts only short chunks", () => {
  const writes = new ShortWrites(() => 0);
  expect([1, SHORT_CHUNK_BYTES, SHORT_CHUNK_BYTES + 1].map((bytes) => writes.takes(bytes))).toEqual(
    [true, true, false],
  );
});

it("accepts nothing for five seconds after a slow write, failed or not", () => {
  let nowMs = 0;
  const writes = new ShortWrites(() => nowMs);
  const taking = (ms: number, fails = false): void => {
    nowMs += ms;
    if (fails) throw new Error("disk");
  };
  writes.write(() => taking(25));
  expect(writes.takes(1)).toBe(true);
  writes.write(() => taking(26));
  expect(writes.takes(1)).toBe(false);
  nowMs += 4999;
  expect(writes.takes(1)).toBe(false);
  nowMs += 1;
  expect(writes.takes(1)).toBe(true);
  expect(() => writes.write(() => taking(26, true))).toThrow("disk");
  expect(writes.takes(1)).toBe(false);
});
