/** What the program `emit` prints, computed here. */
import { createHash } from "node:crypto";

export function emittedBytes(bytes: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(bytes / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, bytes);
}

export function digestOfEmitted(bytes: number, seed: number): string {
  return createHash("sha256").update(emittedBytes(bytes, seed)).digest("hex");
}
