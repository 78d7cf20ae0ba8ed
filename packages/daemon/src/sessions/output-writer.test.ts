import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FileExecJournal } from "../journal/file-exec-journal.ts";
import type { JournalWriter } from "../ports/exec-journal.ts";
import { OutputWriter } from "./output-writer.ts";

let directory: string;
let journal: FileExecJournal;
let failure: Error | undefined;
let attempts: number;
let monotonicMs: number;
let output: OutputWriter;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-output-"));
  journal = await FileExecJournal.open({
    directory,
    maxBytesPerExec: 1 << 20,
    maxBytesPerSession: 1 << 20,
  });
  failure = undefined;
  attempts = 0;
  monotonicMs = 0;
  const clock = { bootId: "b", nowMs: () => 5, monotonicMs: () => monotonicMs };
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  output = new OutputWriter("e", openWriter, { clock, log });
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const FULL = new SandboxError("STORAGE_FULL", "the disk is full");

/** A writer that can be made to fail. */
async function openWriter(): Promise<JournalWriter> {
  const writer = await journal.write("s", "e");
  return new Proxy(writer, {
    get: (target, name) => {
      const own: unknown = Reflect.get(target, name, target);
      if (typeof own !== "function") return own;
      return async (...args: unknown[]): Promise<unknown> => {
        if (name === "append") attempts++;
        if (name === "append" && failure !== undefined) throw failure;
        return await (own as (...given: unknown[]) => Promise<unknown>).apply(target, args);
      };
    },
  });
}

function chunk(offset: number, text: string) {
  return { stream: "stdout" as const, seq: 0, offset, bytes: Buffer.from(text) };
}

async function kept(): Promise<{ text: string; skippedBytes: number }> {
  let text = "";
  let skippedBytes = 0;
  for (let cursor = 0; ;) {
    const page = await journal.read("s", "e", cursor, 1000);
    if (page.nextOffset === cursor) return { text, skippedBytes };
    for (const { bytes } of page.chunks) text += Buffer.from(bytes).toString();
    skippedBytes += page.skippedBytes;
    cursor = page.nextOffset;
  }
}

describe("output that cannot be written because the disk is full", () => {
  it("waits for space, and nothing is lost", async () => {
    await output.write(chunk(0, "one "));
    failure = FULL;
    const waiting = output.write(chunk(4, "two "));
    await expect.poll(() => attempts).toBeGreaterThan(2);
    failure = undefined;
    await waiting;
    await output.close();
    expect(await kept()).toEqual({ text: "one two ", skippedBytes: 0 });
    expect(output.counts).toEqual({ stdoutBytes: 8, stderrBytes: 0, droppedBytes: 0 });
  });

  it("is dropped after a while, counted, and followed by what is kept again", async () => {
    await output.write(chunk(0, "one "));
    failure = FULL;
    const waiting = output.write(chunk(4, "two "));
    await expect.poll(() => attempts).toBeGreaterThan(1);
    monotonicMs = 10_000;
    await waiting;
    await output.write(chunk(8, "three "));
    expect(output.counts.droppedBytes).toBe(10);
    failure = undefined;
    monotonicMs = 11_000;
    await output.write(chunk(14, "four"));
    await output.close();
    expect(await kept()).toEqual({ text: "one four", skippedBytes: 10 });
    expect(output.counts.droppedBytes).toBe(10);
  });

  it("no longer waits when it is stopped, and leaves the rest to another daemon", async () => {
    failure = FULL;
    const waiting = output.write(chunk(0, "one "));
    output.stop();
    await waiting;
    await output.release();
    failure = undefined;
    const next = await journal.write("s", "e");
    expect(next.endOffset).toBe(0);
    await next.close();
  });

  it("is a gap at the end if there is no space until then", async () => {
    await output.write(chunk(0, "one "));
    failure = new SandboxError("INTERNAL_ERROR", "the disk is broken");
    await output.write(chunk(4, "two"));
    await output.close();
    expect(output.counts.droppedBytes).toBe(3);
    expect(await kept()).toEqual({ text: "one ", skippedBytes: 3 });
  });
});
