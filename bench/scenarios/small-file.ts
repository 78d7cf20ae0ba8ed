/** A file of 1 KB, written and read back, beside `true` in the shell. */
import { Buffer } from "node:buffer";
import { run, TRUE_IN_SHELL } from "../bench-machine.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

export const smallFile: Scenario = {
  name: "1 KB file",
  what: "written and read back over the channel",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { machine, signal, progress } = context;
  const sandbox = await machine.create();
  const { channel } = sandbox;
  const content = Buffer.alloc(1024, "sandkasten ");
  const write = (): Promise<unknown> => channel.writeFile("small.txt", content);
  const read = async (): Promise<void> => {
    const { body } = await channel.readFile("small.txt");
    const parts = await Array.fromAsync(body);
    if (!Buffer.concat(parts).equals(content)) throw new Error("the file came back changed");
  };
  const series = await interleave(
    {
      "shell, true": () => timeUs(() => run(channel, TRUE_IN_SHELL)),
      "write + read": () =>
        timeUs(async () => {
          await write();
          await read();
        }),
      write: () => timeUs(write),
      read: () => timeUs(read),
      stat: () => timeUs(() => channel.stat("small.txt")),
    },
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
