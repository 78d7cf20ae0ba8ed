import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ImageLibrary } from "./image-library.ts";
import { parseReference } from "./reference.ts";
import { sha256 } from "./testing/oci-writer.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";

const digest = sha256("an image");
const entry = {
  reference: "one:1",
  repository: "one",
  digest,
  sourceDigest: digest,
  source: "rootfs",
} as const;
const syncTree = async (): Promise<void> => undefined;

async function libraryIn(
  fixture: StoreFixture,
): Promise<{ library: ImageLibrary; unpacked: () => number; publish: () => Promise<unknown> }> {
  const library = await ImageLibrary.open(join(fixture.directory, "library"), () => 1);
  let count = 0;
  const publish = async (): Promise<unknown> =>
    await library.publish(
      entry,
      async (rootfs) => {
        count += 1;
        await mkdir(rootfs);
        await writeFile(join(rootfs, "x"), "x");
        return { sizeBytes: 1, env: {} };
      },
      { syncTree },
    );
  return { library, unpacked: () => count, publish };
}

describe("removing an image that gets a name at the last moment", () => {
  test("restores it if it was named while it was hidden", async () => {
    await using fixture = await storeFixture();
    const { library, publish } = await libraryIn(fixture);
    await publish();
    const removed = await library.directories.remove(digest, async () => true);
    expect(removed).toBe(false);
    expect(existsSync(join(library.directories.rootfsPath(digest), "x"))).toBe(true);
  });

  test("keeps the new one if it was unpacked again in the meantime", async () => {
    await using fixture = await storeFixture();
    const { library, publish, unpacked } = await libraryIn(fixture);
    await publish();
    await library.directories.remove(digest, async () => {
      await publish();
      return true;
    });
    expect(unpacked()).toBe(2);
    expect(await library.find(parseReference("one:1"), undefined)).toMatchObject({
      entry,
      record: { digest },
    });
    expect(existsSync(join(library.directories.rootfsPath(digest), "x"))).toBe(true);
  });
});

test("publish() writes no name and leaves no directory if unpacking fails", async () => {
  await using fixture = await storeFixture();
  const { library } = await libraryIn(fixture);
  const failing = library.publish(entry, async () => await Promise.reject(new Error("broken")), {
    syncTree,
  });
  await expect(failing).rejects.toThrow("broken");
  expect(await library.list(undefined)).toEqual([]);
  expect(await library.directories.listDigests()).toEqual([]);
});

test("publish() leaves nothing incomplete if the files cannot be written to disk", async () => {
  await using fixture = await storeFixture();
  const { library } = await libraryIn(fixture);
  const unpack = async (
    rootfs: string,
  ): Promise<{ sizeBytes: number; env: Record<string, string> }> => {
    await mkdir(rootfs);
    return { sizeBytes: 0, env: {} };
  };
  const failing = library.publish(entry, unpack, {
    syncTree: async () => await Promise.reject(new Error("no disk")),
  });
  await expect(failing).rejects.toThrow("no disk");
  expect(await library.directories.listDigests()).toEqual([]);
});
