import { describe, expect, it } from "vitest";
import { ExecIds, newSessionId } from "./ids.ts";

describe("ids of commands", () => {
  it("are ordered by creation, whatever the clock does", () => {
    const ids = new ExecIds();
    const times = [...Array<number>(5000).fill(1_790_000_000_000), 1_789_999_999_000];
    times.push(1_790_000_000_001, 1_790_000_000_500);
    const made = times.map((ms) => ids.next(ms));
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
    for (const id of made) expect(id).toMatch(/^exe_[0-9a-f]{24}$/);
  });
});

it("ids of sessions are random and never repeat, however many there are", () => {
  const made = Array.from({ length: 5000 }, newSessionId);
  for (const id of made) expect(id).toMatch(/^ses_[0-9a-f]{24}$/);
  // Neither whole ids nor parts of them: every byte is used once.
  for (const part of [(id: string) => id.slice(4, 16), (id: string) => id.slice(16)])
    expect(new Set(made.map(part)).size).toBe(made.length);
  expect(new Set(made.flatMap((id) => [id.slice(4, 16), id.slice(16)])).size).toBe(2 * made.length);
});
