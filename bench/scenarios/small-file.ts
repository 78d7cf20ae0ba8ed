/** A 1 KB file, written and read back, compared with `true` in the shell. */
import { Buffer } from "node:buffer";
import type { BenchDaemon } from "../bench-daemon.ts";
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";
import type { Channel } from "@sandkasten/daemon";

const CONTENT = Buffer.alloc(1024, "sandkasten ");
const NAME = "small.txt";

export const smallFile: Scenario = {
  name: "1 KB file",
  what: "written and read back, over the channel and over HTTP",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress } = context;
  await using daemon = await context.startDaemon();
  const sandbox = await machine.create();
  const series = await interleave(
    { ...overChannel(sandbox.channel), ...(await overHttp(daemon)) },
    {
      scenario: smallFile.name,
      rounds: context.quick ? 100 : 600,
      warmUpRounds: 50,
      signal,
      onRound: (round, rounds) => {
        if (round % 50 === 0) progress(`round ${round} of ${rounds}`);
      },
    },
  );
  await machine.destroy(sandbox);
  return series;
}

function overChannel(channel: Channel): Record<string, Contestant> {
  const write = (): Promise<unknown> => channel.writeFile(NAME, CONTENT);
  const read = async (): Promise<void> => {
    const { body } = await channel.readFile(NAME);
    mustBeUnchanged(Buffer.concat(await Array.fromAsync(body)));
  };
  return {
    "shell, true": () => timeUs(() => run(channel, TRUE_IN_SHELL)),
    "write + read": () => timeUs(inTurn(write, read)),
    write: () => timeUs(write),
    read: () => timeUs(read),
    stat: () => timeUs(() => channel.stat(NAME)),
  };
}

/** As JSON, which most clients use for small files, and as bytes. */
async function overHttp(daemon: BenchDaemon): Promise<Record<string, Contestant>> {
  const session = await daemon.open();
  const { client } = daemon;
  const write = (): Promise<unknown> =>
    client.text("POST", `${session.path}/fs/write`, {
      path: NAME,
      content_base64: CONTENT.toString("base64"),
    });
  const read = async (): Promise<void> => {
    const answer = await client.call<{ readonly content_base64: string }>(
      "GET",
      `${session.path}/fs/read?path=${NAME}`,
    );
    mustBeUnchanged(Buffer.from(answer.content_base64, "base64"));
  };
  const put = (): Promise<void> =>
    client.upload(session.filePath(NAME), CONTENT.byteLength, CONTENT);
  const get = async (): Promise<void> => {
    const pieces: Buffer[] = [];
    await client.read("GET", session.filePath(NAME), undefined, (piece) => pieces.push(piece));
    mustBeUnchanged(Buffer.concat(pieces));
  };
  return {
    "HTTP, healthz": () => timeUs(() => client.text("GET", "/healthz")),
    "HTTP, shell, true": () => timeUs(() => session.exec("true")),
    "HTTP, write + read": () => timeUs(inTurn(write, read)),
    "HTTP, write": () => timeUs(write),
    "HTTP, read": () => timeUs(read),
    "HTTP, put + get": () => timeUs(inTurn(put, get)),
  };
}

function inTurn(first: () => Promise<unknown>, second: () => Promise<unknown>) {
  return async (): Promise<void> => {
    await first();
    await second();
  };
}

function mustBeUnchanged(content: Buffer): void {
  if (!content.equals(CONTENT)) throw new Error("the file came back changed");
}
