import { INITIAL_CREDIT_BYTES, OUTPUT_HEAD_BYTES } from "@sandkasten/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PayloadQueue } from "./payload-queue.ts";

describe("PayloadQueue", () => {
  it("returns every payload in order, whatever its size and however reads and writes alternate", () => {
    const step = fc.oneof(
      fc.nat(100).map((n) => n),
      fc.nat(40_000),
      fc.constant(-1),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new PayloadQueue();
        const model: Buffer[] = [];
        for (const [i, size] of steps.entries()) {
          if (size >= 0) {
            const payload = Buffer.alloc(size, i);
            queue.push(payload);
            model.push(payload);
          } else {
            const expected = model.shift();
            expect(
              queue.shift()?.equals(expected ?? Buffer.alloc(0)) ?? expected === undefined,
            ).toBe(true);
          }
        }
        for (const expected of model) expect(queue.shift()?.equals(expected)).toBe(true);
        expect([queue.shift(), queue.empty]).toEqual([undefined, true]);
      }),
    );
  });

  it("leaves the last returned payload unchanged, whatever arrives meanwhile", () => {
    const sizes = fc.array(fc.nat(3_000), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(fc.array(sizes, { maxLength: 30 }), fc.boolean(), (rounds, clears) => {
        const queue = new PayloadQueue();
        for (const [i, round] of rounds.entries()) {
          queue.push(Buffer.alloc(500, i));
          const held = queue.shift();
          const copy = Buffer.from(held ?? []);
          if (clears) queue.clear();
          for (const size of round) queue.push(Buffer.alloc(size, 255));
          expect(held?.equals(copy)).toBe(true);
          while (queue.shift() !== undefined);
        }
      }),
    );
  });

  it("reuses its memory", () => {
    const queue = new PayloadQueue();
    const payload = Buffer.alloc(OUTPUT_HEAD_BYTES + INITIAL_CREDIT_BYTES / 2);
    const memories: unknown[] = [];
    queue.push(payload);
    for (let i = 0; i < 100; i++) {
      queue.push(payload);
      memories.push(queue.shift()?.buffer);
    }
    expect(new Set(memories.slice(10)).size).toBe(1);
  });

  it("holds a window of one-byte frames in a few megabytes", () => {
    const queue = new PayloadQueue();
    const payload = Buffer.alloc(OUTPUT_HEAD_BYTES + 1);
    for (let i = 0; i < INITIAL_CREDIT_BYTES; i++) queue.push(payload);
    expect(queue.heldBytes).toBeLessThan(8 * 1024 * 1024);
  });

  it("does not keep a large chunk alive for a small part of it", () => {
    const queue = new PayloadQueue();
    const chunk = Buffer.alloc(65_536);
    queue.push(chunk.subarray(0, 100));
    expect(queue.shift()?.buffer.byteLength).toBeLessThan(4_096);
  });
});
