import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ownTurn } from "./event-loop-turn.ts";

function busyFor(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}

/** Works in pieces, and notes the turns of the event loop in which they ran. */
async function work(pieces: number, turnOf: () => number, pieceMs: number): Promise<number[]> {
  const turns: number[] = [];
  for (let piece = 0; piece < pieces; piece += 1) {
    await ownTurn();
    turns.push(turnOf());
    busyFor(pieceMs);
  }
  return turns;
}

/** Counts turns of the event loop while something is done. */
async function counting<T>(doing: (turnOf: () => number) => Promise<T>): Promise<T> {
  let turn = 0;
  let isOver = false;
  const counted = (async () => {
    while (!isOver) {
      await nextTurn();
      turn += 1;
    }
  })();
  const result = await doing(() => turn);
  isOver = true;
  await counted;
  return result;
}

describe("long work", () => {
  it("shares each turn of the event loop with other work, however much there is at once", async () => {
    const all = await counting(async (turnOf) =>
      Promise.all(Array.from({ length: 5 }, () => work(10, turnOf, 6))),
    );
    const turns = all.flat();
    // Each piece takes a whole turn.
    expect(new Set(turns).size).toBe(turns.length);
    // None waits until another has finished.
    for (const [first = 0] of all) expect(first).toBeLessThan(10);
  });

  it("does many small pieces in one turn", async () => {
    const turns = await counting(async (turnOf) => await work(1_000, turnOf, 0));
    expect(new Set(turns).size).toBeLessThan(100);
  });
});
