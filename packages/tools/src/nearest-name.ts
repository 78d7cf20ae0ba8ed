/** Finds the known name that is nearest to a mistyped one. */

/**
 * The nearest name and the number of differing letters; the first one if several are equally near.
 */
export function nearestName(
  name: string,
  names: readonly string[],
): { readonly name: string; readonly distance: number } | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of names) {
    const distance = editDistance(plain(name), plain(candidate));
    if (best === undefined || distance < best.distance) best = { name: candidate, distance };
  }
  return best;
}

/** camelCase and dashes are typos, not different names. */
function plain(name: string): string {
  return name
    .slice(0, 128)
    .replace(/[^A-Za-z0-9]/g, "")
    .toLowerCase();
}

/** How many letters must be inserted, removed or replaced. */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [row, letter] of a.split("").entries()) {
    const current = [row + 1];
    for (let column = 1; column <= b.length; column++) {
      const cost = letter === b[column - 1] ? 0 : 1;
      current.push(
        Math.min(
          (above[column] ?? 0) + 1,
          (current[column - 1] ?? 0) + 1,
          (above[column - 1] ?? 0) + cost,
        ),
      );
    }
    above = current;
  }
  return above[b.length] ?? 0;
}
