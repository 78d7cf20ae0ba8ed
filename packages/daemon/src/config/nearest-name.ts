/** Finds the known name closest to a mistyped one. */

export interface Candidate {
  /** The text to compare the given name with. */
  readonly compared: string;
  /** The text to suggest. */
  readonly shown: string;
  /** Added to the distance, for names that belong elsewhere. */
  readonly penalty?: number;
}

/** The closest candidate, the first one on a tie. */
export function nearestName(name: string, candidates: readonly Candidate[]): string {
  let best = { shown: "", distance: Number.POSITIVE_INFINITY };
  for (const { compared, shown, penalty = 0 } of candidates) {
    const distance = editDistance(plain(name), plain(compared)) + penalty;
    if (distance < best.distance) best = { shown, distance };
  }
  return best.shown;
}

/** Names by their full form and, a little further away, by their last part alone. */
export function byWholeOrLastPart(
  names: readonly { readonly path: readonly string[]; readonly shown: string }[],
): Candidate[] {
  return names.flatMap(({ path, shown }) => [
    { compared: path.join("_"), shown },
    { compared: path.at(-1) ?? "", shown, penalty: 1 },
  ]);
}

/** camelCase, dashes and dots are typing variants, not different names. */
function plain(name: string): string {
  return name
    .slice(0, 128)
    .replace(/[^A-Za-z0-9]/g, "")
    .toLowerCase();
}

/** The number of letters to insert, remove, replace or swap with their neighbour. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
      );
      if (a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      }
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(costs: readonly number[], index: number): number {
  return costs[index] ?? Number.POSITIVE_INFINITY;
}
