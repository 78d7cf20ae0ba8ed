/** 1 GB of stdout: its throughput, and the memory growth of the processes that pass it on. */
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Channel } from "@sandkasten/daemon";
import type { ExecInfoBody } from "@sandkasten/protocol";
import type { BenchDaemon } from "../bench-daemon.ts";
import { MIB, run } from "../bench-machine.ts";
import type { BenchSession } from "../bench-session.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import { collectGarbage, peakRssDuring, rssBytes } from "../process-memory.ts";
import type { Series } from "../series.ts";

/** As programs print them: text, and a line end that JSON has to escape. */
const LINE = "one of very many lines, each of them sixty-four bytes in length";
/** The last event of a stream fits into this. */
const TAIL_BYTES = 65_536;
const WARM_UP_COMMANDS = 20;

export const stdoutFlood: Scenario = {
  name: "1 GB stdout",
  what: "read as it comes, beside the same command's pipe read by Node on the host",
  run: measure,
};

interface Flood {
  readonly bytes: number;
  readonly text: string;
}

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress } = context;
  const scenario = stdoutFlood.name;
  const bytesMoved = context.quick ? 256 * MIB : 1024 * MIB;
  const flood: Flood = { bytes: bytesMoved, text: `yes '${LINE}' | head -c ${bytesMoved}` };
  await using daemon = await context.startDaemon();
  const session = await daemon.open();
  for (let done = 0; done < WARM_UP_COMMANDS; done++) await session.exec("true");
  const sandbox = await machine.create();
  const growth = new Map<string, number[]>();
  const here: Watched = { pid: process.pid, settle: () => Promise.resolve(collectGarbage()) };
  const there: Watched = { pid: daemon.pid, settle: () => daemon.collectGarbage() };
  const watched = (name: string, who: Watched, act: () => Promise<void>): Contestant => {
    const samples: number[] = [];
    growth.set(`growth of RSS, ${name}`, samples);
    return () => timeWatched(who, act, samples);
  };
  const series = await interleave(
    {
      "host pipe": watched("host pipe", here, () => readOnHost(flood)),
      channel: watched("channel", here, () => readChannel(sandbox.channel, flood)),
      "HTTP, streamed": watched("HTTP, streamed", there, () => readEvents(daemon, session, flood)),
      "HTTP, collected": watched("HTTP, collected", there, () => runCollected(session, flood)),
    },
    {
      scenario,
      rounds: context.quick ? 2 : 3,
      warmUpRounds: 0,
      signal,
      onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
    },
  );
  await machine.destroy(sandbox);
  return [
    ...series.map((one) => ({ ...one, bytesMoved })),
    ...[...growth].map(([name, samples]): Series => ({ scenario, name, unit: "bytes", samples })),
  ];
}

/** The process whose memory is measured, and how to collect its garbage. */
interface Watched {
  readonly pid: number;
  readonly settle: () => Promise<void>;
}

/** Times a flood and records the process's maximum growth. */
async function timeWatched(
  { pid, settle }: Watched,
  act: () => Promise<void>,
  growth: number[],
): Promise<number> {
  await settle();
  const beforeBytes = rssBytes(pid);
  let elapsedUs = 0;
  const peakBytes = await peakRssDuring(pid, async () => {
    elapsedUs = await timeUs(act);
  });
  growth.push(Math.max(0, peakBytes - beforeBytes));
  return elapsedUs;
}

async function readChannel(channel: Channel, { bytes, text }: Flood): Promise<void> {
  let received = 0;
  await run(channel, { kind: "shell", text }, (chunk) => {
    received += chunk.bytes.byteLength;
  });
  mustBeAll(received, bytes, "the channel");
}

/** Reads the events without parsing them; their size and the last one verify the contents. */
async function readEvents(
  daemon: BenchDaemon,
  session: BenchSession,
  { bytes, text }: Flood,
): Promise<void> {
  let tail: Buffer = Buffer.alloc(0);
  const received = await daemon.client.read(
    "POST",
    `${session.path}/exec/stream`,
    { cmd: text },
    (piece) => {
      tail = piece.byteLength >= TAIL_BYTES ? piece : Buffer.concat([tail, piece]);
      tail = tail.subarray(-TAIL_BYTES);
    },
  );
  const last = /^event: done\ndata: (.*)\n\n$/mu.exec(tail.toString())?.[1];
  if (last === undefined) throw new Error(`a stream ended with ${tail.toString().slice(-500)}`);
  mustBeAll((JSON.parse(last) as ExecInfoBody).stdout_bytes, bytes, "the stream");
  // Each line end takes two characters in JSON.
  const leastBytes = bytes + Math.floor(bytes / (LINE.length + 1));
  if (received < leastBytes) throw new Error(`only ${received} bytes of events came`);
}

async function runCollected(session: BenchSession, { bytes, text }: Flood): Promise<void> {
  const result = await session.exec(text);
  mustBeAll(result.stdout_bytes, bytes, "the command");
}

async function readOnHost({ bytes, text }: Flood): Promise<void> {
  const child = spawn("sh", ["-c", text], { stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  let received = 0;
  for await (const chunk of child.stdout as AsyncIterable<Uint8Array>) received += chunk.byteLength;
  await closed;
  mustBeAll(received, bytes, "the host's pipe");
}

function mustBeAll(received: number, bytes: number, from: string): void {
  if (received !== bytes) throw new Error(`${received} of ${bytes} bytes came from ${from}`);
}
