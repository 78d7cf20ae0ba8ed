import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OutputBudget } from "./output-budget.ts";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");

describe("OutputBudget", () => {
  it("returns everything that fits, in pieces of any size", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 }), (pieces) => {
        const budget = new OutputBudget(400);
        for (const piece of pieces) budget.add("stdout", piece);
        const { output, truncated } = budget.collect();
        expect(Buffer.from(output)).toEqual(Buffer.concat(pieces));
        expect(truncated).toBe(false);
      }),
    );
  });

  it("keeps the beginning and the end, and reports how much is missing between them", () => {
    const budget = new OutputBudget(10);
    budget.add("stdout", Buffer.from("abcdefg"));
    budget.add("stdout", Buffer.from("hijklmnop"));
    const { output, truncated } = budget.collect();
    expect(text(output)).toBe("abcde\n[… 6 bytes omitted …]\nlmnop");
    expect(truncated).toBe(true);
  });

  it("has the exact beginning and end, for all pieces and budgets", () => {
    const streams = fc.constantFrom("stdout" as const, "stderr" as const);
    const piece = fc.tuple(streams, fc.uint8Array({ maxLength: 30 }));
    fc.assert(
      fc.property(fc.array(piece), fc.integer({ min: 0, max: 60 }), (pieces, room) => {
        const budget = new OutputBudget(room);
        for (const [stream, bytes] of pieces) budget.add(stream, bytes);
        const all = Buffer.concat(pieces.map(([, bytes]) => bytes)).toString("latin1");
        const { output, truncated } = budget.collect();
        const text = Buffer.from(output).toString("latin1");
        expect(truncated).toBe(all.length > room);
        if (!truncated) expect(text).toBe(all);
        else {
          const [head = "", tail = ""] = text.split(/\n\[[^\]]*omitted[^\]]*\]\n/u);
          expect(all.startsWith(head)).toBe(true);
          expect(all.endsWith(tail)).toBe(true);
          expect(head.length + tail.length).toBeGreaterThanOrEqual(room - 6);
        }
      }),
    );
  });

  it("stores the output of one stream once, and of both streams separately", () => {
    const budget = new OutputBudget(10);
    for (const piece of ["abcdefg", "hijklmnop"]) budget.add("stderr", Buffer.from(piece));
    const one = budget.collect();
    expect(one.stderr).toBe(one.output);
    expect(text(one.stdout)).toBe("");
    budget.add("stdout", Buffer.from("x"));
    const both = budget.collect();
    expect(text(both.stderr)).toBe("abcde\n[… 7 bytes omitted …]\nmnop");
    expect(text(both.stdout)).toBe("\n[… 7 bytes omitted …]\nx");
  });

  it("never holds more than its budget", () => {
    const budget = new OutputBudget(100);
    for (let i = 0; i < 1000; i++) budget.add("stdout", Buffer.alloc(77, i));
    expect(budget.keptBytes).toBe(100);
  });

  it("counts the overhead of many tiny pieces of both streams, and keeps all of one stream's", () => {
    const alternating = new OutputBudget(1_000_000);
    for (let i = 0; i < 100_000; i++)
      alternating.add(i % 2 ? "stdout" : "stderr", Buffer.from("x"));
    expect(alternating.cost).toBeLessThanOrEqual(1_000_000);
    expect(alternating.keptBytes).toBeLessThan(20_000);
    expect(alternating.collect().truncated).toBe(true);
    const plain = new OutputBudget(200_000);
    for (let i = 0; i < 100_000; i++) plain.add("stdout", Buffer.from("x"));
    expect(plain.collect()).toMatchObject({ truncated: false });
    expect(plain.collect().output).toHaveLength(100_000);
  });

  it("splits stdout from stderr and keeps their order in the merged view", () => {
    const budget = new OutputBudget(100);
    budget.add("stdout", Buffer.from("1"));
    budget.add("stderr", Buffer.from("2"));
    budget.add("stdout", Buffer.from("3"));
    const { output, stdout, stderr } = budget.collect();
    expect([text(output), text(stdout), text(stderr)]).toEqual(["123", "13", "2"]);
  });

  it("splits between characters, not inside them", () => {
    const budget = new OutputBudget(7);
    budget.add("stdout", Buffer.from("€€€€€€"));
    const { output } = budget.collect();
    expect(text(output)).toBe("€\n[… 11 bytes omitted …]\n€");
  });

  it("copies what it keeps", () => {
    const budget = new OutputBudget(10);
    const bytes = Buffer.from("same");
    budget.add("stdout", bytes);
    bytes.fill(0);
    expect(text(budget.collect().output)).toBe("same");
  });
});
