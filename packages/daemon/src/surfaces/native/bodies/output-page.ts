/** Converts a page of a command's output to the API's format. */
import type { ExecInfoBody, OutputChunkBody, OutputPageBody } from "@sandkasten/protocol";
import type { OutputPage } from "../../../sessions/services/exec-service.ts";
import { TextChunks } from "./text-chunks.ts";

/** Replacing invalid UTF-8 is slow, so other work gets its turn after this many bytes. */
const BYTES_PER_TURN = 1_048_576;

/** SECURITY: a page of 8 MiB may not hold up other requests. Guarded by output-page.test.ts. */
export async function outputPageBody(
  cursor: number,
  { page, done, closed }: OutputPage,
  exec: ExecInfoBody,
  raw: boolean,
): Promise<OutputPageBody> {
  const text = new TextChunks({ raw });
  const chunks: OutputChunkBody[] = [];
  let next = cursor;
  let bytes = 0;
  for (const chunk of page.chunks) {
    bytes += chunk.bytes.byteLength;
    if (bytes > BYTES_PER_TURN) {
      bytes = 0;
      await new Promise(setImmediate);
    }
    const added = text.add(chunk);
    if (added === undefined) continue;
    chunks.push(added.body);
    next = added.cursor;
  }
  // A character cut by the page's end starts the next page, unless that would be the same page
  // again.
  const whole = done || chunks.length === 0 || next <= cursor;
  if (whole) for (const { body } of text.flush()) chunks.push(body);
  return {
    exec_id: exec.exec_id,
    cursor,
    next_cursor: whole || raw ? page.nextOffset : next,
    chunks,
    skipped_bytes: page.skippedBytes,
    done,
    closed,
    exec,
  };
}
