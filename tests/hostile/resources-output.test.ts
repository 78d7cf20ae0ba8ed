/** Threat: floods of output. Endless output uses no memory of the reader. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ExecStream } from "@sandkasten/daemon";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MIB } from "../support/sandbox-machine.ts";
import { ResourceMachine } from "./probe/resource-machine.ts";
import { skipUnlessUsable } from "./probe/usable-runtime.ts";

const SIGKILL = 9;
const MAX_GROWTH_BYTES = 32 * MIB;
const FLOOD_BYTES = 2 * 1024 * MIB;
const WARM_UP_BYTES = 64 * MIB;
/** A slow machine need not read all of it. */
const FLOOD_MS = 5_000;

describe("a command that prints endlessly", () => {
  const reason = skipUnlessUsable();
  let arena: ResourceMachine;
  beforeAll(async () => {
    if (reason === undefined) arena = await ResourceMachine.start();
  });
  afterAll(async () => {
    await arena?.[Symbol.asyncDispose]();
  });

  test("uses no memory of a reader that keeps up", () =>
    arena.attacked({}, async ({ attacker: { channel }, healthily }) => {
      const flood = (bytes: number, execId: string): Promise<ExecStream> =>
        channel.exec({ kind: "shell", text: `yes | head -c ${bytes}` }, { execId });
      // The memory needed for reading at all, compiled code and heap, is not growth.
      for await (const { bytes } of await flood(WARM_UP_BYTES, "warm-up")) void bytes;
      const rss = new RssWatch();
      let bytesRead = 0;
      await healthily(async () => {
        const stream = await flood(FLOOD_BYTES, "flood");
        const started = performance.now();
        for await (const { bytes } of stream) {
          bytesRead += bytes.byteLength;
          rss.look();
          if (performance.now() - started > FLOOD_MS) break;
        }
        await channel.signal("flood", SIGKILL, { tree: true });
        stream.detach();
      });
      expect(bytesRead).toBeGreaterThan(64 * MIB);
      expect((await channel.ping()).rssBytes).toBeLessThan(16 * MIB);
      expect(rss.grownBytes / MIB).toBeLessThan(MAX_GROWTH_BYTES / MIB);
    }));

  test("waits for a reader that does not keep up, without memory on either side", () =>
    arena.attacked({}, async ({ attacker: { channel, run }, healthily }) => {
      const rss = new RssWatch();
      const stream = await channel.exec({ kind: "process", argv: ["yes"] }, { execId: "flood" });
      const reader = stream[Symbol.asyncIterator]();
      let bytesRead = 0;
      await healthily(async () => {
        for (let i = 0; i < 8; i++) {
          bytesRead += (await reader.next()).value?.bytes.byteLength ?? 0;
          rss.look();
          await sleep(150);
        }
      });
      const [flood] = (await channel.listExecs()).filter(({ execId }) => execId === "flood");
      // Unread output waits in the sandbox: a spool of 1 MiB, the credit, and a pipe.
      expect((flood?.stdoutBytes ?? 0) - bytesRead).toBeLessThan(2 * MIB);
      expect(await run(["echo", "beside"])).toMatchObject({ stdout: "beside\n" });
      expect((await channel.ping()).rssBytes).toBeLessThan(16 * MIB);
      expect(rss.grownBytes / MIB).toBeLessThan(MAX_GROWTH_BYTES / MIB);
      await channel.signal("flood", SIGKILL);
      await reader.return?.();
      stream.detach();
    }));

  test("fills only its own bounded spool without a reader", () =>
    arena.attacked({}, async ({ attacker: { channel, sh } }) => {
      const rss = new RssWatch();
      const stream = await channel.exec({ kind: "process", argv: ["yes"] }, { execId: "unread" });
      stream.detach();
      // A background process continues to print after its command has ended.
      expect(await sh("yes & disown; echo started")).toMatchObject({ exitCode: 0 });
      await sleep(1_000);
      rss.look();
      expect((await channel.ping()).rssBytes).toBeLessThan(16 * MIB);
      expect(rss.grownBytes / MIB).toBeLessThan(MAX_GROWTH_BYTES / MIB);
      expect(await sh("echo running")).toMatchObject({ stdout: "running\n" });
    }));
});

/** The maximum growth of this process's memory. */
class RssWatch {
  readonly #before = process.memoryUsage.rss();
  #most = this.#before;

  look(): void {
    this.#most = Math.max(this.#most, process.memoryUsage.rss());
  }

  get grownBytes(): number {
    return this.#most - this.#before;
  }
}
