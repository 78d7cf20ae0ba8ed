/** Standard input and output as ends of a copy. */
import type { HostInput } from "../host.ts";
import type { Sink } from "../output/sink.ts";
import type { CopySource, CopyTarget } from "./endpoint.ts";

export function inputSource(stdin: HostInput): CopySource {
  const read = (): AsyncIterable<Uint8Array> => stdin as AsyncIterable<Uint8Array>;
  return {
    shown: "-",
    look: () => Promise.resolve({ kind: "file", name: "" }),
    readFile: read,
    readTree: read,
  };
}

/** A directory is written as a tar archive. */
export function outputTarget(out: Sink): CopyTarget {
  const write = async (content: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const bytes of content) await out.write(bytes);
  };
  return {
    place: () => Promise.resolve({ shown: "-", writeFile: write, writeTree: write }),
  };
}
