/**
 * A process that creates a sandbox, starts work in it and is then killed by the test that started
 * it: `node abandoned-daemon.ts DATA_DIR RUNTIME EMIT BYTES`. One line of JSON says when it is
 * ready to be killed.
 */
import { readFile } from "node:fs/promises";
import { composeEmbedded } from "@sandkasten/daemon";
import { RUNTIME_DIR } from "../support/gvisor.ts";
import type { EmbeddedRuntime } from "../support/runtime-under-test.ts";
import { newSandboxId, TEST_LIMITS, testSandbox } from "../support/sandbox-machine.ts";

/** What the test needs to continue. */
export interface Abandoned {
  readonly id: string;
  /** A process that was never read from, and a shell command that was read up to an offset. */
  readonly unread: string;
  readonly halfRead: string;
  readonly halfReadOffset: number;
}

const CHUNKS_TO_READ = 5;

async function main(
  dataDir: string,
  runtime: EmbeddedRuntime,
  emit: string,
  bytes: string,
): Promise<void> {
  const { backend } = await composeEmbedded({ dataDir, runtime, runtimeDir: RUNTIME_DIR });
  const id = newSandboxId();
  const spec = { image: "host", limits: TEST_LIMITS, profile: "restricted", env: {} } as const;
  await backend.create({ ...spec, id });
  const { channel, sh } = testSandbox(id, await backend.open(id));
  await channel.writeFile("/home/sandbox/emit", await readFile(emit), { mode: 0o755 });
  await channel.writeFile("notes/kept.txt", Buffer.from("kept"));
  await sh("cd notes; KEPT='still here'; greet() { echo \"hello $1\"; }; sleep 1000 &");
  const unread = "exec_unread";
  await channel.exec(
    { kind: "process", argv: ["/home/sandbox/emit", bytes, "4242"] },
    { execId: unread },
  );
  const halfRead = "exec_half_read";
  const exec = await channel.exec(
    { kind: "shell", text: `~/emit ${bytes} 2424; status=done` },
    { execId: halfRead },
  );
  const reading = exec[Symbol.asyncIterator]();
  let halfReadOffset = 0;
  for (let i = 0; i < CHUNKS_TO_READ; i++) {
    const { value } = await reading.next();
    if (value !== undefined) halfReadOffset = value.offset + value.bytes.length;
  }
  const ready: Abandoned = { id, unread, halfRead, halfReadOffset };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
}

const [dataDir = "", runtime = "", emit = "", bytes = ""] = process.argv.slice(2);
await main(dataDir, runtime as EmbeddedRuntime, emit, bytes);
