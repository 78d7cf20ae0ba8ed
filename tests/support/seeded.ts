/** Random choices that a seed repeats. */

/** Numbers from 0 to 1, always the same for a seed. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** A generator per name, so one test's choices do not depend on another's. */
export function randomFor(seed: number, name: string): () => number {
  let hash = seed;
  for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0)!, 16_777_619);
  const random = seededRandom(hash);
  // The first numbers of similar seeds are close to one another.
  for (let i = 0; i < 8; i++) random();
  return random;
}

/** This many of them, each equally likely, in their original order. */
export function pick<T>(all: readonly T[], count: number, random: () => number): T[] {
  const drawn = all.map((_, index) => ({ index, at: random() }));
  const kept = drawn.toSorted((a, b) => a.at - b.at).slice(0, count);
  const indices = new Set(kept.map(({ index }) => index));
  return all.filter((_, index) => indices.has(index));
}
