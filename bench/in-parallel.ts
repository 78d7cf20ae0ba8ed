/** Processes many items, some at a time. */

const AT_A_TIME = 4;

/** Rejects with the first failure, after all started work has ended. */
export async function inParallel<T>(
  many: readonly T[],
  act: (one: T) => Promise<unknown>,
): Promise<void> {
  const left = many.values();
  const work = async (): Promise<void> => {
    for (const one of left) await act(one);
  };
  const ends = await Promise.allSettled(Array.from({ length: AT_A_TIME }, work));
  const failure = ends.find((end) => end.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}
