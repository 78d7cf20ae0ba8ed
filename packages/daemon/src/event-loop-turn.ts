/** Shares the event loop between long synchronous work and everything else. */

/** How long such work may take in one turn of the event loop, all of it together. */
const TURN_MS = 5;
/** How many waiting pieces may run in one turn if they are short. */
const MAX_RESUMED = 256;

/** When the current turn's work began; undefined if there was none yet. */
let startedMs: number | undefined;
const waiting: (() => void)[] = [];

/**
 * Resolves when a further piece of synchronous work may run: at once while this turn has time left,
 * otherwise in a later turn, in order of the calls.
 *
 * SECURITY: clients determine how much there is of some work, such as the entries of an image; without
 * pauses it would stall other clients, and so would many such requests at once (threat: oversized
 * requests). Guarded by event-loop-turn.test.ts and image-stalls.test.ts.
 */
export async function ownTurn(): Promise<void> {
  if (startedMs === undefined && waiting.length === 0) {
    startedMs = performance.now();
    setImmediate(endTurn);
    return;
  }
  // A piece that was allowed to run just before this one takes its time first.
  await Promise.resolve();
  if (startedMs === undefined || performance.now() - startedMs >= TURN_MS)
    await new Promise<void>((resolve) => waiting.push(resolve));
}

function endTurn(): void {
  startedMs = undefined;
  if (waiting.length === 0) return;
  // They run in one turn, each after all that the one before it has resumed.
  setImmediate(beginTurn);
  for (let further = Math.min(waiting.length, MAX_RESUMED) - 1; further > 0; further -= 1)
    setImmediate(resumeNext);
  setImmediate(endTurn);
}

/** However little time is left, one piece runs in each turn. */
function beginTurn(): void {
  startedMs = performance.now();
  waiting.shift()?.();
}

function resumeNext(): void {
  if (startedMs !== undefined && performance.now() - startedMs < TURN_MS) waiting.shift()?.();
}
