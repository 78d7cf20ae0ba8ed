/** A 100 MB file up and down, compared with the same bytes through plain Node programs. */
import { Buffer } from "node:buffer";
import type { Channel } from "@sandkasten/daemon";
import { MIB } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import type { HttpClient } from "../http-client.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import { PlainHttp } from "../plain-http.ts";
import { PlainPeer, PORTION_BYTES } from "../plain-peer.ts";
import type { Series } from "../series.ts";

const NAME = "large.bin";
const BYTES = 100 * MIB;
const PORTION = Buffer.alloc(PORTION_BYTES, "sandkasten ");

export const largeFile: Scenario = {
  name: "100 MB file",
  what: "up and down over HTTP and over the channel, beside plain Node programs",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress, scratchDir } = context;
  await using plainHttp = await PlainHttp.start(scratchDir);
  await using peer = await PlainPeer.start(scratchDir);
  await using daemon = await context.startDaemon();
  const session = await daemon.open();
  const sandbox = await machine.create();
  const series = await interleave(
    {
      ...overHttp("plain HTTP", plainHttp.client, "/"),
      ...overHttp("HTTP", daemon.client, session.filePath(NAME)),
      "socket, up": () => timeUs(() => peer.send(BYTES, PORTION)),
      "socket, down": () => timeUs(() => peer.receive(BYTES)),
      ...overChannel(sandbox.channel),
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
  return series.map((one) => ({ ...one, bytesMoved: BYTES }));
}

function overHttp(name: string, client: HttpClient, path: string): Record<string, Contestant> {
  return {
    [`${name}, up`]: () => timeUs(() => client.upload(path, BYTES, PORTION)),
    [`${name}, down`]: () => timeUs(async () => mustBeAll(await client.read("GET", path))),
  };
}

function overChannel(channel: Channel): Record<string, Contestant> {
  return {
    "file, up": () => timeUs(() => channel.writeFile(NAME, portions())),
    "file, down": () =>
      timeUs(async () => {
        const { body } = await channel.readFile(NAME);
        let received = 0;
        for await (const chunk of body) received += chunk.byteLength;
        mustBeAll(received);
      }),
  };
}

async function* portions(): AsyncIterable<Uint8Array> {
  for (let left = BYTES; left > 0; left -= PORTION.byteLength)
    yield PORTION.subarray(0, Math.min(left, PORTION.byteLength));
}

function mustBeAll(received: number): void {
  if (received !== BYTES) throw new Error(`${received} of ${BYTES} bytes came`);
}
