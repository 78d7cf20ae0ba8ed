/** Limits how long the service waits for the daemon. */

/** Rejects if the work takes longer; the work itself continues. */
export async function withDaemonTimeout<Result>(
  ms: number,
  work: Promise<Result>,
): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`the daemon took longer than ${ms / 1000} s`)),
    ms,
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
