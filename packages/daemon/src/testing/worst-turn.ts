/** Measures how long work keeps the event loop from anything else. */
import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * The longest turn of the event loop until the work is done, in milliseconds of this thread's processor
 * time, which other processes do not add to.
 */
export async function worstTurnMs(doing: Promise<unknown>): Promise<number> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  doing.then(end, end);
  let worst = 0;
  let before = process.threadCpuUsage();
  while (!isOver) {
    await nextTurn();
    const { user, system } = process.threadCpuUsage(before);
    worst = Math.max(worst, user + system);
    before = process.threadCpuUsage();
  }
  await doing;
  return worst / 1000;
}
