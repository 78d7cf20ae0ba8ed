import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import type { ExecInfoBody } from "@sandkasten/protocol";
import type { ExecRow } from "../../../ports/session-store.ts";
import { outputPageBody } from "./output-page.ts";

const MIB = 1_048_576;

it("lets other work run while a large page that is not UTF-8 is converted", async () => {
  const chunks = Array.from({ length: 64 }, (_, seq) => ({
    stream: "stdout" as const,
    seq,
    offset: (seq * MIB) / 8,
    timestampMs: 0,
    bytes: randomBytes(MIB / 8),
  }));
  const page = { chunks, nextOffset: 8 * MIB, skippedBytes: 0 };
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    waiting = setImmediate(turn);
  };
  let waiting = setImmediate(turn);
  const info = {} as ExecInfoBody;
  const exec = {} as ExecRow;
  const body = await outputPageBody(0, { page, done: true, closed: true, exec }, info, true);
  clearImmediate(waiting);
  expect(turns).toBeGreaterThanOrEqual(6);
  const bytes = body.chunks.map((chunk) => Buffer.from(chunk.chunk_base64 ?? "", "base64"));
  expect(Buffer.concat(bytes).equals(Buffer.concat(chunks.map((chunk) => chunk.bytes)))).toBe(true);
});
