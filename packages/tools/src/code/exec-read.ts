/** `sandbox_exec_read`: the output of a command in chunks, while it runs and after. */
import type { OutputChunk } from "@sandkasten/sdk";
import { z } from "zod";
import { sandboxFields, sandboxIdOf } from "../input-fields.ts";
import { budgetOf } from "../run-command.ts";
import { defineTool, type SandboxTool } from "../tool.ts";
import type { CodeSandbox } from "./code-sandbox.ts";

const input = z
  .strictObject({
    exec_id: z.string().min(1).max(128).describe("From sandbox_exec."),
    ...sandboxFields,
    since_seq: z
      .int()
      .min(0)
      .optional()
      .describe("Output after this seq; default: from the beginning."),
    max_chunks: z.int().min(1).max(1000).optional(),
    wait_seconds: z
      .number()
      .min(0)
      .max(60)
      .optional()
      .describe("How long to wait for output if there is none yet; default: 0."),
  })
  .transform((raw, context) => ({
    sandboxId: sandboxIdOf(context, raw),
    execId: raw.exec_id,
    sinceSeq: raw.since_seq ?? 0,
    maxChunks: raw.max_chunks ?? Number.POSITIVE_INFINITY,
    waitMs: Math.ceil((raw.wait_seconds ?? 0) * 1000),
  }));

const output = z.object({
  sandbox_id: z.string(),
  session_id: z.string(),
  exec_id: z.string(),
  chunks: z.array(
    z.object({ seq: z.number(), stream: z.enum(["stdout", "stderr"]), text: z.string() }),
  ),
  next_seq: z.number().describe("since_seq for the next call"),
  done: z.boolean().describe("The command has ended and all its output has been read"),
  status: z.enum(["completed", "running"]),
  exit_code: z.number().nullable().optional(),
  skipped_bytes: z.number().optional().describe("Output that is no longer kept"),
});

export type ExecReadOutput = z.output<typeof output>;

export function execReadTool(sandbox: CodeSandbox): SandboxTool<ExecReadOutput> {
  return defineTool({
    name: "sandbox_exec_read",
    description:
      "Read the output of a command: what was left out of a truncated result, or what a command started with stream: true has printed. Returns chunks and next_seq; pass next_seq as since_seq to read on, until done is true.",
    input,
    output,
    repeated: ["sandbox_id", "session_id", "exec_id"],
    onSandboxTime: sandbox.onSandboxTime,
    run: async ({ sandboxId, execId, sinceSeq, maxChunks, waitMs }, { signal }) =>
      await sandbox.use(sandboxId, signal, async (session) => {
        const page = await session.getExec(execId).read({
          cursor: sinceSeq,
          maxBytes: budgetOf(sandbox.outputCaps),
          ...(waitMs > 0 && { waitMs }),
          signal,
        });
        // A chunk without bytes represents the incomplete character at the end of a page.
        const chunks = page.chunks.filter(({ bytes }) => page.done || bytes.length > 0);
        const shown = chunks.slice(0, maxChunks);
        const isCut = shown.length < chunks.length;
        const isDone = page.done && !isCut;
        const { exec } = page;
        const isOver = exec.status === "done";
        return {
          sandbox_id: session.id,
          session_id: session.id,
          exec_id: execId,
          chunks: shown
            .filter(({ text }) => text !== "")
            .map((chunk) => ({ seq: endOf(chunk), stream: chunk.stream, text: chunk.text })),
          next_seq: isDone ? page.nextCursor : afterWholeCharacters(shown, page.nextCursor),
          done: isDone,
          status: isOver ? ("completed" as const) : ("running" as const),
          ...(isOver && { exit_code: exec.exitCode }),
          ...(page.skippedBytes > 0 && { skipped_bytes: page.skippedBytes }),
        };
      }),
  });
}

/** A chunk's number is the offset after it: reading can continue from there without other state. */
function endOf({ offset, bytes }: OutputChunk): number {
  return offset + bytes.length;
}

/** Where to continue, so that a character split in two is read completely the next time. */
function afterWholeCharacters(shown: readonly OutputChunk[], nextCursor: number): number {
  const last = shown.at(-1);
  return last === undefined ? nextCursor : endOf(last) - brokenTail(last.bytes);
}

/** How many bytes at the end belong to an incomplete character. */
function brokenTail(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < length ? back : 0;
  }
  return 0;
}
