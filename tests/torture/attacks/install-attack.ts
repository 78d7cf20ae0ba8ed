/**
 * Programs that attack from inside: compiled on this machine, without libraries, and installed in a
 * sandbox.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Channel } from "@sandkasten/daemon";

const run = promisify(execFile);

export type Attack =
  | "emit"
  | "exchange"
  | "flood-report"
  | "open-output"
  | "reach-init"
  | "stop-newcomers"
  | "swap-link";

/** Compiles the program; it exists until the work with it is done. */
export async function withAttack<T>(
  attack: Attack,
  work: (program: string) => Promise<T>,
): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-attack-"));
  try {
    const program = join(directory, attack);
    const source = fileURLToPath(new URL(`${attack}.c`, import.meta.url));
    await run("gcc", ["-static", "-O2", "-Wall", "-Werror", "-o", program, source]);
    return await work(program);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Returns the program's path inside. */
export async function installAttack(channel: Channel, attack: Attack): Promise<string> {
  const path = `/home/sandbox/${attack}`;
  await withAttack(attack, async (program) => {
    await channel.writeFile(path, await readFile(program), { mode: 0o755 });
  });
  return path;
}
