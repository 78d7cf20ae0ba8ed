/** Suggests a known name for a mistyped one. */
import { nearestName } from "@sandkasten/tools";

/** `; did you mean …?` if something resembles it, otherwise the available names. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const names = [...known];
  const suggestion = suggestedName(name, names);
  if (suggestion !== undefined) return `; did you mean ${suggestion}?`;
  return names.length === 0 ? "" : `; known are ${names.join(", ")}`;
}

/** The nearest name, or undefined if none resembles it. */
export function suggestedName(name: string, names: readonly string[]): string | undefined {
  const nearest = nearestName(name, names);
  // Two typos in a short word, a third of the letters in a long one.
  const most = name.length < 4 ? 1 : Math.max(2, Math.floor(name.length / 3));
  return nearest !== undefined && nearest.distance <= most ? nearest.name : undefined;
}
