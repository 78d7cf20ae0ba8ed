/**
 * Oracle N: what was acknowledged is still true later. It logs every write and command when it is
 * tried and when it is acknowledged; after the fault, it checks all of them through a new channel.
 */
import { createHash, randomBytes } from "node:crypto";
import type { Channel, ExecEnd } from "@sandkasten/daemon";
import { testSandbox } from "../sandbox-machine.ts";

/** Each command appends its id to this file, which shows how often it ran. */
const RUNS = "/workspace/.runs";

interface Written {
  /** The content of the last acknowledged write. */
  acknowledged?: string;
  /** Contents of later unacknowledged writes, which may or may not be there. */
  readonly unanswered: Set<string>;
}

export class AcknowledgedLog {
  readonly #files = new Map<string, Written>();
  readonly #commands = new Map<string, "tried" | "acknowledged">();

  /** Writes, and remembers when the sandbox has acknowledged it. */
  async write(channel: Channel, path: string, content: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(content);
    const digest = digestOf(bytes);
    const file = this.#files.get(path) ?? { unanswered: new Set() };
    this.#files.set(path, file);
    file.unanswered.add(digest);
    await channel.writeFile(path, bytes);
    file.acknowledged = digest;
    file.unanswered.clear();
  }

  /** Runs a shell command. A command with an unknown end was not acknowledged. */
  async sh(channel: Channel, command: string): Promise<ExecEnd> {
    const id = `run-${randomBytes(8).toString("hex")}`;
    this.#commands.set(id, "tried");
    const end = await testSandbox("", channel).sh(`echo ${id} >> ${RUNS}; ${command}`);
    if (end.reason === "exited") this.#commands.set(id, "acknowledged");
    return end;
  }

  get size(): number {
    return this.#files.size + this.#commands.size;
  }

  /** Throws with everything that is lost, incomplete, or has run twice. */
  async verify(channel: Channel): Promise<void> {
    const faults: string[] = [];
    for (const [path, file] of this.#files) {
      const found = await digestIn(channel, path);
      if (found !== file.acknowledged && !file.unanswered.has(found ?? ""))
        if (file.acknowledged !== undefined || found !== undefined)
          faults.push(`${path}: ${found === undefined ? "lost" : "holds what nobody wrote"}`);
    }
    const runs = this.#commands.size === 0 ? "" : ((await textIn(channel, RUNS)) ?? "");
    const counts = Map.groupBy(runs.split("\n"), (id) => id);
    for (const [id, state] of this.#commands) {
      const times = counts.get(id)?.length ?? 0;
      if (state === "acknowledged" && times !== 1)
        faults.push(`${id}: acknowledged, but ran ${times} times`);
      if (state === "tried" && times > 1) faults.push(`${id}: ran ${times} times`);
    }
    if (faults.length > 0)
      throw new Error(`What was acknowledged does not hold:\n  ${faults.join("\n  ")}`);
  }
}

async function digestIn(channel: Channel, path: string): Promise<string | undefined> {
  const bytes = await bytesIn(channel, path);
  return bytes === undefined ? undefined : digestOf(bytes);
}

async function textIn(channel: Channel, path: string): Promise<string | undefined> {
  return (await bytesIn(channel, path))?.toString("utf8");
}

async function bytesIn(channel: Channel, path: string): Promise<Buffer | undefined> {
  try {
    const { body } = await channel.readFile(path);
    return Buffer.concat(await Array.fromAsync(body));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "FILE_NOT_FOUND")
      return undefined;
    throw error;
  }
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
