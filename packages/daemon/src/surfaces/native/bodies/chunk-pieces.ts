/** Splits output so that no line of an event stream is longer than common line readers accept. */
import type { JournalChunk } from "../../../ports/exec-journal.ts";

/** For ASCII text, in which almost no byte becomes more than two: a quarter of a long chunk. */
export const PLAIN_PIECE_BYTES = 32 * 1024;
/** For any bytes: as text each can become six, and base64 may come beside them. */
export const ANY_PIECE_BYTES = 8 * 1024;

/** The chunk itself if it is short enough. */
export function* piecesOf(chunk: JournalChunk, maxBytes: number): Generator<JournalChunk> {
  const { bytes, offset } = chunk;
  if (bytes.length <= maxBytes) {
    yield chunk;
    return;
  }
  for (let from = 0; from < bytes.length; from += maxBytes)
    yield { ...chunk, bytes: bytes.subarray(from, from + maxBytes), offset: offset + from };
}
