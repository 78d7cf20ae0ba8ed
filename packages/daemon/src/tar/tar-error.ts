/** What is wrong with an archive. Callers say whose archive it is. */

export class TarError extends Error {
  override readonly name = "TarError";
  /** Completes a sentence that begins with "The archive". */
  readonly problem: string;
  /** What to do about it, as a sentence. */
  readonly advice: string | undefined;

  constructor(problem: string, { advice, cause }: { advice?: string; cause?: unknown } = {}) {
    super(`The archive ${problem}.`, { cause });
    this.problem = problem;
    this.advice = advice;
  }
}

export function truncated(): TarError {
  return new TarError("is truncated", { advice: "Create or download it again." });
}

export function sparseRefused(): TarError {
  return new TarError("contains sparse files in an unsupported format", {
    advice: "Create it without --sparse.",
  });
}
