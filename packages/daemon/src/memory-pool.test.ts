import { describe, expect, it } from "vitest";
import { MemoryPool } from "./memory-pool.ts";

describe("a pool of memory", () => {
  it("uses a block again only once it was given back", () => {
    const pool = new MemoryPool(16);
    const [first, second] = [pool.take(), pool.take()];
    expect(first.buffer).not.toBe(second.buffer);
    expect(first).toHaveLength(16);
    pool.giveBack(first);
    expect(pool.take()).toBe(first);
    expect([first, second]).not.toContain(pool.take());
  });

  it("keeps a bounded number of free blocks", () => {
    const pool = new MemoryPool(16);
    const blocks = Array.from({ length: 20 }, () => pool.take());
    for (const block of blocks) pool.giveBack(block);
    const again = Array.from({ length: 20 }, () => pool.take());
    expect(again.filter((block) => blocks.includes(block))).toHaveLength(4);
  });
});
