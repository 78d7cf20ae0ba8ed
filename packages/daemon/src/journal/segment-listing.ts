/** Finds the segments of a command's output on the disk. */
import { readdir } from "node:fs/promises";
import { isMissing } from "./journal-failure.ts";
import { offsetInName } from "./segment-format.ts";

/** First offsets in ascending order; empty if there is no such directory. */
export async function listSegments(directory: string): Promise<readonly number[]> {
  const offsets = (await namesIn(directory)).map(offsetInName);
  return offsets.filter((offset) => offset !== undefined).sort((a, b) => a - b);
}

/** Names in a directory; empty if it does not exist. */
export async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
