/** Assembles pieces of output into lines, as a terminal would show them. */

/** A longer line is shown in parts of this length, to bound memory. */
const LONGEST = 8192;

export class OutputLines {
  #rest = "";

  /** The lines that the piece completes. */
  push(text: string): readonly string[] {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    while (this.#rest.length > LONGEST) {
      lines.push(this.#rest.slice(0, LONGEST));
      this.#rest = this.#rest.slice(LONGEST);
    }
    return lines.map(asShown);
  }

  /** The incomplete last line. */
  end(): readonly string[] {
    const rest = this.#rest;
    this.#rest = "";
    return rest === "" ? [] : [asShown(rest)];
  }
}

/** Progress bars overwrite their line with CR: only its last state counts. */
function asShown(line: string): string {
  const states = line.split("\r");
  return states.findLast((state) => state !== "") ?? "";
}
