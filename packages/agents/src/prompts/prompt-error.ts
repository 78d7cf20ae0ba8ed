/** What is wrong with an agent's file, and where. */

export interface Place {
  /** Both start at 1. */
  readonly line: number;
  readonly column: number;
}

/** The message reads `FILE:LINE:COLUMN: what is wrong and what to do`. */
export class PromptError extends Error {
  override readonly name = "PromptError";
  readonly file: string;
  readonly place: Place;

  constructor(file: string, place: Place, problem: string, options?: { readonly cause?: unknown }) {
    super(`${file}:${place.line}:${place.column}: ${problem}`, options);
    this.file = file;
    this.place = place;
  }
}
