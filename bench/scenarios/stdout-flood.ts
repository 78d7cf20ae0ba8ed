/** 1 GB of stdout: how fast it comes, and how much this process grows meanwhile. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MIB, run } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import { collectGarbage, peakRssDuring } from "../process-memory.ts";
import type { Series } from "../series.ts";

export const stdoutFlood: Scenario = {
  name: "1 GB stdout",
  what: "read as it comes, beside the same command's pipe read by Node on the host",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress } = context;
  const bytesMoved = context.quick ? 256 * MIB : 1024 * MIB;
  const text = `head -c ${bytesMoved} /dev/zero`;
  const sandbox = await machine.create();
  const growth: Record<string, number[]> = { "growth of RSS": [], "growth of RSS, host pipe": [] };
  /** Times a flood and notes by how much this process grew at most. */
  const watched = async (
    name: keyof typeof growth,
    flood: () => Promise<void>,
  ): Promise<number> => {
    collectGarbage();
    const beforeBytes = process.memoryUsage.rss();
    let elapsedUs = 0;
    const peakBytes = await peakRssDuring(async () => {
      elapsedUs = await timeUs(flood);
    });
    growth[name]?.push(Math.max(0, peakBytes - beforeBytes));
    return elapsedUs;
  };
  const fromSandbox = async (): Promise<void> => {
    let received = 0;
    await run(sandbox.channel, { kind: "shell", text }, ({ bytes }) => {
      received += bytes.byteLength;
    });
    if (received !== bytesMoved) throw new Error(`${received} of ${bytesMoved} bytes came`);
  };
  const series = await interleave(
    {
      sandbox: () => watched("growth of RSS", fromSandbox),
      "host pipe": () => watched("growth of RSS, host pipe", () => readOnHost(text, bytesMoved)),
    },
    {
      scenario: stdoutFlood.name,
      rounds: context.quick ? 2 : 5,
      warmUpRounds: 0,
      signal,
      onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
    },
  );
  await machine.destroy(sandbox);
  return [
    ...series.map((one) => ({ ...one, bytesMoved })),
    ...Object.entries(growth).map(([name, samples]): Series => ({
      scenario: stdoutFlood.name,
      name,
      unit: "bytes",
      samples,
    })),
  ];
}

async function readOnHost(text: string, bytes: number): Promise<void> {
  const child = spawn("sh", ["-c", text], { stdio: ["ignore", "pipe", "inherit"] });
  const closed = once(child, "close");
  let received = 0;
  for await (const chunk of child.stdout as AsyncIterable<Uint8Array>) received += chunk.byteLength;
  await closed;
  if (received !== bytes)
    throw new Error(`${received} of ${bytes} bytes came from the host's pipe`);
}
