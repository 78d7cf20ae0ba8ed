/** Makes whole lines of output that comes in pieces, as a terminal would show them. */

/** A line without an end is shown in parts of this length, so that memory stays bounded. */
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

  /** What is left when nothing more comes. */
  end(): readonly string[] {
    const rest = this.#rest;
    this.#rest = "";
    return rest === "" ? [] : [asShown(rest)];
  }
}

/** Progress bars write over their line with CR: only the last state of it counts. */
function asShown(line: string): string {
  const states = line.split("\r");
  return states.findLast((state) => state !== "") ?? "";
}
