/** Does much of the same without doing all of it at once. */

/** A few, so one that hangs does not hold up the others. */
const AT_ONCE = 8;

/** Calls `work` for what `next` returns, until it returns undefined. */
export async function aFewAtOnce<T>(
  next: () => T | undefined,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const worker = async (): Promise<void> => {
    for (let item = next(); item !== undefined; item = next()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
