/** Matches paths against patterns: `*` and `?` stay within a segment, `**` spans segments. */

/**
 * SECURITY: patterns come from a model. Matching takes at most the product of both lengths, unlike
 * regular expressions, and there are no braces to expand. Guarded by glob.test.ts.
 */
export function matchesGlob(path: string, pattern: string): boolean {
  return matchesSegments(path.split("/"), pattern.replace(/^(?:\.?\/)+/, "").split("/"));
}

function matchesSegments(path: readonly string[], pattern: readonly string[]): boolean {
  return matches(path, pattern, (segment, part) => matchesSegment(segment, part), "**");
}

function matchesSegment(segment: string, pattern: string): boolean {
  const isSame = (a: string, b: string): boolean => b === "?" || a === b;
  return matches(segment.split(""), pattern.replace(/\*+/g, "*").split(""), isSame, "*");
}

/**
 * Matches one sequence against another in which `any` matches any run of items, by backtracking to
 * the last one.
 */
function matches(
  items: readonly string[],
  pattern: readonly string[],
  isSame: (item: string, part: string) => boolean,
  any: string,
): boolean {
  let item = 0;
  let part = 0;
  let lastAny = -1;
  let resumeAt = 0;
  while (item < items.length) {
    const wanted = pattern[part];
    if (wanted === any) {
      lastAny = part++;
      resumeAt = item;
    } else if (wanted !== undefined && isSame(items[item] ?? "", wanted)) {
      item += 1;
      part += 1;
    } else if (lastAny >= 0) {
      part = lastAny + 1;
      item = ++resumeAt;
    } else return false;
  }
  while (pattern[part] === any) part += 1;
  return part === pattern.length;
}
