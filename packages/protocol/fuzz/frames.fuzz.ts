/**
 * Fuzzes the frame decoder for a given time: `node packages/protocol/fuzz/frames.fuzz.ts [seconds] [seed]`.
 * Mutates golden frames and pushes them in random portions; anything but frames or a `ProtocolError`,
 * a buffer beyond one frame, or memory that keeps growing, ends it with exit code 1.
 */
import { readFileSync } from "node:fs";
import {
  decodeCredit,
  decodeJsonObject,
  decodeOutputHead,
  FRAME_HEADER_BYTES,
  FrameDecoder,
  FrameType,
  MAX_PAYLOAD_BYTES,
  ProtocolError,
} from "../src/index.ts";
import type { Frame } from "../src/index.ts";

const MAX_HEAP_GROWTH_BYTES = 96 * 1024 * 1024;

/** A small deterministic generator (xorshift), so a finding can be replayed by its seed. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

function mutate(frame: Buffer, random: (below: number) => number): Buffer {
  const bytes = Buffer.from(frame);
  const changes = random(4);
  for (let i = 0; i < changes && bytes.byteLength > 0; i++)
    bytes[random(bytes.byteLength)] = random(256);
  if (random(5) === 0) return bytes.subarray(0, random(bytes.byteLength + 1));
  return bytes;
}

function read(frame: Frame): void {
  if (frame.type === FrameType.output) decodeOutputHead(frame.payload);
  else if (frame.type === FrameType.credit) decodeCredit(frame.payload);
  else if (frame.type <= FrameType.event) decodeJsonObject(frame.payload);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

const seconds = Number(process.argv[2] ?? 60);
const seed = Number(process.argv[3] ?? Date.now() % 0xffff_ffff);
const random = randomNumbers(seed);
const golden = JSON.parse(
  readFileSync(new URL("../fixtures/frames.json", import.meta.url), "utf8"),
) as {
  valid: { hex: string }[];
  invalid: { hex: string }[];
};
const corpus = [...golden.valid, ...golden.invalid].map((f) => Buffer.from(f.hex, "hex"));
const heapAtStart = process.memoryUsage().rss;
const until = performance.now() + seconds * 1000;
const counts = { cases: 0, frames: 0, refused: 0 };

say(`fuzzing the frame decoder for ${String(seconds)} s with seed ${String(seed)}`);
while (performance.now() < until) {
  const decoder = new FrameDecoder();
  const input = Buffer.concat(
    Array.from({ length: 1 + random(12) }, () =>
      mutate(corpus[random(corpus.length)] ?? Buffer.alloc(0), random),
    ),
  );
  let at = 0;
  try {
    while (at < input.byteLength) {
      const end = at + 1 + random(random(2) === 0 ? 8 : 400);
      decoder.push(input.subarray(at, end), (frame) => {
        counts.frames++;
        read(frame);
      });
      at = end;
      if (decoder.bufferedBytes > FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES)
        throw new Error("the decoder holds more than one frame");
    }
  } catch (error) {
    if (!(error instanceof ProtocolError)) {
      say(
        `finding with seed ${String(seed)}, case ${String(counts.cases)}, input ${input.toString("hex")}`,
      );
      throw error;
    }
    counts.refused++;
  }
  counts.cases++;
}
const growth = process.memoryUsage().rss - heapAtStart;
say(
  `${String(counts.cases)} cases, ${String(counts.frames)} frames, ${String(counts.refused)} refused, memory ${String(growth >> 20)} MiB`,
);
if (growth > MAX_HEAP_GROWTH_BYTES) throw new Error(`memory grew by ${String(growth >> 20)} MiB`);
