/** Follows the changes of a directory, reconnecting as needed. */
import type { FileChangeBody } from "@sandkasten/protocol";
import { resumeEvents } from "./event-stream.ts";
import { type FileChange, toFileChange } from "./file-types.ts";
import type { Call, Transport } from "./transport.ts";

/**
 * The daemon does not store changes, so after a broken connection the caller gets an `overflow`:
 * changes may be missing.
 */
export async function* watchFiles(
  transport: Transport,
  call: Call,
  watchedPath: string,
): AsyncGenerator<FileChange, void, undefined> {
  const events = resumeEvents({
    open: () => transport.open(call),
    policy: transport.options,
    signal: call.signal,
    what: `watching ${watchedPath}`,
  });
  for await (const { type, data } of events) {
    if (type === "reconnected") yield { kind: "overflow", path: watchedPath };
    if (type === "change") yield toFileChange(data as FileChangeBody);
  }
}
