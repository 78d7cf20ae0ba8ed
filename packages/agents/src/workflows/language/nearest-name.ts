/** Finds the known name that a mistyped one was probably meant to be. */

/** Longer names are compared by their beginning, so that the work stays small. */
const COMPARED_LENGTH = 64;

/** The closest of the names, or undefined when none resembles it. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const wanted = plain(name);
  let best: string | undefined;
  // A third of the letters may be wrong.
  let least = Math.max(1, Math.floor((wanted.length + 1) / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(wanted, plain(candidate));
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** `; did you mean …?` where something resembles it, else what there is. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const names = [...known];
  const nearest = nearestName(name, names);
  if (nearest !== undefined) return `; did you mean ${nearest}?`;
  return names.length === 0 ? "" : `; known are ${names.join(", ")}`;
}

/** Case, dashes and underscores are slips, not other names. */
function plain(name: string): string {
  return name
    .slice(0, COMPARED_LENGTH)
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one into the other. */
function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  const cost = (row: number, column: number): number => rows[row]?.[column] ?? Infinity;
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    rows.push(current);
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current.push(
        Math.min(
          cost(row - 1, column) + 1,
          cost(row, column - 1) + 1,
          cost(row - 1, column - 1) + (isSame ? 0 : 1),
          isSwap ? cost(row - 2, column - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return cost(from.length, to.length);
}
