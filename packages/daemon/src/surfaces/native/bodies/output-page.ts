/** Converts a page of a command's output to the API's format. */
import type { ExecInfoBody, OutputChunkBody, OutputPageBody } from "@sandkasten/protocol";
import type { OutputPage } from "../../../sessions/services/exec-service.ts";
import { TextChunks } from "./text-chunks.ts";

export function outputPageBody(
  cursor: number,
  { page, done, closed }: OutputPage,
  exec: ExecInfoBody,
  raw: boolean,
): OutputPageBody {
  const text = new TextChunks({ raw });
  const chunks: OutputChunkBody[] = [];
  let next = cursor;
  for (const chunk of page.chunks) {
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
