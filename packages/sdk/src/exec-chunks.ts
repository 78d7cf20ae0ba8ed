/** A command's output and end as one sequence, for a single loop. */
import type { ExecStream } from "./exec-stream.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { EndReason, OutputStream } from "./wire-names.ts";

interface ExecChunkFields {
  /** A piece of output; empty in the last element. */
  readonly output: string;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  /** true only in the last element, which reports how the command ended. */
  readonly done: boolean;
  /** Absent in the last element. */
  readonly stream?: OutputStream | undefined;
  readonly exitCode?: number | null | undefined;
  readonly endReason?: EndReason | null | undefined;
  readonly cwd?: string | undefined;
  readonly durationMs?: number | undefined;
}

/** A piece of a command's output, or its end. */
export type ExecChunk = WithSnakeNames<ExecChunkFields>;

export async function* execChunks(stream: ExecStream): AsyncGenerator<ExecChunk, void, undefined> {
  for await (const { text, timestamp, stream: name } of stream) {
    yield withSnakeNames({ output: text, timestamp, done: false, stream: name });
  }
  const { exitCode, endReason, cwd, durationMs } = await stream.result;
  yield withSnakeNames({
    output: "",
    timestamp: Date.now(),
    done: true,
    exitCode,
    endReason,
    cwd,
    durationMs,
  });
}
