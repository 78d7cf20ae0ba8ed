/** Summarizes in one word how an operation on a hostile sandbox went, including a hang. */
import { SandboxError } from "@sandkasten/protocol";
import type { Channel } from "@sandkasten/daemon";
import type { Ran, TestSandbox } from "../../support/sandbox-machine.ts";

/** Longer than any honest answer here takes, shorter than the channel's own deadlines. */
const HANG_MS = 8_000;

/** `"done"`, the code of the error, or `"HANGS"`. Operations that move much data take a longer limit. */
export async function outcomeOf(operation: Promise<unknown>, hangMs = HANG_MS): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const hang = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve("HANGS"), hangMs);
  });
  const ending = operation.then(
    () => "done",
    (error: unknown) => {
      if (error instanceof SandboxError) return error.code;
      throw error;
    },
  );
  try {
    return await Promise.race([ending, hang]);
  } finally {
    clearTimeout(timer);
  }
}

export async function readAll(
  channel: Channel,
  path: string,
  range?: Parameters<Channel["readFile"]>[1],
): Promise<Buffer> {
  return bytesOf((await channel.readFile(path, range)).body);
}

/** All bytes of a stream, or of an object with one as its body. */
export async function bytesOf(
  source: ReadableStream<Uint8Array> | { readonly body: ReadableStream<Uint8Array> },
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const bytes of "body" in source ? source.body : source)
    parts.push(Uint8Array.from(bytes));
  return Buffer.concat(parts);
}

/** Kills everything that code may kill, and returns the first command that the next shell ran. */
export async function afterKillingAll(sandbox: TestSandbox, text: string): Promise<Ran> {
  await sandbox.run(["bash", "-c", "kill -STOP -1; kill -TERM -1; kill -9 -1"], {
    timeoutMs: 4_000,
  });
  const deadline = performance.now() + HANG_MS;
  for (;;) {
    const ran = await sandbox.sh(text, { timeoutMs: 4_000 });
    // A command that arrived while the old shell was dying has died with it, and reports that.
    if (ran.reason !== "killed" || performance.now() > deadline) return ran;
  }
}
