/** Turns the changes of a fake sandbox's files into an iterable. */
import { posix } from "node:path";
import type { FileChange } from "../ports.ts";
import { exactPath } from "./memory-path.ts";
import type { MemoryFiles } from "./memory-files.ts";

/** Watches from the call on; ends when the loop is left or the signal fires. */
export function followChanges(
  files: MemoryFiles,
  root: string,
  recursive: boolean,
  ends: AbortSignal,
): AsyncIterable<FileChange> {
  const changes: FileChange[] = [];
  let wake: () => void = () => undefined;
  const unwatch = files.watch((change) => {
    const path = exactPath(change);
    if (recursive ? !path.startsWith(`${root}/`) : posix.dirname(path) !== root) return;
    changes.push(change);
    wake();
  });
  ends.addEventListener("abort", () => wake(), { once: true });
  return {
    async *[Symbol.asyncIterator]() {
      try {
        for (;;) {
          const change = changes.shift();
          if (change !== undefined) yield change;
          else if (ends.aborted) return;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        unwatch();
      }
    },
  };
}
