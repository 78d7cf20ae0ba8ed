import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JournalPage } from "../ports/exec-journal.ts";
import type { ExecHandle } from "./services/exec-service.ts";
import { ALICE, CoreFixture } from "./testing/core-fixture.ts";

const KIB = 1024;
const BLOCK_BYTES = 192 * KIB;
/** Less and more than the journal keeps of one command. */
const KEPT_BYTES = 2048 * KIB;
const FLOOD_BYTES = 6144 * KIB;

let fixture: CoreFixture;
let id: string;
beforeAll(async () => {
  fixture = await CoreFixture.start();
  id = (await fixture.core.sessions.create(ALICE, {})).session.id;
  using visit = await fixture.core.sessions.enter(ALICE, id);
  await visit.channel.writeFile("kept", numbers(KEPT_BYTES));
  await visit.channel.writeFile("flood", numbers(FLOOD_BYTES));
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

/** Each word contains its own position, so misplaced bytes are visible. */
function numbers(bytes: number): Buffer {
  const words = Uint32Array.from({ length: bytes / 4 }, (_, index) => index);
  return Buffer.from(words.buffer);
}

async function start(text: string): Promise<ExecHandle> {
  return await fixture.core.execs.start(ALICE, id, { command: { kind: "shell", text } });
}

/** Everything that a follower gets, and where it was in memory. */
class Reader {
  readonly pieces: Buffer[] = [];
  readonly blocks = new Set<ArrayBufferLike>();
  skippedBytes = 0;
  cursor = 0;
  readonly #pauseMs: number | undefined;

  constructor(pauseMs?: number) {
    this.#pauseMs = pauseMs;
  }

  /** Until the end, or until the last wanted page. */
  async follow(
    exec: ExecHandle,
    isEnough: () => boolean | Promise<boolean> = () => false,
  ): Promise<void> {
    for await (const page of exec.follow({ offset: this.cursor, reusesMemory: true })) {
      if (this.#pauseMs !== undefined)
        await new Promise((resolve) => setTimeout(resolve, this.#pauseMs));
      this.#take(page);
      if (await isEnough()) return;
    }
  }

  get bytes(): Buffer {
    return Buffer.concat(this.pieces);
  }

  #take({ chunks, skippedBytes, nextOffset }: JournalPage): void {
    this.skippedBytes += skippedBytes;
    this.cursor = nextOffset;
    for (const { bytes } of chunks) {
      this.pieces.push(Buffer.from(bytes));
      if (bytes.buffer.byteLength === BLOCK_BYTES) this.blocks.add(bytes.buffer);
    }
  }
}

describe("a follower's memory", () => {
  it("is one block for all pages of a flood, and none for little output", async () => {
    const [much, little] = [new Reader(), new Reader()];
    await much.follow(await start("cat kept"));
    await little.follow(await start("echo little"));
    expect(much.bytes.equals(numbers(KEPT_BYTES))).toBe(true);
    expect(much.blocks.size).toBe(1);
    expect(little.bytes.toString()).toBe("little\n");
    expect(little.blocks.size).toBe(0);
  });

  it("is not shared by followers of one command, whatever their speeds", async () => {
    const exec = await start("cat flood");
    const readers = [new Reader(), new Reader(3), new Reader(1)];
    await Promise.all(readers.map((reader) => reader.follow(exec)));
    for (const reader of readers) expect(reader.bytes.equals(numbers(FLOOD_BYTES))).toBe(true);
    expect(new Set(readers.flatMap(({ blocks }) => [...blocks])).size).toBe(readers.length);
  });

  it("holds the right output for a follower that returns after more than it missed was dropped", async () => {
    const exec = await start("cat flood");
    const reader = new Reader();
    await reader.follow(exec, () => reader.cursor > 300 * KIB);
    const { droppedBytes } = await exec.wait();
    await reader.follow(exec);
    expect(droppedBytes).toBeGreaterThan(0);
    expect(reader.skippedBytes).toBe(droppedBytes);
    const all = numbers(FLOOD_BYTES);
    const { bytes } = reader;
    const keptHead = bytes.findIndex((byte, index) => byte !== all[index]);
    expect(bytes.subarray(keptHead).equals(all.subarray(keptHead + droppedBytes))).toBe(true);
  });

  it("keeps what was read if the journal fails, and does not affect others", async () => {
    const exec = await start("cat kept");
    await exec.wait();
    const [failing, other] = [new Reader(), new Reader(1)];
    const following = other.follow(await start("cat flood"));
    const directory = join(fixture.directory, "journal", id, exec.id);
    await expect(
      failing.follow(exec, async () => {
        await breakFiles(directory);
        return false;
      }),
    ).rejects.toThrow("reading output");
    const { bytes } = failing;
    expect(bytes.length).toBeGreaterThan(0);
    expect(bytes.equals(numbers(KEPT_BYTES).subarray(0, bytes.length))).toBe(true);
    await following;
    expect(other.bytes.equals(numbers(FLOOD_BYTES))).toBe(true);
  });
});

/** Directories can be opened, but not read. */
async function breakFiles(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    await rm(join(directory, name), { recursive: true });
    await mkdir(join(directory, name));
  }
}
