/** A file of 100 MB up and down, beside the same bytes through a plain socket between Node processes. */
import { Buffer } from "node:buffer";
import { MIB } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import { PlainPeer, PORTION_BYTES } from "../plain-peer.ts";
import type { Series } from "../series.ts";

export const largeFile: Scenario = {
  name: "100 MB file",
  what: "up and down over the channel, beside a plain Unix socket between two Node processes",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress, scratchDir } = context;
  const bytesMoved = 100 * MIB;
  const portion = Buffer.alloc(PORTION_BYTES, "sandkasten ");
  await using peer = await PlainPeer.start(scratchDir);
  const sandbox = await machine.create();
  const { channel } = sandbox;
  const series = await interleave(
    {
      "socket, up": () => timeUs(() => peer.send(bytesMoved, portion)),
      "file, up": () => timeUs(() => channel.writeFile("large.bin", portions(portion, bytesMoved))),
      "socket, down": () => timeUs(() => peer.receive(bytesMoved)),
      "file, down": () =>
        timeUs(async () => {
          const { body } = await channel.readFile("large.bin");
          let received = 0;
          for await (const chunk of body) received += chunk.byteLength;
          if (received !== bytesMoved) throw new Error(`${received} of ${bytesMoved} bytes came`);
        }),
    },
    {
      scenario: largeFile.name,
      rounds: context.quick ? 3 : 9,
      warmUpRounds: 1,
      signal,
      onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
    },
  );
  await machine.destroy(sandbox);
  return series.map((one) => ({ ...one, bytesMoved }));
}

async function* portions(portion: Uint8Array, bytes: number): AsyncIterable<Uint8Array> {
  for (let left = bytes; left > 0; left -= portion.byteLength)
    yield portion.subarray(0, Math.min(left, portion.byteLength));
}
